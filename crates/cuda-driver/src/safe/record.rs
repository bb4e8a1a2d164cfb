//! The records of checked launches, and how a record becomes a violation.
//!
//! A launch on a stream has one record. A replay of a graph has one for each checked node.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use cuda_ptx::Space;
use cuda_ptx::analysis::{AccessKind, Contract, Root};
use cuda_ptx::instrument::{RECORD_WORDS, Record, Site};
use smallvec::SmallVec;

use super::memories::{Memories, MemoryArg};
use super::plan::Plan;
use super::variant::Variant;
use crate::deferred::must_not_wait;
use crate::driver::call;
use crate::error::{DriverError, Result, SurfacePlace, VariablePlace, Violation, ViolationKind};
use crate::fence::Fence;
use crate::launch::KernelArgs;
use crate::lock::{Mutex, rank};
use crate::memory::DeviceBuffer;
use crate::pending::{self, Entry, KeepAlive, LateFence};
use crate::reports::{MemoryUse, Report, print};
use crate::stream::Stream;

/// The facts about a checked launch that a violation names.
pub(crate) struct Origin {
    plan: Arc<Plan>,
    sites: Arc<[Site]>,
    memories: Memories,
    /// The addresses and sizes of all memory among the arguments, and whether the kernel may write
    /// to it. An array has a number as its address.
    used: SmallVec<[(u64, u64, bool); 8]>,
}

/// The records of one launch of a kernel, or of one replay of a graph, in device memory.
pub(crate) struct LaunchRecords {
    state: Mutex<State, { rank::SAFE_RECORD }>,
    /// One for each record.
    origins: SmallVec<[Arc<Origin>; 1]>,
    /// The event after the launch. If none could be recorded, the whole stream is waited for.
    fence: Option<Fence>,
    driver: usize,
}

enum State {
    /// The launch may still write the records.
    Queued(DeviceBuffer<u32>),
    /// A thread reads the records.
    Reading,
    /// The violations that have not been reported yet.
    Found(Vec<Violation>),
}

impl LaunchRecords {
    /// `buffer` has [`RECORD_WORDS`] words for each origin. The launch was just queued on its
    /// stream.
    pub(crate) fn new(buffer: DeviceBuffer<u32>, origins: SmallVec<[Arc<Origin>; 1]>) -> Self {
        let stream = buffer.stream();
        Self {
            fence: stream.state().record(stream.context()).ok(),
            driver: stream.driver().identity(),
            state: Mutex::new(State::Queued(buffer)),
            origins,
        }
    }

    /// The event after the launch.
    pub(super) fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// Returns whether the launch is complete, or will never be. The caller holds no lock.
    fn is_complete(&self, buffer_is_idle: impl FnOnce() -> bool) -> bool {
        match self.fence.as_ref().map(Fence::query) {
            Some(Ok(is_complete)) => is_complete,
            // A lost context reports its own error, at every call.
            Some(Err(error)) => {
                error.is_sticky() || self.fence.as_ref().is_some_and(Fence::is_gone)
            }
            None => buffer_is_idle(),
        }
    }

    /// Reads the records, after the launch, unless another thread does.
    fn read(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Queued(_)) {
            return;
        }
        let queued = std::mem::replace(&mut *state, State::Reading);
        drop(state);
        let State::Queued(buffer) = queued else {
            return;
        };
        let words = match read_words(&buffer) {
            Ok(words) => words,
            Err(error) if error.is_sticky() || buffer.stream().driver().is_gone() => {
                // A lost context reports its own error, at every call.
                Vec::new()
            }
            Err(_) => {
                // Such as memory that could not be allocated: the next wait tries again.
                *self.state.lock() = State::Queued(buffer);
                return;
            }
        };
        drop(buffer);
        let (records, _) = words.as_chunks::<RECORD_WORDS>();
        let all = records.iter().zip(&self.origins);
        let found = all.filter_map(|(words, origin)| Some(origin.violation(&Record::read(words)?)));
        *self.state.lock() = State::Found(found.collect());
    }

    /// Returns whether there may be violations that were not taken.
    fn has_violations(&self) -> bool {
        !matches!(&*self.state.lock(), State::Found(violations) if violations.is_empty())
    }

    /// Returns the stream of the launch if the records were not read.
    fn stream(&self) -> Option<Stream> {
        match &*self.state.lock() {
            State::Queued(buffer) => Some(buffer.stream().clone()),
            _ => None,
        }
    }
}

/// Copies the records of a complete launch to the host. Waits for no other work: later work on the
/// stream of the launch may wait for the host.
fn read_words(buffer: &DeviceBuffer<u32>) -> Result<Vec<u32>> {
    let context = buffer.stream().context();
    let driver = context.driver();
    let _relaxed = driver.relaxed();
    let state = context.take_internal_stream()?;
    let stream = Stream::of_state(context, Arc::clone(&state));
    let mut words = vec![0_u32; buffer.len()];
    let bytes = size_of_val(words.as_slice());
    let to = words.as_mut_ptr().cast();
    let current = stream.bind_for_copy()?;
    // SAFETY: both sides must hold the bytes until the copy is complete ← `words` has the length of
    // the buffer, which is borrowed, and the launch that writes it is complete; if the wait below
    // fails, `words` is never freed.
    let copied = unsafe {
        call!(
            driver,
            cuMemcpyDtoHAsync_v2(to, buffer.as_raw(), bytes, stream.as_raw())
        )
    };
    let copied = copied.and_then(|()| state.synchronize(context));
    drop(current);
    context.keep_internal_stream(state);
    match copied {
        Ok(()) => Ok(words),
        Err(error) => {
            std::mem::forget(words);
            Err(error.into())
        }
    }
}

/// A report that no handle can return any more. Prints its violations when it is dropped, which is
/// after the launch.
struct Unread(Option<Arc<LaunchRecords>>);

impl KeepAlive for Unread {
    fn abandon(mut self: Box<Self>, _: DriverError) {
        // The device is lost, and its records with it.
        self.0 = None;
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some(violations) = self.0.take().and_then(|report| report.take()) {
            print(&violations);
        }
    }
}

impl Origin {
    pub(super) fn new<A: KernelArgs>(
        plan: Arc<Plan>,
        variant: &Variant,
        memories: Memories,
        args: &A,
    ) -> Self {
        let mut used = SmallVec::new();
        // The closure never fails.
        let _ = args.each_tracked(&mut |tracked| -> Result<()> {
            let is_written = tracked.access.is_write();
            used.push((tracked.address, tracked.bytes as u64, is_written));
            Ok(())
        });
        Self {
            plan,
            sites: Arc::clone(&variant.sites),
            memories,
            used,
        }
    }

    fn violation(&self, record: &Record) -> Violation {
        let contract: &Contract = &self.plan.contract;
        let site = self.sites.get(record.site);
        let access = site.and_then(|site| contract.accesses.get(site.access?));
        let kind = match access.map(|access| access.kind) {
            None => ViolationKind::Trap,
            Some(AccessKind::Read) => ViolationKind::Read,
            Some(AccessKind::Atomic) => ViolationKind::Atomic,
            Some(_) => ViolationKind::Write,
        };
        let is_global = access.is_some_and(|access| {
            matches!(access.space, None | Some(Space::Global)) && !access.is_object
        });
        let root = site.and_then(|site| site.root.as_ref());
        let memory = match (is_global, root) {
            (true, Some(Root::Buffer { parameter, .. })) => {
                let mut all = self.memories.iter();
                all.find(|memory| memory.parameter == Some(*parameter))
            }
            (true, None) => {
                let all = self
                    .memories
                    .iter()
                    .filter(|memory| memory.parameter.is_some());
                all.min_by_key(|memory| distance(memory, record.address))
            }
            _ => None,
        };
        let surface = match root {
            Some(Root::Object { parameter }) => self.memories.object(*parameter).map(|object| {
                let at = [
                    record.address as u32,
                    (record.address >> 32) as u32,
                    record.third,
                ];
                let place = SurfacePlace {
                    coordinates: at.map(u32::cast_signed),
                    extents: object.extents,
                };
                (*parameter as usize + 1, place)
            }),
            _ => None,
        };
        let location = access.and_then(|access| access.location);
        let source = location.and_then(|at| contract.source(at));
        let source = source.map(existing_source);
        let variable = match (is_global, surface) {
            (false, None) => access.and_then(|access| variable(contract, root, access.space)),
            _ => None,
        };
        Violation {
            kernel: contract.kernel.clone(),
            kind,
            ptx_line: site.map_or(0, |site| site.line),
            source,
            block: record.block,
            thread: record.thread,
            address: match surface {
                Some(_) => 0,
                None => record.address,
            },
            bytes: access.map_or(0, |access| access.size),
            argument: match surface {
                Some((argument, _)) => Some(argument),
                None => memory.and_then(|memory| Some(memory.parameter? as usize + 1)),
            },
            surface: surface.map(|it| it.1),
            argument_bytes: memory.map_or(0, |memory| memory.bytes),
            offset: memory.map_or(0, |memory| {
                i128::from(record.address) - i128::from(memory.address)
            }),
            is_read_only: memory.is_some_and(|memory| !memory.is_writable),
            variable,
            threads: record.threads,
        }
    }
}

/// Returns the variable that an access is to: that of its root, or the only one in its memory.
fn variable(
    contract: &Contract,
    root: Option<&Root>,
    space: Option<Space>,
) -> Option<VariablePlace> {
    let named = match root {
        Some(Root::Variable(name)) => contract.sizes.iter().find(|it| it.name == *name),
        _ => None,
    };
    let mut all = contract.sizes.iter().filter(|it| Some(it.space) == space);
    let only = || {
        let first = all.next()?;
        all.next().is_none().then_some(first)
    };
    let found = named.or_else(only);
    let name = found.map_or("", |it| plain_variable(&it.name));
    Some(VariablePlace {
        name: name.to_owned(),
        memory: match found.map_or(space?, |it| it.space) {
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Const => "constant",
            _ => "global",
        },
        bytes: found.map_or(0, |it| it.bytes),
        is_dynamic: found.is_some_and(|it| it.is_dynamic),
    })
}

/// Returns the name in CUDA C++ of a variable: `tile` of `_ZZ5scalePfE4tile`, which is declared in
/// a function, and of `_ZN4math4tileE`.
fn plain_variable(mangled: &str) -> &str {
    let Some(rest) = mangled.strip_prefix("_Z") else {
        return mangled;
    };
    let rest = rest.strip_suffix('E').unwrap_or(rest);
    // The name is the shortest end that begins with its own length.
    let starts = rest.char_indices().rev();
    let mut names = starts.filter_map(|(at, _)| {
        let length: usize = {
            let digits = rest[..at].trim_end_matches(|c: char| c.is_ascii_digit());
            rest[digits.len()..at].parse().ok()?
        };
        let name = &rest[at..];
        (name.len() == length && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
    });
    names.next().unwrap_or(mangled)
}

/// Returns the place in a source file, as in `file.cu:12`. The compiler puts the current folder
/// before the name of a source that was in memory; there is no such file.
fn existing_source(place: String) -> String {
    let Some((file, line)) = place.rsplit_once(':') else {
        return place;
    };
    let path = Path::new(file);
    if path.is_file() {
        return place;
    }
    match path.file_name().and_then(OsStr::to_str) {
        // The name that NVRTC gives to a source without a name.
        Some("default_program") => format!("line {line} of the source"),
        Some(name) => format!("{name}:{line}"),
        None => place,
    }
}

/// The number of bytes between an address and memory.
fn distance(memory: &MemoryArg, address: u64) -> u64 {
    let end = memory.address.saturating_add(memory.bytes);
    match address < memory.address {
        true => memory.address - address,
        false => address.saturating_sub(end),
    }
}

impl Report for LaunchRecords {
    fn settle(&self) -> bool {
        if must_not_wait() || !matches!(&*self.state.lock(), State::Queued(_)) {
            return self.has_violations();
        }
        let waited = match &self.fence {
            Some(fence) => fence.synchronize(),
            None => self.stream().map_or(Ok(()), |stream| {
                stream.state().synchronize(stream.context())
            }),
        };
        // After an error that is not one of the device, the launch may still run.
        if waited.is_ok() || self.is_complete(|| false) {
            self.read();
        }
        self.has_violations()
    }

    fn take(&self) -> Option<Vec<Violation>> {
        let stream = match &mut *self.state.lock() {
            State::Found(violations) => return Some(std::mem::take(violations)),
            State::Reading => return None,
            State::Queued(buffer) => buffer.stream().clone(),
        };
        // Reading makes calls that a host function must not make.
        let is_idle = || stream.state().is_done(stream.context());
        if must_not_wait() || !self.is_complete(is_idle) {
            return None;
        }
        self.read();
        match &mut *self.state.lock() {
            State::Found(violations) => Some(std::mem::take(violations)),
            _ => None,
        }
    }

    fn uses(&self, memory: &MemoryUse) -> Option<bool> {
        let driver = self.driver;
        let used = self.origins.iter().flat_map(|origin| &origin.used);
        let used = used.filter(|(address, bytes, _)| {
            let used = MemoryUse {
                driver,
                address: *address,
                bytes: *bytes,
            };
            used.overlaps(memory)
        });
        used.map(|(_, _, is_written)| *is_written).max()
    }

    fn print_later(self: Arc<Self>) {
        let Some(stream) = self.stream() else {
            return;
        };
        let mut entry = Entry::new(stream.context());
        entry.fence = self.fence.clone();
        if entry.fence.is_none() {
            let record = move || match stream.state().record(stream.context()) {
                Ok(fence) => LateFence::Recorded(fence),
                Err(_) => LateFence::NotYet,
            };
            entry.late = Some(Arc::new(record));
        }
        entry.memory = Some(Box::new(Unread(Some(self))));
        pending::add(entry);
    }
}
