//! The page-locked blocks of a context, through which pageable memory is copied.
//!
//! Blocks are created when they are first needed and live as long as the context. A copy waits only
//! for a block of its own stream, because work on another stream may depend on what this thread
//! does next. A block that a failed copy may still use is never freed or reused.

use std::alloc::{Layout, dealloc};
use std::collections::VecDeque;
use std::ffi::c_void;

use cuda_sys::{CUevent, CUresult};

use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::fence::RawEvent;
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::types::SendPtr;

/// The blocks of one context.
pub(crate) struct Staging {
    pub(crate) small: Shelf,
    pub(crate) large: Shelf,
}

/// The blocks of one size.
pub(crate) struct Shelf {
    block_bytes: usize,
    /// While fewer blocks than this exist, a copy creates a block rather than waiting for one.
    plenty: usize,
    /// A stream with this many busy blocks waits for one of them, even if more blocks could be
    /// created.
    share: usize,
    /// Whether to look for completed blocks before the free list is empty. The block that was used
    /// last is taken next, while it is in the cache. But a query takes as long as copying a few
    /// KiB.
    is_eager: bool,
    blocks: Mutex<Blocks, { rank::STAGING }>,
}

#[derive(Default)]
struct Blocks {
    free: Vec<Slot>,
    /// The blocks that the device reads, in the order in which their copies were queued.
    busy: VecDeque<Busy>,
    /// The number of all blocks, including those that a copy currently holds.
    count: usize,
}

/// A block, and an event that marks the end of its last use.
pub(crate) struct Slot {
    block: Handle<PinnedBlock>,
    event: Handle<RawEvent>,
}

/// A block that the device reads.
struct Busy {
    slot: Slot,
    /// The id of the stream that reads the block.
    stream: u64,
}

/// The size of the largest copies that use one small block and no worker threads.
pub(crate) const SMALL: usize = 64 << 10;
/// The size of the largest piece of a larger copy. Many pieces of this size fit in the caches
/// between the processor and the bus.
pub(crate) const LARGE: usize = 1 << 20;

impl Default for Staging {
    fn default() -> Self {
        Self {
            small: Shelf::new(SMALL, 32, 32, false),
            // Page-locking a block takes as long as copying a dozen blocks, and a few blocks are
            // enough to keep the device busy.
            large: Shelf::new(LARGE, 24, 16, true),
        }
    }
}

impl Shelf {
    fn new(block_bytes: usize, plenty: usize, share: usize, is_eager: bool) -> Self {
        Self {
            block_bytes,
            plenty,
            share,
            is_eager,
            blocks: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock()
    }

    /// Returns a block that is not in use, for a copy on the stream with the id `stream`. Calls
    /// `make` for a new block of a number of bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if no memory can be page-locked and `stream` has no block to wait
    /// for, or a fault of earlier work on the stream.
    pub(crate) fn take(&self, stream: u64, make: impl Fn(usize) -> Result<Slot>) -> Result<Slot> {
        let mut refused = None;
        loop {
            let mut blocks = self.lock();
            if self.is_eager || blocks.free.is_empty() {
                blocks.reap();
            }
            if let Some(slot) = blocks.free.pop() {
                return Ok(slot);
            }
            let (of_stream, busy) = blocks.of_stream(stream);
            let must_wait = blocks.count >= self.plenty || busy >= self.share || refused.is_some();
            if let Some(at) = of_stream
                && must_wait
            {
                let busy = blocks.busy.remove(at);
                drop(blocks);
                let Some(Busy { slot, .. }) = busy else {
                    continue;
                };
                if let Err(error) = slot.wait() {
                    self.lose(slot);
                    return Err(error.into());
                }
                return Ok(slot);
            }
            if let Some(error) = refused {
                return Err(error);
            }
            blocks.count += 1;
            drop(blocks);
            match make(self.block_bytes) {
                Ok(slot) => return Ok(slot),
                Err(error) => {
                    self.lock().count -= 1;
                    if !matches!(error, Error::OutOfMemory { .. }) {
                        return Err(error);
                    }
                    refused = Some(error);
                }
            }
        }
    }

    /// Returns a block that is not in use.
    pub(crate) fn put(&self, slot: Slot) {
        self.lock().free.push(slot);
    }

    /// Returns a block that work on the stream with the id `stream` reads. If `record`, which
    /// records its event on that stream, fails, the caller gets the block again.
    ///
    /// The list is locked meanwhile. So the blocks of one stream complete in the order of the list.
    pub(crate) fn put_busy(
        &self,
        slot: Slot,
        stream: u64,
        record: impl FnOnce(&Slot) -> Result<(), DriverError>,
    ) -> Option<Slot> {
        let mut blocks = self.lock();
        if record(&slot).is_err() {
            return Some(slot);
        }
        blocks.busy.push_back(Busy { slot, stream });
        None
    }

    /// Leaks a block that the device may still use.
    pub(crate) fn lose(&self, slot: Slot) {
        slot.abandon();
        self.lock().count -= 1;
    }
}

impl Blocks {
    /// Moves the blocks whose copies have completed to the free list. If the free list is not
    /// empty, stops at the first block that is still busy.
    fn reap(&mut self) {
        let is_short = self.free.is_empty();
        if is_short
            && let Some(last) = self.busy.back()
            && last.slot.is_done() == Ok(true)
        {
            // All earlier blocks of the same stream have completed as well.
            let stream = last.stream;
            let (done, busy) = self.busy.drain(..).partition(|busy| busy.stream == stream);
            self.busy = busy;
            let done: VecDeque<Busy> = done;
            self.free.extend(done.into_iter().map(|busy| busy.slot));
            return;
        }
        // The blocks of one stream complete in the order in which they were queued.
        let mut not_done = Vec::new();
        let mut at = 0;
        while let Some(busy) = self.busy.get(at) {
            if not_done.contains(&busy.stream) {
                at += 1;
                continue;
            }
            let done = busy.slot.is_done();
            if done == Ok(false) {
                if !is_short {
                    return;
                }
                not_done.push(busy.stream);
                at += 1;
                continue;
            }
            let Some(Busy { slot, .. }) = self.busy.remove(at) else {
                return;
            };
            if done.is_ok() {
                self.free.push(slot);
            } else {
                slot.abandon();
                self.count -= 1;
            }
        }
    }

    /// Returns the position of the oldest busy block of `stream`, and the number of its busy
    /// blocks.
    fn of_stream(&self, stream: u64) -> (Option<usize>, usize) {
        let mut own = self.busy.iter().map(|busy| busy.stream == stream);
        let oldest = own.position(|is_own| is_own);
        let more = own.filter(|is_own| *is_own).count();
        (oldest, oldest.map_or(0, |_| more + 1))
    }
}

impl Slot {
    pub(crate) fn new(block: Handle<PinnedBlock>, event: Handle<RawEvent>) -> Self {
        Self { block, event }
    }

    /// Returns the address of the first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.block.raw().start().cast()
    }

    pub(crate) fn event(&self) -> CUevent {
        self.event.raw().0
    }

    fn is_done(&self) -> Result<bool, DriverError> {
        let _relaxed = self.event.driver().relaxed();
        // SAFETY: the event must be alive ← it is owned.
        match unsafe { call!(self.event.driver(), cuEventQuery(self.event())) } {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn wait(&self) -> Result<(), DriverError> {
        let _relaxed = self.event.driver().relaxed();
        // SAFETY: the event must be alive ← it is owned.
        unsafe { call!(self.event.driver(), cuEventSynchronize(self.event())) }
    }

    /// Leaks the block.
    fn abandon(self) {
        self.block.abandon();
        let _ = self.event.close();
    }

    /// Waits for the copy that uses the block, and frees the block. If the wait fails, the block is
    /// leaked.
    fn end(self) {
        if self.wait().is_err() {
            return self.abandon();
        }
        let _ = self.block.close();
        let _ = self.event.close();
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let blocks = self.blocks.get_mut();
        for Busy { slot, .. } in blocks.busy.drain(..) {
            let driver = slot.event.driver().clone();
            // Inside a host function the wait is deferred, because the copy may be queued after
            // that function.
            driver.run_in_order(move || slot.end());
        }
    }
}

/// A block of page-locked bytes. It can be freed on any thread, without a current context.
pub(crate) struct PinnedBlock;

/// The address of a block and, for a block from the program's allocator, its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawBlock {
    start: SendPtr<c_void>,
    own: Option<Layout>,
}

impl Destroy for PinnedBlock {
    type Raw = RawBlock;

    unsafe fn destroy(driver: &Driver, raw: RawBlock) -> Result<(), DriverError> {
        let start = raw.start();
        let Some(layout) = raw.own else {
            // SAFETY: the memory must be allocated and no longer used ← the handle owns it, and
            // `destroy` is the last use of the handle.
            return unsafe { call!(driver, cuMemFreeHost(start)) };
        };
        // If the memory cannot be unregistered it is not freed.
        // SAFETY: the memory must be registered and no longer used by the device ← as above.
        unsafe { call!(driver, cuMemHostUnregister(start)) }?;
        // SAFETY: the memory must have this layout and must not be used afterwards ← the
        // block was allocated with this layout, and `destroy` is the last use of the handle.
        unsafe { dealloc(start.cast(), layout) };
        Ok(())
    }
}

impl RawBlock {
    /// A block that the driver allocated.
    pub(crate) fn of_driver(start: *mut c_void) -> Self {
        Self {
            start: SendPtr(start),
            own: None,
        }
    }

    /// A block of the program's allocator that is registered with the driver.
    pub(crate) fn of_program(start: *mut c_void, layout: Layout) -> Self {
        Self {
            start: SendPtr(start),
            own: Some(layout),
        }
    }

    /// Returns the address of the first byte.
    pub(crate) fn start(self) -> *mut c_void {
        self.start.0
    }
}
