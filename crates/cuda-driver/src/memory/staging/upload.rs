//! The pieces of a copy to the device.

use std::ops::{Range, RangeInclusive};

use cuda_sys::CUdeviceptr;

use super::chunks::Chunks;
use super::copy::{Copy, DeviceSide, copy_bytes};
use crate::driver::call;
use crate::error::Result;
use crate::memory::pitched::{Rows, Side, queue};
use crate::observer::Work;
use crate::staging_pool::Slot;
use crate::types::WorkKind;

/// The sizes for which the driver copies a contiguous range into its own command queue, byte by
/// byte. If the same bytes are described as two rows, the device fetches them, and the call takes
/// half the time.
const INLINE: RangeInclusive<usize> = 4 << 10..=16 << 10;

impl Copy<'_> {
    /// Uploads pieces until none is left.
    ///
    /// # Errors
    ///
    /// Fails if no block can be taken. Other errors are recorded in `chunks`.
    ///
    /// # Safety
    ///
    /// Both sides hold the bytes of the pieces. No code writes the source during the call.
    pub(super) unsafe fn upload_pieces(&self, chunks: &Chunks) -> Result<()> {
        // The piece is taken before the block. A thread without a piece must not wait for a block,
        // because the stream may wait for what that thread does next.
        while let Some(piece) = chunks.next() {
            let slot = match self.take() {
                Ok(slot) => slot,
                Err(error) => {
                    chunks.give_back(piece);
                    return Err(error);
                }
            };
            // SAFETY: both sides and the block must hold the piece ← the caller guarantees it for
            // both sides, and a piece is at most as large as a block.
            match unsafe { self.queue_upload(&slot, piece, chunks.is_non_temporal()) } {
                Ok(()) => {
                    if let Err(error) = self.shelf.put_behind(slot, self.stream) {
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

    /// Fills the block and queues its transfer to the device.
    ///
    /// # Safety
    ///
    /// Both sides and the block hold the bytes of `piece`. No code writes the source during the
    /// call.
    pub(super) unsafe fn queue_upload(
        &self,
        slot: &Slot,
        piece: Range<usize>,
        is_non_temporal: bool,
    ) -> Result<()> {
        // SAFETY: the result must be in the same allocation ← the source holds the piece.
        let from = unsafe { self.host.add(piece.start) };
        // SAFETY: both sides must hold the piece and must not overlap ← the caller guarantees the
        // former; this thread owns the block, and nothing else uses it.
        unsafe { copy_bytes(from, slot.start(), piece.len(), is_non_temporal) };
        let start = slot.start().cast();
        self.queue(|| match self.device {
            DeviceSide::Linear(device)
                if INLINE.contains(&piece.len()) && piece.len().is_multiple_of(2) =>
            {
                let rows = Rows::halves(device + piece.start as CUdeviceptr, piece.len());
                // SAFETY: both sides must hold the bytes until the transfer has completed ←
                // they do, as in the next arm; the two rows are the same contiguous bytes.
                unsafe { queue(self.stream, Side::Device(rows), Side::Host(start), &rows) }
            }
            DeviceSide::Linear(device) => {
                self.stream
                    .observed(Work::of_kind(WorkKind::CopyToDevice, piece.len()), || {
                        // SAFETY: both sides must hold the bytes until the transfer has completed ←
                        // the caller guarantees it for the device memory, which is freed after its
                        // uses; the block is reused only after its event, or never.
                        unsafe {
                            call!(
                                self.stream.driver(),
                                cuMemcpyHtoDAsync_v2(
                                    device + piece.start as CUdeviceptr,
                                    start,
                                    piece.len(),
                                    self.stream.as_raw()
                                )
                            )
                        }
                    })
            }
            DeviceSide::Rows(rows) => rows.boxes(piece).try_for_each(|(offset, part)| {
                let from = Side::Host(start.wrapping_byte_add(offset));
                // SAFETY: as above; the boxes are contiguous in the block.
                unsafe { queue(self.stream, Side::Device(part), from, &part) }
            }),
        })
    }
}
