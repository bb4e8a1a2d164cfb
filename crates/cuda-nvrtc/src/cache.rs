//! Compilations kept on disk, for other runs and other processes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use self::closure::Closure;
use self::compiler::Compiler;
use self::entry::Entry;
use self::request::Request;
use self::stamp::Digest;
use self::stats::{Counters, count};
use self::store::{Kind, Lock, Store};
use crate::flow::Flow;
use crate::output::sealed::TOKEN;
use crate::{Compiled, Error, Options, Output, Program};

mod arguments;
mod cached;
mod closure;
mod compiler;
mod entry;
pub(crate) mod image;
mod key;
mod notes;
mod paths;
mod refusal;
mod request;
mod scan;
mod stamp;
mod stats;
mod store;

pub use cached::{Cached, Outcome};
pub use refusal::Refusal;
pub use stats::CacheStats;

/// The environment variable that [`Cache::system`] obeys: `off`, `read-only`, or a folder.
const VARIABLE: &str = "CUDA_NVRTC_CACHE";

/// The size that a cache has unless it is told another.
const LIMIT: u64 = 1 << 30;

/// What a cache does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CacheMode {
    /// Looks entries up, and keeps what is compiled.
    #[default]
    On,
    /// Looks entries up, and changes nothing in the folder.
    ReadOnly,
    /// Compiles always.
    Off,
}

/// A folder of compilations. Clones share it; so do other processes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Ok(nvrtc) = cuda_nvrtc::Nvrtc::load() else { println!("skipped: no NVRTC"); return Ok(()) };
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("cache");
/// use cuda_nvrtc::{Cache, Options, Program, Ptx};
///
/// let program = Program::new(&nvrtc, "__global__ void k(int *x) { *x = 1; }");
/// let cache = Cache::open(&dir);
/// let first = cache.compile::<Ptx>(&program, &Options::new())?;
/// let second = Cache::open(&dir).compile::<Ptx>(&program, &Options::new())?;
/// assert!(!first.is_hit() && second.is_hit());
/// assert_eq!(first.compiled, second.compiled);
/// # Ok(())
/// # }
/// ```
///
/// # What makes a hit
///
/// Everything that decides the result has to be the same: the kind of output, the source and its
/// name, the headers in memory, the options and name expressions in their order, the current folder
/// (it is in debug information), the environment variables that NVRTC looks at, and the compiler,
/// by the content of its files. And every file that the compiler may have read has to have the
/// content that it had, and every place where it looked for one in vain has to be empty still.
/// NVRTC does not tell which files these are; a superset is found by looking through the texts, and
/// a compilation for which that is not possible is not kept ([`Refusal`]). The content of a file is
/// compared by its digest, or, if it had not changed for 2 s when it was read, by device, inode,
/// size and the times of the last change of content and inode, which no program can set at will
/// ([`always_digest`](CacheBuilder::always_digest) reads it always).
///
/// # What is in the folder
///
/// An entry is the image, the names, the log and the digests of the headers, and its own digest at
/// the end: one that is cut off or altered is never used, but replaced. It is written beside and
/// renamed. Processes and threads that want the same compilation wait for the one that does it. The
/// folder is made for its user alone, and one into which other users could write is not used.
///
/// A folder that cannot be used, a full disk and the like are no errors: everything is compiled
/// then, and [`problem`](Self::problem) tells why.
///
/// # Known holes
///
/// - A macro name made by token pasting (`__TI##ME__`) is not seen.
/// - A file that is in the way of a header only while the program is compiled is not seen.
/// - `#pragma once` in two files that were one (by links) and no longer are, or the other way
///   round.
/// - A file changed through a memory map that has been open since before the file was read; on a
///   network file system whose server's clock is more than 2 s behind, a file changed twice within
///   one tick of that clock.
/// - Where there are no Unix permissions, who may write to the folder is not looked at: give it one
///   of your own. There, programs that include a header from disk are not kept.
/// - The working folder or environment of the process changed by another thread during the
///   compilation.
#[derive(Clone, Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Option<Store>,
    mode: CacheMode,
    limit: u64,
    always_digest: bool,
    counters: Counters,
}

/// How to open a [`Cache`].
#[derive(Clone, Debug)]
#[must_use]
pub struct CacheBuilder {
    dir: Option<PathBuf>,
    mode: CacheMode,
    limit: u64,
    always_digest: bool,
    /// Whether `dir` is the value of the environment variable.
    is_from_variable: bool,
}

impl CacheBuilder {
    /// What the cache does; [`CacheMode::On`] unless set.
    pub fn mode(mut self, mode: CacheMode) -> Self {
        self.mode = mode;
        self
    }

    /// The most bytes that the entries may have; 1 GiB unless set. What was used longest ago goes
    /// first.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Reads every header on every hit, whatever the file system says about it.
    pub fn always_digest(mut self, on: bool) -> Self {
        self.always_digest = on;
        self
    }

    /// Opens the cache. Never fails: see [`Cache::problem`].
    #[must_use]
    pub fn open(self) -> Cache {
        let counters = Counters::default();
        let opened = match (self.mode, &self.dir) {
            (CacheMode::Off, _) => Err(None),
            (_, None) => Err(Some("no folder is known for a user's caches".to_owned())),
            (_, Some(dir)) if self.is_from_variable && !dir.is_absolute() => Err(Some(format!(
                "{VARIABLE} is set to {}, which is neither on, off, read-only nor the full path of a \
                 folder; correct or unset it",
                dir.display()
            ))),
            (mode, Some(dir)) => Store::open(dir, mode == CacheMode::On).map_err(|problem| {
                Some(if self.is_from_variable {
                    let value = dir.display();
                    format!(
                        "{VARIABLE} is set to {value}, which cannot be used: {problem}; correct or \
                         unset {VARIABLE}"
                    )
                } else {
                    problem
                })
            }),
        };
        let (store, mode) = match opened {
            Ok(store) => (Some(store), self.mode),
            Err(problem) => {
                if let Some(problem) = problem {
                    counters.set_problem(problem);
                }
                (None, CacheMode::Off)
            }
        };
        let shared = Shared {
            store,
            mode,
            limit: self.limit,
            always_digest: self.always_digest,
            counters,
        };
        Cache {
            shared: Arc::new(shared),
        }
    }
}

impl Cache {
    /// The cache in the folder `dir`, which is made if it is not there. Never fails: see
    /// [`problem`](Self::problem).
    #[must_use]
    pub fn open(dir: impl AsRef<Path>) -> Self {
        Self::builder(dir).open()
    }

    /// Opens the cache of this user in [`default_dir`](Self::default_dir), or as the environment
    /// variable `CUDA_NVRTC_CACHE` says: `on`, `off`, `read-only`, or the full path of another
    /// folder. An empty variable counts as unset.
    ///
    /// If the variable has another value, or its folder cannot be used, nothing is cached and
    /// [`problem`](Self::problem) names the variable: a cache that does not work is not a reason
    /// not to compile.
    #[must_use]
    pub fn system() -> Self {
        let builder = CacheBuilder {
            dir: Self::default_dir(),
            mode: CacheMode::On,
            limit: LIMIT,
            always_digest: false,
            is_from_variable: false,
        };
        match cuda_places::variable(VARIABLE) {
            None => builder,
            Some(value) if value == "on" => builder,
            Some(value) if value == "off" => builder.mode(CacheMode::Off),
            Some(value) if value == "read-only" => builder.mode(CacheMode::ReadOnly),
            Some(value) => CacheBuilder {
                is_from_variable: true,
                ..Self::builder(PathBuf::from(value))
            },
        }
        .open()
    }

    /// A cache in the folder `dir`, to be told more.
    pub fn builder(dir: impl AsRef<Path>) -> CacheBuilder {
        CacheBuilder {
            dir: Some(dir.as_ref().to_owned()),
            mode: CacheMode::On,
            limit: LIMIT,
            always_digest: false,
            is_from_variable: false,
        }
    }

    /// The folder for this user's cache: `cuda-nvrtc/programs` in `XDG_CACHE_HOME`, `LOCALAPPDATA`
    /// or `~/.cache`.
    #[must_use]
    pub fn default_dir() -> Option<PathBuf> {
        crate::headers::cache_dir().map(|dir| dir.join("cuda-nvrtc").join("programs"))
    }

    /// The folder, if it is in use, without symbolic links.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.shared.store.as_ref().map(Store::dir)
    }

    /// What it does. [`CacheMode::Off`] if the folder cannot be used.
    #[must_use]
    pub fn mode(&self) -> CacheMode {
        self.shared.mode
    }

    /// What is wrong with the folder, if something is or was: it cannot be made or written, others
    /// could write to it, the disk is full. Compilations work nevertheless.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.shared.counters.problem()
    }

    /// What the cache did since it was opened. Looks through the folder.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let usage = self.shared.store.as_ref().map(Store::usage);
        self.shared.counters.stats(usage.unwrap_or_default())
    }

    /// Removes all entries.
    ///
    /// # Errors
    ///
    /// What the system says about a file that cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        match (&self.shared.store, self.shared.mode) {
            (Some(store), CacheMode::On) => store.clear(),
            _ => Ok(()),
        }
    }

    /// Gives the compilation of `program` with `options`, from the folder if it is there.
    ///
    /// # Errors
    ///
    /// As [`Program::compile`]. What does not compile is not kept.
    pub fn compile<T: Output>(
        &self,
        program: &Program,
        options: &Options,
    ) -> Result<Cached<T>, Error> {
        self.shared.compile(program, options)
    }
}

/// A compilation on its way.
struct Task<'a> {
    store: &'a Store,
    program: &'a Program,
    options: &'a Options,
    request: Request<'a>,
    compiler: Compiler,
    key: Digest,
    flow: Flow,
    start: Instant,
}

impl Shared {
    fn compile<T: Output>(&self, program: &Program, options: &Options) -> Result<Cached<T>, Error> {
        let counters = &self.counters;
        let Some(store) = &self.store else {
            count(&counters.misses, 1);
            let compiled = program.compile(options)?;
            return Ok(Cached::new(compiled, Outcome::Off));
        };
        let start = Instant::now();
        let flow = Flow::start(options);
        if let Some(error) = flow.stopped() {
            return Err(error);
        }
        let arguments = T::prepare(options, TOKEN)?.render(program.nvrtc.version())?;
        let told = (|| {
            let request = Request::new(
                &program.source,
                &program.name,
                &program.headers,
                &program.name_expressions,
                &arguments,
            )?;
            let compiler = Compiler::of(&program.nvrtc, store, self.mode == CacheMode::On)?;
            let key = key::of(&request, T::NAME, &compiler.digest)?;
            Ok((request, compiler, key))
        })();
        let (request, compiler, key) = match told {
            Ok(told) => told,
            Err(refusal) => return self.refuse(refusal, program, options),
        };
        let task = Task {
            store,
            program,
            options,
            request,
            compiler,
            key,
            flow,
            start,
        };
        let read_only = self.mode == CacheMode::ReadOnly;
        if let Some(compiled) = self.look_up(&task, read_only) {
            return Ok(compiled);
        }
        if read_only {
            count(&counters.misses, 1);
            let compiled = program.compile(options)?;
            return Ok(Cached::new(compiled, Outcome::ReadOnly));
        }
        self.make(&task)
    }

    fn refuse<T: Output>(
        &self,
        refusal: Refusal,
        program: &Program,
        options: &Options,
    ) -> Result<Cached<T>, Error> {
        self.counters.refuse(refusal);
        count(&self.counters.misses, 1);
        let compiled = program.compile(options)?;
        Ok(Cached::new(compiled, Outcome::Refused(refusal)))
    }

    /// The entry, if there is one to use. Counts one that is not if this is the `last` look.
    fn look_up<T: Output>(&self, task: &Task<'_>, last: bool) -> Option<Cached<T>> {
        let touch = self.mode == CacheMode::On;
        let bytes = task.store.read(Kind::Entry, &task.key, touch)?;
        let Some(entry) = Entry::<T>::from_bytes(&task.key, &bytes) else {
            count(&self.counters.corrupt, u64::from(last));
            return None;
        };
        if !entry.closure.is_current(self.always_digest) {
            count(&self.counters.stale, u64::from(last));
            return None;
        }
        count(&self.counters.hits, 1);
        Some(Cached::new(entry.compiled, Outcome::Hit))
    }

    /// Compiles, as the only one to do so, and keeps it.
    fn make<T: Output>(&self, task: &Task<'_>) -> Result<Cached<T>, Error> {
        let lock = self.lock(task)?;
        // Whoever had the lock may have made it.
        if let Some(compiled) = self.look_up(task, true) {
            return Ok(compiled);
        }
        let fresh = match closure::collect(&task.request) {
            Ok(fresh) => fresh,
            Err(refusal) => {
                drop(lock);
                self.counters.refuse(refusal);
                count(&self.counters.misses, 1);
                let compiled = Self::compile_now(task)?;
                return Ok(Cached::new(compiled, Outcome::Refused(refusal)));
            }
        };
        count(&self.counters.misses, 1);
        let compiled: Compiled<T> = Self::compile_now(task)?;
        let refusal = if !fresh.is_unchanged() {
            Some(Refusal::Changed)
        } else if !task.compiler.is_in_use(&task.program.nvrtc, task.store) {
            Some(Refusal::Compiler)
        } else {
            None
        };
        let outcome = match refusal {
            Some(refusal) => {
                self.counters.refuse(refusal);
                Outcome::Refused(refusal)
            }
            None => return Ok(self.keep(task, compiled, fresh.closure)),
        };
        Ok(Cached::new(compiled, outcome))
    }

    fn keep<T: Output>(
        &self,
        task: &Task<'_>,
        compiled: Compiled<T>,
        closure: Closure,
    ) -> Cached<T> {
        let entry = Entry { compiled, closure };
        let bytes = entry.to_bytes(&task.key);
        let outcome = self.write(task.store, &task.key, &bytes);
        Cached::new(entry.compiled, outcome)
    }

    /// Writes an entry, and makes room for it.
    fn write(&self, store: &Store, key: &Digest, bytes: &[u8]) -> Outcome {
        if bytes.len() as u64 > self.limit {
            self.counters.refuse(Refusal::TooLarge);
            return Outcome::Refused(Refusal::TooLarge);
        }
        if let Err(error) = store.write(Kind::Entry, key, bytes) {
            count(&self.counters.write_failures, 1);
            let dir = store.dir().display();
            self.counters
                .set_problem(format!("nothing can be kept in {dir}: {error}"));
            return Outcome::NotKept;
        }
        count(&self.counters.stores, 1);
        count(&self.counters.evictions, store.evict(self.limit));
        Outcome::Kept
    }

    fn lock(&self, task: &Task<'_>) -> Result<Option<Lock>, Error> {
        let give_up = || task.flow.stopped();
        let limited = task.flow.is_limited();
        task.store.lock(
            &task.key,
            limited.then_some(&give_up as &dyn Fn() -> Option<Error>),
        )
    }

    /// Compiles in the time that is left.
    fn compile_now<T: Output>(task: &Task<'_>) -> Result<Compiled<T>, Error> {
        if let Some(error) = task.flow.stopped() {
            return Err(error);
        }
        let Some(limit) = task.options.timeout else {
            return task.program.compile(task.options);
        };
        let left = limit.saturating_sub(task.start.elapsed());
        let compiled = task.program.compile(&task.options.clone().timeout(left));
        compiled.map_err(|error| match error {
            Error::TimedOut { .. } => Error::TimedOut { limit },
            error => error,
        })
    }
}
