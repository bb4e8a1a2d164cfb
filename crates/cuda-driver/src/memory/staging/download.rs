//! Copies to the host.

use std::ops::Range;

use cuda_sys::CUdeviceptr;

use super::copy::{CALL, Copy, DeviceSide, copies_of, copy_bytes, in_uses};
use super::filling::Filling;
use super::pieces::{Direction, Pieces};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::memory::pitched::{ArrayBox, Rows, Side, queue};
use crate::observer::Work;
use crate::staging_pool::Slot;
use crate::stream::Stream;
use crate::tracking::Access;
use crate::types::WorkKind;

/// Copies `bytes` bytes from `from`, which lies in `memory`, to `destination`, on `stream`. The
/// copy has completed when this function returns. On an error some of the bytes may have been
/// copied.
///
/// # Safety
///
/// Both sides hold `bytes` bytes. No other code uses the destination during the call.
pub(crate) unsafe fn download(
    stream: &Stream,
    (memory, access): (&Memory, Access),
    from: DeviceSide,
    destination: *mut u8,
    bytes: usize,
) -> Result<()> {
    stream.expect_direct(CALL)?;
    let (mut copy, is_small) = Copy::new(stream, memory, from, destination, bytes);
    let _current = copy.stream.bind_for_query()?;
    if !is_small {
        let filling = Filling::default();
        // SAFETY: both sides must hold the bytes of each piece, and no other code may use the
        // destination ← the caller guarantees both.
        let work =
            |copy: &Copy<'_>, pieces: &Pieces| unsafe { copy.download_pieces(pieces, &filling) };
        return in_uses(&mut copy, memory, access, (bytes, Direction::ToHost), &work);
    }
    let slot = copy.take()?;
    // SAFETY: as above; and a small block holds `bytes` bytes.
    let queued = memory.use_on(stream, CALL, access, || unsafe {
        copy.queue_download(&slot, 0..bytes)
    });
    let wait = || copy.stream.state().synchronize(copy.stream.context());
    let done = queued.and_then(|()| Ok(wait()?));
    // SAFETY: if `done` is `Ok`, the block must hold the bytes ← the copy was queued and the stream
    // has been waited for; if either failed, `done` is the error.
    unsafe { copy.finish_download(slot, done, 0..bytes, false) }
}

/// Works as [`download`] with rows on the device. The rows of the destination are contiguous.
///
/// # Safety
///
/// The requirements of [`download`] apply to all rows.
pub(crate) unsafe fn download_rows(
    stream: &Stream,
    (memory, access): (&Memory, Access),
    from: &Rows,
    destination: *mut u8,
) -> Result<()> {
    copies_of(from).try_for_each(|(offset, side, bytes)| {
        let destination = destination.wrapping_add(offset);
        // SAFETY: both sides must hold the bytes ← the caller guarantees it for all rows.
        unsafe { download(stream, (memory, access), side, destination, bytes) }
    })
}

/// Works as [`download`] with a box of an array. The rows of the destination are contiguous.
///
/// # Safety
///
/// The requirements of [`download`] apply to all rows.
pub(crate) unsafe fn download_array(
    stream: &Stream,
    (memory, access): (&Memory, Access),
    from: &ArrayBox,
    destination: *mut u8,
) -> Result<()> {
    from.narrow_boxes().try_for_each(|(offset, part)| {
        let (destination, bytes) = (destination.wrapping_add(offset), part.bytes());
        let from = DeviceSide::Array(part);
        // SAFETY: both sides must hold the bytes ← the caller guarantees it for all rows.
        unsafe { download(stream, (memory, access), from, destination, bytes) }
    })
}

impl Copy<'_> {
    /// Downloads pieces until none is left. The device fills some blocks while threads empty
    /// others. A thread may empty a block that another thread queued.
    ///
    /// # Errors
    ///
    /// Fails if no block can be taken. Other errors are recorded in `pieces`.
    ///
    /// # Safety
    ///
    /// Both sides hold the bytes of the pieces. No other code uses the destination during the call.
    pub(super) unsafe fn download_pieces(&self, pieces: &Pieces, filling: &Filling) -> Result<()> {
        loop {
            let mut refused = Ok(());
            while filling.len() < pieces.ahead() {
                // SAFETY: the source must hold the pieces ← the caller guarantees it.
                match unsafe { self.begin_download(pieces) } {
                    Ok(Some(next)) => filling.push(next),
                    Ok(None) => break,
                    // The copy continues with the blocks that it has.
                    Err(error) => {
                        refused = Err(error);
                        break;
                    }
                }
            }
            let Some((slot, piece)) = filling.pop() else {
                // Other threads may have emptied the blocks in the meantime, and pieces may be
                // left.
                return if pieces.are_taken() { Ok(()) } else { refused };
            };
            let done = slot.wait().map_err(Error::from);
            // SAFETY: if `done` is `Ok`, the block must hold the piece ← its event has been waited
            // for; if the wait failed, `done` is the error.
            let finished =
                unsafe { self.finish_download(slot, done, piece, pieces.is_non_temporal()) };
            if let Err(error) = finished {
                pieces.fail(error);
            }
        }
    }

    /// Queues the transfer of the next piece to a block. Returns `None` if no piece is left or if
    /// the transfer failed.
    ///
    /// # Safety
    ///
    /// The source holds the bytes of the pieces.
    unsafe fn begin_download(&self, pieces: &Pieces) -> Result<Option<(Slot, Range<usize>)>> {
        if pieces.are_taken() {
            return Ok(None);
        }
        let slot = self.take()?;
        let Some(piece) = pieces.next() else {
            self.shelf.put(slot);
            return Ok(None);
        };
        // SAFETY: the source and the block must hold the piece ← the caller guarantees it for the
        // source, and a piece is at most as large as a block.
        let queued = unsafe { self.queue_download(&slot, piece.clone()) };
        // If no event can be recorded after the transfer, the stream is waited for instead.
        let state = self.stream.state();
        let queued = queued.and_then(|()| {
            let queueing = self.stream.queueing();
            let recorded = queueing.and_then(|queueing| slot.record(state.driver(), &queueing));
            Ok(recorded.or_else(|_| state.synchronize(self.stream.context()))?)
        });
        if let Err(error) = queued {
            self.shelf.lose(slot);
            pieces.fail(error);
            return Ok(None);
        }
        Ok(Some((slot, piece)))
    }

    /// Queues a transfer from the device to the block.
    ///
    /// # Safety
    ///
    /// The source and the block hold the bytes of `piece`.
    pub(super) unsafe fn queue_download(&self, slot: &Slot, piece: Range<usize>) -> Result<()> {
        let start = slot.start().cast();
        self.queue(|| match self.device {
            DeviceSide::Linear(device) => {
                self.stream
                    .observed(Work::of_kind(WorkKind::CopyToHost, piece.len()), || {
                        // SAFETY: both sides must hold the bytes until the transfer has completed ←
                        // the caller guarantees it for the device memory, which is freed after its
                        // uses; the block is reused only when the transfer is known to have
                        // completed, or never.
                        unsafe {
                            call!(
                                self.stream.driver(),
                                cuMemcpyDtoHAsync_v2(
                                    start,
                                    device + piece.start as CUdeviceptr,
                                    piece.len(),
                                    self.stream.as_raw()
                                )
                            )
                        }
                    })
            }
            DeviceSide::Rows(rows) => rows.boxes(piece).try_for_each(|(offset, part)| {
                let to = Side::Host(start.wrapping_byte_add(offset));
                // SAFETY: as above; the boxes are contiguous in the block.
                unsafe { queue(self.stream, to, Side::Device(part), &part) }
            }),
            DeviceSide::Array(all) => all.boxes(piece).try_for_each(|(offset, part)| {
                let to = Side::Host(start.wrapping_byte_add(offset));
                // SAFETY: as above.
                unsafe { queue(self.stream, to, Side::Array(part), &part.extent()) }
            }),
        })
    }

    /// Copies the block to the destination if `done` is `Ok`, and leaks the block otherwise.
    ///
    /// # Safety
    ///
    /// If `done` is `Ok`, the block holds the bytes of `piece`, and the destination has room for
    /// them and is not used by other code.
    pub(super) unsafe fn finish_download(
        &self,
        slot: Slot,
        done: Result<()>,
        piece: Range<usize>,
        is_non_temporal: bool,
    ) -> Result<()> {
        if done.is_err() {
            self.shelf.lose(slot);
            return done;
        }
        // SAFETY: the result must be in the same allocation ← the destination holds the piece.
        let to = unsafe { self.host.add(piece.start) };
        // SAFETY: both sides must hold the piece and must not overlap ← the caller guarantees the
        // former; this thread owns the block, and nothing else uses it.
        unsafe { copy_bytes(slot.start(), to, piece.len(), is_non_temporal) };
        self.shelf.put(slot);
        Ok(())
    }
}
