//! The pieces of a copy to the device.

use std::ops::{Range, RangeInclusive};

use cuda_sys::CUdeviceptr;

use super::Slot;
use super::chunks::Chunks;
use super::copy::{Copy, Place, copy_bytes};
use crate::driver::call;
use crate::error::Result;
use crate::memory::pitched::{Rows, Side, queue};

/// So many bytes in one run the driver writes into its own queue, one by one. Two runs the device
/// fetches, which takes this thread half the time.
const INLINE: RangeInclusive<usize> = 4 << 10..=16 << 10;

impl Copy<'_> {
    /// Uploads pieces until none is left.
    ///
    /// # Errors
    ///
    /// That there is no block; other errors are told to `chunks`.
    ///
    /// # Safety
    ///
    /// Both sides have the bytes of the pieces. Nobody writes the source meanwhile.
    pub(super) unsafe fn upload_pieces(&self, chunks: &Chunks) -> Result<()> {
        // The piece first: who has none must not wait for a block, since the stream may wait for
        // what this thread does next.
        while let Some(piece) = chunks.next() {
            let slot = match self.take() {
                Ok(slot) => slot,
                Err(error) => {
                    chunks.give_back(piece);
                    return Err(error);
                }
            };
            // SAFETY: both sides must have the piece ← the caller says so; a piece is no more than
            // a block.
            match unsafe { self.queue_upload(&slot, piece, chunks.is_past_caches()) } {
                Ok(()) => {
                    if let Err(error) = self.shelf.put_behind(slot, self.home) {
                        chunks.fail(error);
                    }
                }
                Err(error) => {
                    self.shelf.lose(slot);
                    chunks.fail(error);
                }
            }
        }
        Ok(())
    }

    /// Fills the block and queues its copy to the device.
    ///
    /// # Safety
    ///
    /// Both sides and the block have the bytes of `piece`. Nobody writes the source meanwhile.
    pub(super) unsafe fn queue_upload(
        &self,
        slot: &Slot,
        piece: Range<usize>,
        is_past_caches: bool,
    ) -> Result<()> {
        // SAFETY: the result must be in the same memory ← the source has the piece.
        let from = unsafe { self.host.add(piece.start) };
        // SAFETY: both sides must hold the piece, apart ← the caller says so; the block is ours,
        // and nothing uses it.
        unsafe { copy_bytes(from, slot.start(), piece.len(), is_past_caches) };
        let start = slot.start().cast();
        self.queue(|| match self.device {
            Place::Linear(device)
                if INLINE.contains(&piece.len()) && piece.len().is_multiple_of(2) =>
            {
                let rows = Rows::halves(device + piece.start as CUdeviceptr, piece.len());
                // SAFETY: as below.
                unsafe { queue(self.home, Side::Device(rows), Side::Host(start), &rows) }
            }
            // SAFETY: both sides must hold the bytes until the copy is done ← the caller says so of
            // the device's, which is freed behind its uses; the block is used again only behind its
            // event, or never.
            Place::Linear(device) => unsafe {
                call!(
                    self.home.driver(),
                    cuMemcpyHtoDAsync_v2(
                        device + piece.start as CUdeviceptr,
                        start,
                        piece.len(),
                        self.home.as_raw()
                    )
                )
            },
            Place::Rows(rows) => rows.boxes(piece).try_for_each(|(offset, part)| {
                let from = Side::Host(start.wrapping_byte_add(offset));
                // SAFETY: as above; the boxes lie in the block one right behind the other.
                unsafe { queue(self.home, Side::Device(part), from, &part) }
            }),
        })
    }
}
