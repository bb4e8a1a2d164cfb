//! The pieces of a copy to the host.

use std::collections::VecDeque;
use std::ops::Range;

use cuda_sys::CUdeviceptr;

use super::Slot;
use super::chunks::Chunks;
use super::copy::{Copy, Place, copy_bytes};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::memory::pitched::{Side, queue};

/// The blocks that the device fills for one copy, in the order in which it was asked to. Whoever
/// takes one out empties it, and goes on until there are none.
#[derive(Default)]
pub(super) struct Filling(Mutex<VecDeque<(Slot, Range<usize>)>, { rank::COPY_FILLING }>);

impl Filling {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Slot, Range<usize>)>> {
        self.0.lock()
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    fn push(&self, block: (Slot, Range<usize>)) {
        self.lock().push_back(block);
    }

    fn pop(&self) -> Option<(Slot, Range<usize>)> {
        self.lock().pop_front()
    }
}

impl Copy<'_> {
    /// Downloads pieces until none is left. The device fills some blocks while others are emptied,
    /// whoever asked for them.
    ///
    /// # Errors
    ///
    /// That there is no block; other errors are told to `chunks`.
    ///
    /// # Safety
    ///
    /// Both sides have the bytes of the pieces. Nobody else uses the destination meanwhile.
    pub(super) unsafe fn download_pieces(&self, chunks: &Chunks, filling: &Filling) -> Result<()> {
        loop {
            let mut refused = Ok(());
            while filling.len() < chunks.ahead() {
                // SAFETY: the source must have the pieces ← the caller says so.
                match unsafe { self.begin_download(chunks) } {
                    Ok(Some(next)) => filling.push(next),
                    Ok(None) => break,
                    // Those that there are will do.
                    Err(error) => {
                        refused = Err(error);
                        break;
                    }
                }
            }
            let Some((slot, piece)) = filling.pop() else {
                // Others may have emptied those meanwhile, and pieces be left.
                return if chunks.are_taken() { Ok(()) } else { refused };
            };
            let done = slot.wait().map_err(Error::from);
            // SAFETY: the block must hold the piece ← its event has been waited for, or `done` says
            // that it could not be.
            let finished =
                unsafe { self.finish_download(slot, done, piece, chunks.is_past_caches()) };
            if let Err(error) = finished {
                chunks.fail(error);
            }
        }
    }

    /// Queues the copy of the next piece to a block; `None` if there is none, or if that failed.
    ///
    /// # Safety
    ///
    /// The source has the bytes of the pieces.
    unsafe fn begin_download(&self, chunks: &Chunks) -> Result<Option<(Slot, Range<usize>)>> {
        if chunks.are_taken() {
            return Ok(None);
        }
        let slot = self.take()?;
        let Some(piece) = chunks.next() else {
            self.shelf.put(slot);
            return Ok(None);
        };
        // SAFETY: the source must have the piece ← the caller says so; a piece is no more than a
        // block.
        let queued = unsafe { self.queue_download(&slot, piece.clone()) };
        // Without an event behind the copy the stream is waited for instead.
        let state = self.home.state();
        let queued = queued.and_then(|()| {
            let queueing = self.home.queueing();
            let recorded = queueing.and_then(|queueing| slot.record(state.driver(), &queueing));
            Ok(recorded.or_else(|_| state.synchronize(self.home.context()))?)
        });
        if let Err(error) = queued {
            self.shelf.lose(slot);
            chunks.fail(error);
            return Ok(None);
        }
        Ok(Some((slot, piece)))
    }

    /// Queues a copy from the device to the block.
    ///
    /// # Safety
    ///
    /// The source and the block have the bytes of `piece`.
    pub(super) unsafe fn queue_download(&self, slot: &Slot, piece: Range<usize>) -> Result<()> {
        let start = slot.start().cast();
        self.queue(|| match self.device {
            // SAFETY: both sides must hold the bytes until the copy is done ← the caller says so of
            // the device's, which is freed behind its uses; the block is used again only when the
            // copy is known to be done, or never.
            Place::Linear(device) => unsafe {
                call!(
                    self.home.driver(),
                    cuMemcpyDtoHAsync_v2(
                        start,
                        device + piece.start as CUdeviceptr,
                        piece.len(),
                        self.home.as_raw()
                    )
                )
            },
            Place::Rows(rows) => rows.boxes(piece).try_for_each(|(offset, part)| {
                let to = Side::Host(start.wrapping_byte_add(offset));
                // SAFETY: as above; the boxes lie in the block one right behind the other.
                unsafe { queue(self.home, to, Side::Device(part), &part) }
            }),
        })
    }

    /// Empties the block if it was filled; loses it if not.
    ///
    /// # Safety
    ///
    /// If `done` is no error the block holds the bytes of `piece`, and the destination has them and
    /// is nobody else's.
    pub(super) unsafe fn finish_download(
        &self,
        slot: Slot,
        done: Result<()>,
        piece: Range<usize>,
        is_past_caches: bool,
    ) -> Result<()> {
        if done.is_err() {
            self.shelf.lose(slot);
            return done;
        }
        // SAFETY: the result must be in the same memory ← the destination has the piece.
        let to = unsafe { self.host.add(piece.start) };
        // SAFETY: both sides must hold the piece, apart ← the caller says so; the block is ours,
        // and nothing uses it.
        unsafe { copy_bytes(slot.start(), to, piece.len(), is_past_caches) };
        self.shelf.put(slot);
        Ok(())
    }
}
