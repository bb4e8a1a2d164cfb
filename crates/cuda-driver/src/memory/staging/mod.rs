//! Page-locked blocks of a context, through which pageable memory is copied.
//!
//! The driver would do the same behind the scenes, on one thread, and might touch the program's
//! memory after the call. Here the device only ever sees blocks of ours; what belongs to the
//! program is touched by its own threads alone, while it is borrowed. A block that a failed copy
//! may still use is never freed nor used again.
//!
//! Blocks are made when first needed and kept as long as the context. A copy waits for a block of
//! its own stream only: what other streams do may depend on what this thread does next.

mod chunks;
mod copy;
mod download;
mod past_caches;
mod upload;

pub(crate) use copy::{Place, download, download_rows, upload, upload_rows};

use std::collections::VecDeque;

use cuda_sys::{CUevent, CUresult};

use super::pinned::{PinnedBlock, PinnedFlags};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::event::{EventFlags, RawEvent};
use crate::handle::Handle;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::pending;
use crate::stream::{Queueing, Stream, StreamState};

/// The blocks of one context.
pub(crate) struct Staging {
    small: Shelf,
    large: Shelf,
}

/// Blocks of one size.
pub(crate) struct Shelf {
    block_bytes: usize,
    /// Up to so many, blocks are made rather than waited for.
    plenty: usize,
    /// A stream that has so many busy waits for one of them, whatever there is.
    share: usize,
    /// Whether to ask for what is done before it is needed. What was used last is taken next, while
    /// it is in the cache; but asking takes as long as copying a few KiB.
    is_eager: bool,
    blocks: Mutex<Blocks, { rank::STAGING }>,
}

#[derive(Default)]
struct Blocks {
    free: Vec<Slot>,
    /// In the order in which they were queued.
    busy: VecDeque<Busy>,
    /// All that there are, those that copies have in hand among them.
    count: usize,
}

/// A block, and an event for the end of its use.
pub(crate) struct Slot {
    block: Handle<PinnedBlock>,
    event: Handle<RawEvent>,
}

/// A block that the device reads.
struct Busy {
    slot: Slot,
    /// The identity of the stream that does.
    stream: u64,
}

/// Copies up to this size take one small block, and the thread that asks does all.
const SMALL: usize = 64 << 10;
/// The greatest piece of a larger copy: what fits in the caches between the processor and the bus
/// many times.
const LARGE: usize = 1 << 20;

impl Default for Staging {
    fn default() -> Self {
        Self {
            small: Shelf::new(SMALL, 32, 32, false),
            // Locking a block takes as long as copying a dozen, and a few are enough to keep the
            // device busy.
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

    /// A block that nothing uses, for a copy on `stream`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory to lock and `stream` has no block to wait for;
    /// a fault of the work that the stream did before.
    fn take(&self, context: &Context, stream: &StreamState) -> Result<Slot> {
        let mut refused = None;
        loop {
            let mut blocks = self.lock();
            if self.is_eager || blocks.free.is_empty() {
                blocks.reap();
            }
            if let Some(slot) = blocks.free.pop() {
                return Ok(slot);
            }
            let (of_stream, busy) = blocks.of_stream(stream.id());
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
            match Slot::new(context, self.block_bytes) {
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

    /// Puts a block back that nothing uses.
    fn put(&self, slot: Slot) {
        self.lock().free.push(slot);
    }

    /// Puts a block back that what was queued last on `stream` reads.
    ///
    /// # Errors
    ///
    /// A fault, where the stream had to be waited for.
    fn put_behind(&self, slot: Slot, home: &Stream) -> Result<(), DriverError> {
        let stream = home.state();
        if let Ok(queueing) = home.queueing() {
            // Recorded while the list is locked: of one stream, what is listed first is done first.
            let mut blocks = self.lock();
            if slot.record(stream.driver(), &queueing).is_ok() {
                let stream = stream.id();
                blocks.busy.push_back(Busy { slot, stream });
                return Ok(());
            }
        }
        match stream.synchronize(home.context()) {
            Ok(()) => self.put(slot),
            Err(error) => {
                self.lose(slot);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives up a block that the device may still use: it is never freed.
    fn lose(&self, slot: Slot) {
        slot.abandon();
        self.lock().count -= 1;
    }
}

impl Blocks {
    /// Moves the blocks whose copies are done to the free ones. If there are free ones, only the
    /// block that was queued first is asked.
    fn reap(&mut self) {
        let is_short = self.free.is_empty();
        if is_short
            && let Some(last) = self.busy.back()
            && last.slot.is_done() == Ok(true)
        {
            // And so are all that its stream was given before.
            let stream = last.stream;
            let (done, busy) = self.busy.drain(..).partition(|busy| busy.stream == stream);
            self.busy = busy;
            let done: VecDeque<Busy> = done;
            self.free.extend(done.into_iter().map(|busy| busy.slot));
            return;
        }
        // Of one stream, what was queued first is done first.
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

    /// Where the block is that `stream` was given first, and how many it has.
    fn of_stream(&self, stream: u64) -> (Option<usize>, usize) {
        let mut own = self.busy.iter().map(|busy| busy.stream == stream);
        let oldest = own.position(|is_own| is_own);
        let more = own.filter(|is_own| *is_own).count();
        (oldest, oldest.map_or(0, |_| more + 1))
    }
}

impl Slot {
    fn new(context: &Context, bytes: usize) -> Result<Self> {
        let _relaxed = context.driver().relaxed();
        let block = PinnedBlock::allocate(context, bytes, PinnedFlags::empty())?;
        let event = RawEvent::create(context, EventFlags::DISABLE_TIMING)?;
        Ok(Self { block, event })
    }

    /// The first byte.
    fn start(&self) -> *mut u8 {
        self.block.raw().start().cast()
    }

    fn event(&self) -> CUevent {
        self.event.raw().0
    }

    fn record(&self, driver: &Driver, stream: &Queueing<'_>) -> Result<(), DriverError> {
        // SAFETY: event and stream must be alive ← the event is owned, and the callers borrow the
        // stream.
        unsafe { call!(driver, cuEventRecord(self.event(), stream.raw())) }
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

    fn wait(&self) -> Result<(), DriverError> {
        let _relaxed = self.event.driver().relaxed();
        // SAFETY: the event must be alive ← it is owned.
        unsafe { call!(self.event.driver(), cuEventSynchronize(self.event())) }
    }

    /// Never frees the block.
    fn abandon(self) {
        self.block.abandon();
        let _ = self.event.close();
    }

    /// Waits for what is copied through it, and gives it back.
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
            // Not inside a host function, which must not wait: the copy may be behind it.
            pending::in_turn(&driver, move || slot.end());
        }
    }
}
