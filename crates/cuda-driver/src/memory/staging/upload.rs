//! Copies to the device.

use std::ops::{Range, RangeInclusive};

use cuda_sys::CUdeviceptr;

use super::copy::{CALL, Copy, DeviceSide, copies_of, copy_bytes, in_uses};
use super::pieces::{Direction, Pieces};
use crate::driver::call;
use crate::error::Result;
use crate::memory::Memory;
use crate::memory::pitched::{ArrayBox, Rows, Side, queue};
use crate::observer::Work;
use crate::staging_pool::Slot;
use crate::stream::Stream;
use crate::tracking::Access;
use crate::types::WorkKind;

/// The sizes for which the driver copies a contiguous range into its own command queue, byte by
/// byte. If the same bytes are described as two rows, the device fetches them, and the call takes
/// half the time.
const INLINE: RangeInclusive<usize> = 4 << 10..=16 << 10;

/// Copies `bytes` bytes from `source` to `to`, which lies in `memory`, on `stream`. The source has
/// been read when this function returns; the device receives the bytes when the stream reaches the
/// copy.
///
/// # Safety
///
/// Both sides hold `bytes` bytes. No code writes the source during the call.
pub(crate) unsafe fn upload(
    stream: &Stream,
    (memory, access): (&Memory, Access),
    to: DeviceSide,
    source: *const u8,
    bytes: usize,
) -> Result<()> {
    stream.expect_direct(CALL)?;
    let (mut copy, is_small) = Copy::new(stream, memory, to, source.cast_mut(), bytes);
    let _current = copy.stream.bind_for_query()?;
    if !is_small {
        // SAFETY: both sides must hold the bytes of each piece, and no code may write the source ←
        // the caller guarantees both.
        let work = |copy: &Copy<'_>, pieces: &Pieces| unsafe { copy.upload_pieces(pieces) };
        return in_uses(
            &mut copy,
            memory,
            access,
            (bytes, Direction::ToDevice),
            &work,
        );
    }
    let slot = copy.take()?;
    // SAFETY: as above; and a small block holds `bytes` bytes.
    let queued = memory.use_on(stream, CALL, access, || unsafe {
        copy.queue_upload(&slot, 0..bytes, false)
    });
    if queued.is_err() {
        copy.shelf.lose(slot);
        return queued;
    }
    Ok(copy.shelf.put_behind(slot, copy.stream)?)
}

/// Works as [`upload`] with rows on the device. The rows of the source are contiguous.
///
/// # Safety
///
/// The requirements of [`upload`] apply to all rows.
pub(crate) unsafe fn upload_rows(
    stream: &Stream,
    (memory, access): (&Memory, Access),
    to: &Rows,
    source: *const u8,
) -> Result<()> {
    copies_of(to).try_for_each(|(offset, side, bytes)| {
        let source = source.wrapping_add(offset);
        // SAFETY: both sides must hold the bytes ← the caller guarantees it for all rows.
        unsafe { upload(stream, (memory, access), side, source, bytes) }
    })
}

/// Works as [`upload`] with a box of an array. The rows of the source are contiguous.
///
/// # Safety
///
/// The requirements of [`upload`] apply to all rows.
pub(crate) unsafe fn upload_array(
    stream: &Stream,
    (memory, access): (&Memory, Access),
    to: &ArrayBox,
    source: *const u8,
) -> Result<()> {
    to.narrow_boxes().try_for_each(|(offset, part)| {
        let (source, bytes) = (source.wrapping_add(offset), part.bytes());
        // SAFETY: both sides must hold the bytes ← the caller guarantees it for all rows.
        unsafe {
            upload(
                stream,
                (memory, access),
                DeviceSide::Array(part),
                source,
                bytes,
            )
        }
    })
}

impl Copy<'_> {
    /// Uploads pieces until none is left.
    ///
    /// # Errors
    ///
    /// Fails if no block can be taken. Other errors are recorded in `pieces`.
    ///
    /// # Safety
    ///
    /// Both sides hold the bytes of the pieces. No code writes the source during the call.
    pub(super) unsafe fn upload_pieces(&self, pieces: &Pieces) -> Result<()> {
        // The piece is taken before the block. A thread without a piece must not wait for a block,
        // because the stream may wait for what that thread does next.
        while let Some(piece) = pieces.next() {
            let slot = match self.take() {
                Ok(slot) => slot,
                Err(error) => {
                    pieces.give_back(piece);
                    return Err(error);
                }
            };
            // SAFETY: both sides and the block must hold the piece ← the caller guarantees it for
            // both sides, and a piece is at most as large as a block.
            match unsafe { self.queue_upload(&slot, piece, pieces.is_non_temporal()) } {
                Ok(()) => {
                    if let Err(error) = self.shelf.put_behind(slot, self.stream) {
                        pieces.fail(error);
                    }
                }
                Err(error) => {
                    self.shelf.lose(slot);
                    pieces.fail(error);
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
            DeviceSide::Array(all) => all.boxes(piece).try_for_each(|(offset, part)| {
                let from = Side::Host(start.wrapping_byte_add(offset));
                // SAFETY: as above.
                unsafe { queue(self.stream, Side::Array(part), from, &part.extent()) }
            }),
        })
    }
}
