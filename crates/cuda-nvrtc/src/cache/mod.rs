//! A cache on disk for compilations, shared by runs and processes.

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
mod builder;
mod cached;
mod closure;
mod compiler;
mod entry;
pub(crate) mod image;
mod included;
mod key;
mod notes;
mod paths;
mod refusal;
mod request;
mod scan;
mod stamp;
mod stats;
mod store;

pub use builder::{CacheBuilder, CacheMode};
pub use cached::{Cached, Outcome};
pub use refusal::Refusal;
pub use stats::CacheStats;

/// The environment variable that [`Cache::system`] reads: `on`, `off`, `read-only`, or a folder.
const VARIABLE: &str = "CUDA_NVRTC_CACHE";

/// The default limit of a cache's size in bytes.
const LIMIT: u64 = 1 << 30;

/// A folder of stored compilations. Clones share it, and so do other processes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # // Reports the skipped example, or fails if NVRTC is required.
/// # let nvrtc = test_needs::found("NVRTC", cuda_nvrtc::Nvrtc::load());
/// # let Some(nvrtc) = nvrtc else { return Ok(()) };
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
/// A stored result is used only if everything that determines it is the same: the kind of output,
/// the source and its name, the headers in memory, the options and name expressions in their order,
/// the current folder (it is in debug information), the environment variables that NVRTC reads, and
/// the compiler, compared by the content of its files. In addition, every file that the compiler
/// may have read must have the same content, and every path where it looked for a header and found
/// none must still have no file.
///
/// NVRTC does not report which files it read. The cache scans the texts for a superset of them, and
/// does not store a compilation for which it cannot find one ([`Refusal`]). The content of a file
/// is compared by its digest. If the file had not changed for 2 s when it was read, it is compared
/// by device, inode, size, `mtime` and `ctime` instead; no program can set `ctime` at will.
/// [`always_digest`](CacheBuilder::always_digest) always
/// compares digests.
///
/// # What is in the folder
///
/// An entry holds the image, the names, the log and the digests of the headers, and ends with its
/// own digest. A truncated or altered entry is never used; it is replaced. An entry is written to a
/// temporary file and renamed. Processes and threads that want the same compilation wait for the
/// one that performs it. The folder is created with access for its user only, and a folder to which
/// other users can write is not used.
///
/// An unusable folder or a full disk is not an error: the cache compiles everything, and
/// [`problem`](Self::problem) returns the reason.
///
/// # Known limitations
///
/// - A macro name made by token pasting (`__TI##ME__`) is not detected.
/// - A file that hides a header only while the program is being compiled is not detected.
/// - A change of links by which two paths with `#pragma once` begin or cease to name one file is
///   not detected.
/// - A file changed through a memory map that was opened before the file was read is not detected.
///   Nor is, on a network file system whose server's clock is more than 2 s behind, a file that
///   changes twice within one tick of that clock.
/// - Without Unix permissions, the cache does not check who can write to its folder: use a folder
///   of your own. In that case, programs that include a header from disk are not stored.
/// - No other thread may change the process's working folder or environment during compilation.
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

impl Cache {
    /// Opens the cache in the folder `dir`, and creates the folder if it does not exist. This never
    /// fails; [`problem`](Self::problem) reports an unusable folder.
    #[must_use]
    pub fn open(dir: impl AsRef<Path>) -> Self {
        Self::builder(dir).open()
    }

    /// Opens the cache of this user in [`default_dir`](Self::default_dir), or as the environment
    /// variable `CUDA_NVRTC_CACHE` says: `on`, `off`, `read-only`, or the absolute path of another
    /// folder. An empty variable counts as unset.
    ///
    /// If the variable has another value, or its folder cannot be used, nothing is cached and
    /// [`problem`](Self::problem) names the variable. An unusable cache does not prevent
    /// compilation.
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

    /// Returns a builder for a cache in the folder `dir`, to set more options.
    pub fn builder(dir: impl AsRef<Path>) -> CacheBuilder {
        CacheBuilder {
            dir: Some(dir.as_ref().to_owned()),
            mode: CacheMode::On,
            limit: LIMIT,
            always_digest: false,
            is_from_variable: false,
        }
    }

    /// Returns the default folder for this user's cache: `cuda-nvrtc/programs` in `XDG_CACHE_HOME`,
    /// `LOCALAPPDATA` or `~/.cache`.
    #[must_use]
    pub fn default_dir() -> Option<PathBuf> {
        crate::headers::cache_dir().map(|dir| dir.join("cuda-nvrtc").join("programs"))
    }

    /// Returns the folder with symbolic links resolved, or `None` if no folder is in use.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.shared.store.as_ref().map(Store::dir)
    }

    /// Returns how the cache uses its folder: [`CacheMode::Off`] if the folder cannot be used.
    #[must_use]
    pub fn mode(&self) -> CacheMode {
        self.shared.mode
    }

    /// Returns the last problem with the folder, if there was one: it cannot be created or written,
    /// other users could write to it, or the disk is full. Compilation works nevertheless.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.shared.counters.problem()
    }

    /// Returns counters since the cache was opened, and the usage of the folder, which it scans.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let usage = self.shared.store.as_ref().map(Store::usage);
        self.shared.counters.stats(usage.unwrap_or_default())
    }

    /// Removes all entries. Does nothing unless the mode is [`CacheMode::On`].
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        match (&self.shared.store, self.shared.mode) {
            (Some(store), CacheMode::On) => store.clear(),
            _ => Ok(()),
        }
    }

    /// Returns the compilation of `program` with `options`, from the folder if it is stored there.
    ///
    /// # Errors
    ///
    /// Fails as [`Program::compile`] does. Failed compilations are not stored.
    pub fn compile<T: Output>(
        &self,
        program: &Program,
        options: &Options,
    ) -> Result<Cached<T>, Error> {
        self.shared.compile(program, options)
    }
}

/// A compilation in progress.
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
        let identified = (|| {
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
        let (request, compiler, key) = match identified {
            Ok(identified) => identified,
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

    /// Returns the stored entry if it is current. Counts an unusable entry only in the `last`
    /// lookup.
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

    /// Compiles and stores the result while holding the lock of the entry.
    fn make<T: Output>(&self, task: &Task<'_>) -> Result<Cached<T>, Error> {
        let lock = self.lock(task)?;
        // The previous owner of the lock may have stored the entry.
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

    /// Writes an entry, and evicts others to make room for it.
    fn write(&self, store: &Store, key: &Digest, bytes: &[u8]) -> Outcome {
        if bytes.len() as u64 > self.limit {
            self.counters.refuse(Refusal::TooLarge);
            return Outcome::Refused(Refusal::TooLarge);
        }
        if let Err(error) = store.write(Kind::Entry, key, bytes) {
            count(&self.counters.write_failures, 1);
            let dir = store.dir().display();
            self.counters
                .set_problem(format!("cannot write to the cache in {dir}: {error}"));
            return Outcome::StoreFailed;
        }
        count(&self.counters.stores, 1);
        count(&self.counters.evictions, store.evict(self.limit));
        Outcome::Stored
    }

    fn lock(&self, task: &Task<'_>) -> Result<Option<Lock>, Error> {
        let give_up = || task.flow.stopped();
        let limited = task.flow.is_limited();
        task.store.lock(
            &task.key,
            limited.then_some(&give_up as &dyn Fn() -> Option<Error>),
        )
    }

    /// Compiles within the remaining time.
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
