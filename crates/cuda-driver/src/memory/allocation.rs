//! The allocation behind every owner and every view of device memory.
//!
//! A [`Memory`] has an address, a record of the uses that later uses and the free must wait for,
//! and a source that determines how the memory is freed or returned.

use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cuda_sys::CUdeviceptr;

use super::recorder::recorder_of;
use crate::deferred::must_not_wait;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::memory_ledger::MemoryKind;
use crate::stream::Stream;
use crate::tracking::{Access, Scope, Tracker};

/// The interval at which memory that was dropped during a capture checks whether it has ended.
const CAPTURE_TICK: Duration = Duration::from_millis(5);

/// An allocation with the record of its uses. Its source determines how a drop frees it.
pub(crate) struct Memory {
    pub(crate) address: CUdeviceptr,
    pub(super) bytes: usize,
    pub(super) source: Source,
    /// Taken only when the memory is freed or returned.
    pub(crate) tracker: ManuallyDrop<Arc<Tracker>>,
}

/// The origin of memory, which determines how it is freed or returned.
pub(crate) enum Source {
    /// The allocation has 0 bytes and no memory.
    Nothing,
    /// `cuMemAllocAsync` or `cuMemAllocFromPoolAsync`. The free is queued on the owning stream.
    Ordered,
    /// `cuMemAlloc`. The host waits for all uses and then frees the memory.
    Plain,
    /// Managed memory, freed as for `Plain` or returned to its pool. The host may have slices.
    Managed(Option<Arc<dyn Reclaim>>),
    /// Mapped physical memory, which its mappings take back. Peer access does not concern it.
    Mapped(Arc<dyn Reclaim>),
    /// Memory that its owner takes back: a caching pool, a module, or other code.
    Other(Arc<dyn Reclaim>),
}

/// An owner that memory is returned to.
pub(crate) trait Reclaim: Send + Sync {
    /// Takes the memory back after all its uses.
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError>;

    /// Gives the memory up, because other code will free it.
    fn disown(self: Arc<Self>, block: &Block);

    /// The kind of this owner for reports of the memory that a program holds, and the handle of the
    /// pool if it is one.
    fn origin(&self) -> (MemoryKind, u64) {
        (MemoryKind::Owned, 0)
    }

    /// Returns `true` if other code owns the memory, and may have mapped it.
    fn may_be_mapped(&self) -> bool {
        false
    }

    /// Returns `true` if this is a pool that other processes can import and that was not exported
    /// yet.
    fn awaits_export(&self) -> bool {
        false
    }
}

/// An allocation without its source, as it remains after its owner has given it up.
pub(crate) struct Block {
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
    /// Owned by the block. Other code holds a clone only for the duration of an access.
    pub(crate) tracker: Arc<Tracker>,
}

impl Memory {
    /// Allocates `bytes` bytes, or captures the allocation. The contents are undefined.
    #[track_caller]
    pub(crate) fn allocate(owner: &Stream, bytes: usize) -> Result<Self> {
        if bytes > 0
            && let Some(recorder) = recorder_of(owner, "an allocation")?
        {
            return recorder.allocate(owner, bytes);
        }
        let source = Source::allocated(owner);
        // Without memory pools the driver call is `cuMemAlloc`, which would invalidate a stream
        // capture. The program did not name that call, so it is made in relaxed capture mode.
        let _relaxed = matches!(source, Source::Plain).then(|| owner.driver().relaxed());
        Self::allocate_of(owner, bytes, source)
    }

    /// Allocates `bytes` bytes outside of any memory pool. The contents are undefined.
    #[track_caller]
    pub(crate) fn allocate_plain(owner: &Stream, bytes: usize) -> Result<Self> {
        owner.expect_direct("an allocation outside of any pool")?;
        Self::allocate_of(owner, bytes, Source::Plain)
    }

    #[track_caller]
    pub(super) fn allocate_of(owner: &Stream, bytes: usize, source: Source) -> Result<Self> {
        let mut address = 0;
        if bytes == 0 {
            return Ok(Self::nothing(owner));
        }
        let driver = owner.driver();
        let status = if matches!(source, Source::Ordered) {
            let queueing = owner.queueing()?;
            // SAFETY: the pointer and the stream must be valid ← the pointer is to a local
            // variable, and the stream is borrowed.
            unsafe {
                call!(
                    driver,
                    cuMemAllocAsync(&raw mut address, bytes, queueing.raw())
                )
            }
        } else {
            let _current = owner.context().enter()?;
            // SAFETY: the pointer must be writable ← it points to a local variable.
            unsafe { call!(driver, cuMemAlloc_v2(&raw mut address, bytes)) }
        };
        status.map_err(|error| owner.context().allocation_error(error, bytes))?;
        // SAFETY: the memory must come from `source`, and no other code may free it ← it was
        // allocated just now.
        Ok(unsafe { Self::of_new(owner, address, bytes, source) })
    }

    /// Creates an allocation of 0 bytes without calling the driver.
    pub(crate) fn nothing(owner: &Stream) -> Self {
        // SAFETY: the memory must come from `source` ← an allocation of 0 bytes has none.
        unsafe { Self::of_source(owner, 0, 0, Source::Nothing) }
    }

    /// Creates an allocation of memory whose only uses so far are on `owner`.
    ///
    /// # Safety
    ///
    /// The `bytes` bytes from `address` on are memory that the context of `owner` can use. The
    /// memory comes from `source`, and no other code frees or returns it.
    #[track_caller]
    pub(crate) unsafe fn of_source(
        owner: &Stream,
        address: CUdeviceptr,
        bytes: usize,
        source: Source,
    ) -> Self {
        let block = Block {
            address,
            bytes,
            tracker: Arc::new(Tracker::new(owner)),
        };
        // SAFETY: the memory must be usable, from `source`, and freed by no other code, and the
        // tracker must know all its uses ← the caller guarantees the former, and all uses are on
        // `owner`.
        let memory = unsafe { Self::of_block(block, source) };
        memory.record();
        if memory.source.is_of_driver() && bytes > 0 {
            owner.memory_changed(bytes as i64);
        }
        memory
    }

    /// Creates an allocation from a block with the record of its uses.
    ///
    /// # Safety
    ///
    /// The requirements of [`of_source`](Self::of_source) apply, and the tracker knows all uses.
    pub(crate) unsafe fn of_block(block: Block, source: Source) -> Self {
        let Block {
            address,
            bytes,
            tracker,
        } = block;
        Self {
            address,
            bytes,
            source,
            tracker: ManuallyDrop::new(tracker),
        }
    }

    /// Changes how the memory is freed or returned.
    pub(super) fn set_source(&mut self, source: Source) {
        self.source = source;
    }

    /// Returns `true` if the host may have slices of the memory.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self.source, Source::Managed(_))
    }

    /// Returns `true` if the memory is mapped, so that each device needs its own access rights.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.source, Source::Mapped(_))
    }

    /// Returns the stream on which the memory is copied and freed.
    pub(crate) fn owning_stream(&self) -> &Stream {
        self.tracker.owning_stream()
    }

    /// Calls [`use_on`](Self::use_on) with the owning stream.
    pub(crate) fn use_on_owning_stream<E>(
        &self,
        call: &'static str,
        access: Access,
        queue: impl FnOnce() -> Result<(), E>,
    ) -> Result<()>
    where
        Error: From<E>,
    {
        self.use_on(self.owning_stream(), call, access, queue)
    }

    /// Queues a use of this memory on `stream`: waits for conflicting uses, calls `queue`, and
    /// records the use. The use is recorded even if `queue` fails, because a part of it may have
    /// been queued. An eager capture refuses the call by the name `call`.
    pub(crate) fn use_on<E>(
        &self,
        stream: &Stream,
        call: &'static str,
        access: Access,
        queue: impl FnOnce() -> Result<(), E>,
    ) -> Result<()>
    where
        Error: From<E>,
    {
        Self::use_all(stream, call, [(self, access)], queue)
    }

    /// Queues a call on `stream` that uses several allocations: as [`use_on`](Self::use_on) does
    /// for one of them. The context is current during the call if the memory may be mapped.
    pub(crate) fn use_all<E, const N: usize>(
        stream: &Stream,
        call: &'static str,
        uses: [(&Self, Access); N],
        queue: impl FnOnce() -> Result<(), E>,
    ) -> Result<()>
    where
        Error: From<E>,
    {
        let mut scope = Scope::acquire(stream, call, |scope| {
            for (memory, _) in &uses {
                scope.lock_replays_if_needed(&memory.tracker);
            }
            uses.iter()
                .try_for_each(|(memory, access)| memory.tracker.acquire(scope, *access))
        })?;
        let may_be_mapped = uses.iter().any(|(memory, _)| memory.may_be_mapped());
        let _current = stream.bind_for_mapped(may_be_mapped)?;
        let queued = queue();
        for (memory, access) in uses {
            memory.tracker.commit(&mut scope, access);
        }
        Ok(queued?)
    }

    /// Frees or returns the memory after all uses. If a graph uses the memory, it is freed with the
    /// last such graph.
    pub(crate) fn close(self) -> Result<(), DriverError> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` must not be used or dropped afterwards ← it is in a `ManuallyDrop`, and
        // this is its last use.
        let (block, source) = unsafe { this.take() };
        match block.leave(source) {
            Some(source) => source.take_back(block),
            None => Ok(()),
        }
    }

    /// Returns the address, for other code to free, and makes the owning stream wait for every use.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if a graph uses the memory. It is then freed with the last such graph.
    /// [`Error::MemoryOfCapture`] if a graph allocates it, and [`Error::NotYetWritten`] if the
    /// first launch of a graph writes it.
    pub(crate) fn into_raw(self) -> Result<CUdeviceptr> {
        self.expect_usable()?;
        if self.tracker.needs_replay_lock() && self.tracker.has_leases() {
            return Err(Error::StillInUse {
                what: "the memory",
                by: "graphs",
            });
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` must not be used or dropped afterwards ← it is in a `ManuallyDrop`, and
        // this is its last use.
        let (block, source) = unsafe { this.take() };
        let is_of_driver = source.is_of_driver();
        if let Source::Mapped(owner) | Source::Other(owner) | Source::Managed(Some(owner)) = source
        {
            owner.disown(&block);
        }
        if is_of_driver {
            block.report_given_up();
        }
        block.behind_all()?;
        Ok(block.address)
    }

    /// Returns the block without its source, for a pool that knows the source of all its blocks.
    pub(crate) fn into_block(self) -> Block {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` must not be used or dropped afterwards ← it is in a `ManuallyDrop`, and
        // this is its last use.
        let (block, _) = unsafe { this.take() };
        block
    }

    /// # Safety
    ///
    /// `self` must not be used or dropped afterwards.
    unsafe fn take(&mut self) -> (Block, Source) {
        let ledger = self.owning_stream().context().memory_ledger();
        if ledger.is_on() && self.bytes > 0 {
            ledger.remove(self.address);
        }
        // SAFETY: the tracker must not be used again through `self` ← the caller guarantees it.
        let tracker = unsafe { ManuallyDrop::take(&mut self.tracker) };
        let block = Block {
            address: self.address,
            bytes: self.bytes,
            tracker,
        };
        (block, mem::replace(&mut self.source, Source::Nothing))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `self` must not be used or dropped afterwards ← this is its drop, and the taken
        // field is a `ManuallyDrop`.
        let (block, source) = unsafe { self.take() };
        // A drop cannot report an error; `close` does. Memory that cannot be freed leaks in the
        // driver and has no other effect. Inside a host function even the tracker must not be
        // locked, because the thread that holds the lock may wait for that host function.
        let take_back = move |block: Block| {
            if let Some(source) = block.leave(source) {
                let _ = source.take_back(block);
            }
        };
        if must_not_wait() {
            let driver = block.tracker.owning_stream().driver().clone();
            driver.defer(move || take_back(block));
        } else {
            take_back(block);
        }
    }
}

impl Source {
    /// Returns the source of an ordinary allocation whose owning stream is `owner`.
    pub(crate) fn allocated(owner: &Stream) -> Self {
        if owner.context().limits().pools {
            Self::Ordered
        } else {
            Self::Plain
        }
    }

    /// Frees or returns a block after all uses. If waiting for the uses fails the memory is leaked,
    /// because a use may still be running. If other code captures a stream of these uses, the
    /// memory is freed after the capture.
    pub(crate) fn take_back(self, block: Block) -> Result<(), DriverError> {
        if block.tracker.is_in_capture() {
            self.take_back_after_capture(block);
            return Ok(());
        }
        match self {
            Self::Nothing => Ok(()),
            Self::Ordered => block.free_in_order(),
            Self::Plain | Self::Managed(None) => {
                let owner = block.behind_all()?;
                owner.state().synchronize(owner.context())?;
                let _relaxed = owner.driver().relaxed();
                block.report_free();
                // SAFETY: the memory must be allocated and must not be used afterwards ← the block
                // owns it, and the host has waited for the owning stream, which was made to wait
                // for every use on another stream.
                unsafe { call!(owner.driver(), cuMemFree_v2(block.address)) }
            }
            Self::Mapped(owner) | Self::Other(owner) | Self::Managed(Some(owner)) => {
                owner.reclaim(block)
            }
        }
    }

    /// Starts a thread that frees or returns the block when no capture of other code includes its
    /// streams. A worker thread of the context must not wait for the end of the capture. If no
    /// thread can be started, the memory is leaked.
    #[cold]
    fn take_back_after_capture(self, block: Block) {
        let Block {
            address,
            bytes,
            tracker,
        } = block;
        after_capture(tracker, move |tracker| {
            // The error cannot be reported: the owner was dropped before.
            let _ = self.take_back(Block {
                address,
                bytes,
                tracker,
            });
        });
    }
}

/// Calls `work`, which releases something that uses of the memory may still need, when no capture
/// of other code includes the streams of these uses: now, or on a new thread. If no thread can be
/// started, what `work` owns is leaked.
pub(crate) fn when_not_captured(
    tracker: Arc<Tracker>,
    work: impl FnOnce(Arc<Tracker>) + Send + 'static,
) {
    if tracker.is_in_capture() {
        after_capture(tracker, work);
    } else {
        work(tracker);
    }
}

#[cold]
fn after_capture(tracker: Arc<Tracker>, work: impl FnOnce(Arc<Tracker>) + Send + 'static) {
    // If the thread cannot be started, the closure is dropped, but not what `work` owns.
    let work = ManuallyDrop::new(work);
    let wait = move || {
        while tracker.is_in_capture() {
            thread::sleep(CAPTURE_TICK);
        }
        ManuallyDrop::into_inner(work)(tracker);
    };
    let name = String::from("cuda-driver capture");
    let _ = thread::Builder::new().name(name).spawn(wait);
}

impl Block {
    /// Leaves the memory to the graphs that use it. If no graph uses it, returns the source.
    fn leave(&self, source: Source) -> Option<Source> {
        if self.tracker.needs_replay_lock() {
            let (address, bytes) = (self.address, self.bytes);
            self.tracker
                .leave_to_leases(source, move |source, tracker| {
                    // The error cannot be reported: the owner was dropped before.
                    let _ = source.take_back(Block {
                        address,
                        bytes,
                        tracker,
                    });
                })
        } else {
            Some(source)
        }
    }

    /// `cuMemFreeAsync()`—Queues the free of stream-ordered memory on the owning stream, after all
    /// uses.
    pub(crate) fn free_in_order(self) -> Result<(), DriverError> {
        let owner = self.behind_all()?;
        let queueing = owner.queueing()?;
        let _relaxed = owner.driver().relaxed();
        self.report_free();
        // SAFETY: the memory must be allocated and must not be used afterwards ← the block owns it,
        // and the stream has just been made to wait for every use on another stream.
        unsafe { call!(owner.driver(), cuMemFreeAsync(self.address, queueing.raw())) }
    }

    /// Frees an ordinary allocation after all uses.
    pub(crate) fn free(self) -> Result<(), DriverError> {
        Source::allocated(self.tracker.owning_stream()).take_back(self)
    }

    /// Makes the owning stream wait for every use on another stream, and returns the owning stream.
    fn behind_all(&self) -> Result<&Stream, DriverError> {
        if let Err(error) = self.tracker.wait_for_all_on_owner() {
            // The memory is never freed explicitly. It ends with its context, which must outlive
            // the uses.
            Tracker::keep_context_while_used_elsewhere(&self.tracker);
            return Err(error);
        }
        Ok(self.tracker.owning_stream())
    }
}
