//! Mutexes whose use is checked in debug builds.
//!
//! Three rules keep the locks of this crate from deadlocks:
//!
//! 1. Every mutex has a [`rank`]. A thread that holds a mutex locks only mutexes of a higher rank.
//!    Mutexes of one rank are locked together only where the rank says so, and then by ascending
//!    address.
//! 2. A driver call that can wait for the device is made only while the thread holds no mutex. The
//!    list `HELD_WHILE_WAITING` would name exceptions; it is empty.
//! 3. A handle of a context is dropped only while no mutex is held, because dropping the last one
//!    waits for the context. So is the owner of an object of other code, because dropping it runs
//!    code of the program.
//!
//! A debug build checks the rules at every lock, driver call and drop, even if nothing has to wait
//! this time. It aborts the process with a message if a rule is broken. A release build checks and
//! stores nothing.
//!
//! Poisoning is ignored: the values that the mutexes of this crate guard are consistent after each
//! statement.

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, WaitTimeoutResult};
use std::time::Duration;

use cuda_sys::Function;

#[cfg(debug_assertions)]
use self::checks::Held;
#[cfg(all(test, debug_assertions))]
pub(crate) use self::checks::locked;

/// The ranks of the mutexes. A thread locks them in the order of this list.
pub(crate) mod rank {
    macro_rules! ranks {
        ($($(#[$doc:meta])* $name:ident,)*) => {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the names of the constants")]
            #[repr(u8)]
            enum Order { $($name),* }
            $($(#[$doc])* pub(crate) const $name: u8 = Order::$name as u8;)*
            /// The name of each rank.
            #[cfg(debug_assertions)]
            pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
        };
    }

    ranks! {
        /// The drivers of the process.
        DRIVERS,
        /// The contexts of a driver.
        CONTEXTS,
        /// The captures in the primary contexts of a driver.
        PRIMARY_CAPTURES,
        /// The contexts in which a library was used.
        LIBRARY_CONTEXTS,
        /// The variables of a module.
        GLOBALS,
        /// Held while a function's limit of dynamic shared memory is raised.
        SHARED_MEMORY_LIMIT,
        /// The state of an executable graph.
        EXECUTABLE,
        /// The nodes of a graph.
        GRAPH,
        /// The raw handle of a graph.
        GRAPH_HANDLE,
        /// The streams that a capture has forked to.
        CAPTURE_FORKS,
        /// The buffers that were created in an eager capture.
        CAPTURE_TEMPORARIES,
        /// The free blocks of one size in a caching pool.
        CACHE_CLASS,
        /// Held while a graph replay, or a use of memory that graphs lease, is ordered and queued.
        REPLAY,
        /// The uses of memory by other code that are in progress in a context.
        FOREIGN_USES,
        /// The tracked uses of one memory block.
        TRACKER,
        /// The replays of one executable graph.
        REPLAYS,
        /// The page-locked blocks for copies from and to pageable memory.
        STAGING,
        /// The kernels of a module that were analysed.
        SAFE_KERNELS,
        /// The results of the analysis of a kernel.
        SAFE_PLANS,
        /// The checked copies of a kernel.
        SAFE_VARIANTS,
        /// The violation of one checked launch.
        SAFE_RECORD,
        /// The mark of an event.
        EVENT_MARK,
        /// The reports of all streams.
        ALL_REPORTS,
        /// The reports of streams without a handle.
        LEFT_REPORTS,
        /// The checked launches of a stream without a report.
        REPORTS,
        /// The reports of a stream, while it has handles.
        STREAM_REPORTS,
        /// The events recorded on a stream, in order.
        STREAM_TAIL,
        /// The nodes of an executable graph that launch checked copies of kernels. A replay on a
        /// blocking stream reads them while it holds the tails of the blocking streams.
        CHECKED_NODES,
        /// The events of a context that are free to be used again.
        FREE_EVENTS,
        /// The streams of a context by the address of the raw stream.
        STREAMS_BY_ADDRESS,
        /// The streams of a context that the legacy stream waits for.
        BLOCKING_STREAMS,
        /// The internal streams of a context that are free to be used again.
        INTERNAL_STREAMS,
        /// The captures in a context.
        CAPTURES,
        /// Work whose completion the driver has not reported yet.
        PENDING,
        /// The jobs of a worker thread, which frees objects that were dropped where the thread must
        /// not wait.
        DEFERRED,
        /// Closures that the driver calls.
        CLOSURES,
        /// The panic payload of a closure.
        CLOSURE_PANIC,
        /// The result of a pending operation.
        OUTCOME,
        /// The jobs of the copy threads.
        COPY_THREADS,
        /// The ranges of a copy that have to be copied again.
        COPY_RETURNED,
        /// The blocks of a download that are being filled.
        COPY_FILLING,
        /// The first error of a copy.
        COPY_FAILED,
        /// The observer of a stream.
        OBSERVER,
        /// Held while the events of a profiler are read.
        #[cfg_attr(not(feature = "profile"), allow(dead_code, reason = "locked by the profiler"))]
        PROFILE_READING,
        /// The operations that a profiler has recorded.
        #[cfg_attr(not(feature = "profile"), allow(dead_code, reason = "locked by the profiler"))]
        PROFILE,
        /// The contexts whose launches are listed if a device is lost.
        LAUNCH_CONTEXTS,
        /// The devices that were lost.
        LAUNCH_LOSSES,
        /// The streams whose launches are listed.
        LAUNCH_STREAMS,
        /// The names of the kernels in the list of launches.
        LAUNCH_NAMES,
        /// The modules of a context.
        LOADED_MODULES,
        /// The reports of lost devices.
        LOSSES,
        /// The parts of external memory that buffers map.
        EXTERNAL_PARTS,
        /// The parts of page-locked memory that were handed out.
        PINNED_PARTS,
        /// The liveness tokens of a borrowed context.
        TOKENS,
        /// The errors that the driver has returned.
        ERROR_HISTORY,
        /// The memory that the program holds.
        MEMORY_LEDGER,
        /// The records that CUPTI has delivered, within any call of the driver.
        #[cfg_attr(not(feature = "profile"), allow(dead_code, reason = "locked by the profiler"))]
        ACTIVITIES,
    }

    /// Ranks of which a thread may hold several mutexes, locked by ascending address.
    #[cfg(debug_assertions)]
    pub(super) const LOCKED_TOGETHER: &[u8] = &[REPLAY, GRAPH, STREAM_TAIL];
    /// Ranks that may be held while the thread waits for the device: none at present.
    #[cfg(debug_assertions)]
    pub(super) const HELD_WHILE_WAITING: &[u8] = &[];
}

/// A mutex with its rank.
#[derive(Default)]
pub(crate) struct Mutex<T: ?Sized, const RANK: u8>(sync::Mutex<T>);

/// Access to the value of a locked [`Mutex`].
pub(crate) struct MutexGuard<'a, T: ?Sized> {
    // Unlocked before the thread forgets that it holds the mutex.
    inner: sync::MutexGuard<'a, T>,
    #[cfg(debug_assertions)]
    held: Held,
}

/// A condition variable for a [`Mutex`].
#[derive(Default)]
pub(crate) struct Condvar(sync::Condvar);

impl<T, const RANK: u8> Mutex<T, RANK> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized, const RANK: u8> Mutex<T, RANK> {
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks this thread until it has locked the mutex.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        let held = Held::acquire(RANK, (&raw const self.0).addr());
        MutexGuard {
            inner: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            #[cfg(debug_assertions)]
            held,
        }
    }
}

impl<T: ?Sized, const RANK: u8> Mutex<T, RANK> {
    /// Locks a mutex to which no other thread has a reference yet. Its rank is not checked.
    pub(crate) fn lock_unshared(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Unlocks the mutex until another thread notifies, then locks it again.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        // A waiting thread locks nothing, so the mutex may stay on its list.
        MutexGuard {
            inner: self
                .0
                .wait(guard.inner)
                .unwrap_or_else(PoisonError::into_inner),
            #[cfg(debug_assertions)]
            held: guard.held,
        }
    }

    /// Waits as [`wait`](Self::wait) does, but not longer than `timeout`.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let (inner, result) = self
            .0
            .wait_timeout(guard.inner, timeout)
            .unwrap_or_else(PoisonError::into_inner);
        let guard = MutexGuard {
            inner,
            #[cfg(debug_assertions)]
            held: guard.held,
        };
        (guard, result)
    }
}

/// Checks rule 2 for a call of `function`, if the function can wait for the device.
#[inline]
pub(crate) fn check_call(function: &Function) {
    #[cfg(debug_assertions)]
    checks::call(function.base);
    #[cfg(not(debug_assertions))]
    let _ = function;
}

/// Checks rule 3 when it is dropped. Each handle of a context has one, and each owner of an object
/// of other code.
#[derive(Clone, Debug, Default)]
pub(crate) struct DropOutsideLocks;

#[cfg(debug_assertions)]
impl Drop for DropOutsideLocks {
    #[inline]
    fn drop(&mut self) {
        checks::drop_of("a context handle or the owner of a foreign object is dropped");
    }
}

#[cfg(debug_assertions)]
mod checks {
    use std::backtrace::Backtrace;
    use std::cell::RefCell;
    use std::io::{self, Write};
    use std::panic::Location;
    use std::{process, thread};

    use super::rank;

    /// The driver functions that can wait for work on the device. (`cuDevicePrimaryCtxRelease` is
    /// missing because a count that was retained only to inspect a context is released under a
    /// lock. Before the last count is released, `cuCtxSynchronize` is called.)
    const WAITING: &[&str] = &[
        "cuCtxDestroy",
        "cuCtxSynchronize",
        "cuDevicePrimaryCtxReset",
        "cuEventSynchronize",
        "cuLibraryUnload",
        "cuMemFree",
        "cuMemFreeHost",
        "cuMemHostUnregister",
        "cuMemPoolDestroy",
        "cuMemPoolTrimTo",
        "cuMemUnmap",
        "cuMemcpy",
        "cuMemcpy2D",
        "cuMemcpy2DUnaligned",
        "cuMemcpy3D",
        "cuMemcpy3DPeer",
        "cuMemcpyAtoH",
        "cuMemcpyDtoD",
        "cuMemcpyDtoH",
        "cuMemcpyHtoA",
        "cuMemcpyHtoD",
        "cuMemcpyPeer",
        "cuMemsetD16",
        "cuMemsetD2D16",
        "cuMemsetD2D32",
        "cuMemsetD2D8",
        "cuMemsetD32",
        "cuMemsetD8",
        "cuModuleLoadDataEx",
        "cuModuleUnload",
        "cuStreamSynchronize",
    ];

    thread_local! {
        static HELD: RefCell<Vec<Lock>> = const { RefCell::new(Vec::new()) };
        /// How often this thread has locked a mutex.
        #[cfg(test)]
        static LOCKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    /// Returns how often this thread has locked a mutex.
    #[cfg(test)]
    pub(crate) fn locked() -> u64 {
        LOCKED.get()
    }

    #[derive(Clone, Copy)]
    struct Lock {
        rank: u8,
        address: usize,
        place: &'static Location<'static>,
    }

    /// An entry of the list of mutexes that this thread holds.
    pub(super) struct Held {
        address: usize,
    }

    impl Held {
        /// Checks rule 1 for a mutex that this thread is about to lock.
        #[track_caller]
        pub(super) fn acquire(rank: u8, address: usize) -> Self {
            let new = Lock {
                rank,
                address,
                place: Location::caller(),
            };
            #[cfg(test)]
            LOCKED.set(LOCKED.get() + 1);
            // The list may already be destroyed while the thread ends; then nothing is checked.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                for other in held.iter() {
                    let is_after = rank > other.rank
                        || rank == other.rank
                            && rank::LOCKED_TOGETHER.contains(&rank)
                            && address > other.address;
                    if !is_after {
                        violation(&format!(
                            "locks {} at {} while it holds {} from {}",
                            rank::NAMES[usize::from(rank)],
                            new.place,
                            rank::NAMES[usize::from(other.rank)],
                            other.place
                        ));
                    }
                }
                held.push(new);
            });
            Self { address }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|it| it.address == self.address) {
                    held.remove(at);
                }
            });
        }
    }

    pub(super) fn call(function: &'static str) {
        if WAITING.binary_search(&function).is_ok() {
            expect_none(
                |held| !rank::HELD_WHILE_WAITING.contains(&held.rank),
                function,
            );
        }
    }

    pub(super) fn drop_of(what: &'static str) {
        expect_none(|_| true, what);
    }

    fn expect_none(is_bad: impl Fn(&Lock) -> bool, what: &str) {
        let _ = HELD.try_with(|held| {
            if let Some(lock) = held.borrow().iter().find(|lock| is_bad(lock)) {
                violation(&format!(
                    "{what} while it holds {} from {}",
                    rank::NAMES[usize::from(lock.rank)],
                    lock.place
                ));
            }
        });
    }

    fn violation(what: &str) {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let trace = Backtrace::force_capture();
        // `eprintln!` is not used, because test harnesses capture its output.
        let _ = writeln!(
            io::stderr(),
            "cuda-driver: lock rule violated: thread {name}: {what}\n{trace}"
        );
        process::abort();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests;
