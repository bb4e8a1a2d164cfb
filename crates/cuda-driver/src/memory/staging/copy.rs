//! Copies between pageable memory and the device, through the blocks of the context.

use std::ops::Range;
use std::ptr;

use cuda_sys::CUdeviceptr;

use super::chunks::Chunks;
use super::{LARGE, SMALL, Shelf, Slot};
use crate::crew;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::memory::Memory;
use crate::memory::pitched::{Rows, Side, queue};
use crate::order::Access;
use crate::stream::{Kind, Stream};

/// Copies `bytes` bytes from `source` to `to`, which lies in `memory`, on its home stream. They have been read when this
/// returns; the device gets them where the stream comes to it.
///
/// # Safety
///
/// Both sides have so many bytes. Nobody writes the source meanwhile.
pub(crate) unsafe fn upload(
    memory: &Memory,
    access: Access,
    to: Place,
    source: *const u8,
    bytes: usize,
) -> Result<()> {
    let (mut copy, is_small) = Copy::new(memory.home(), to, source.cast_mut(), bytes);
    let _current = copy.home.bind()?;
    if !is_small {
        // SAFETY: both sides must have the bytes of each piece, and nobody write the source ← the caller says so.
        let work = |copy: &Copy<'_>, chunks: &Chunks| unsafe { copy.upload_pieces(chunks) };
        return in_uses(&mut copy, memory, access, bytes, &work);
    }
    let slot = copy.take()?;
    // SAFETY: as above; and `bytes` are no more than a small block has.
    let queued = memory.use_at_home(access, || unsafe { copy.queue_upload(&slot, 0..bytes) });
    if queued.is_err() {
        copy.shelf.lose(slot);
        return queued;
    }
    Ok(copy.shelf.put_behind(slot, copy.home)?)
}

/// Copies `bytes` bytes from `from`, which lies in `memory`, to `destination`, on the home stream of the memory. They are
/// there when this returns; on an error, some may be.
///
/// # Safety
///
/// Both sides have so many bytes. Nobody else uses the destination meanwhile.
pub(crate) unsafe fn download(
    memory: &Memory,
    access: Access,
    from: Place,
    destination: *mut u8,
    bytes: usize,
) -> Result<()> {
    let (mut copy, is_small) = Copy::new(memory.home(), from, destination, bytes);
    let _current = copy.home.bind()?;
    if !is_small {
        // SAFETY: both sides must have the bytes of each piece, the destination be ours alone ← the caller says so.
        let work = |copy: &Copy<'_>, chunks: &Chunks| unsafe { copy.download_pieces(chunks) };
        return in_uses(&mut copy, memory, access, bytes, &work);
    }
    let slot = copy.take()?;
    // SAFETY: as above; and `bytes` are no more than a small block has.
    let queued = memory.use_at_home(access, || unsafe { copy.queue_download(&slot, 0..bytes) });
    let done = queued.and_then(|()| copy.home.synchronize());
    // SAFETY: the block must hold the bytes ← the stream has been waited for, or `done` says that it could not be.
    unsafe { copy.finish_download(slot, done, 0..bytes) }
}

/// [`upload`] to rows; the source has them one right behind the other.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn upload_rows(
    memory: &Memory,
    access: Access,
    to: &Rows,
    source: *const u8,
) -> Result<()> {
    places(to).try_for_each(|(offset, place, bytes)| {
        let source = source.wrapping_add(offset);
        // SAFETY: both sides must have the bytes ← the caller says so of all rows.
        unsafe { upload(memory, access, place, source, bytes) }
    })
}

/// [`download`] from rows; the destination gets them one right behind the other.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn download_rows(
    memory: &Memory,
    access: Access,
    from: &Rows,
    destination: *mut u8,
) -> Result<()> {
    places(from).try_for_each(|(offset, place, bytes)| {
        let destination = destination.wrapping_add(offset);
        // SAFETY: both sides must have the bytes ← the caller says so of all rows.
        unsafe { download(memory, access, place, destination, bytes) }
    })
}

/// The copies that make up one of rows, each with its bytes and where they begin on the host: one, or one for each row
/// if a row does not fit in a block.
fn places(rows: &Rows) -> impl Iterator<Item = (usize, Place, usize)> {
    let (rows, all) = (*rows, rows.bytes());
    let count = match all {
        0 => 0,
        _ if rows.is_linear() || rows.width <= LARGE => 1,
        _ => rows.height * rows.depth,
    };
    (0..count).map(move |row| {
        if rows.is_linear() {
            (0, Place::Linear(rows.address), all)
        } else if count == 1 && rows.width <= LARGE {
            (0, Place::Rows(rows), all)
        } else {
            let address = rows.row(row % rows.height, row / rows.height);
            (row * rows.width, Place::Linear(address), rows.width)
        }
    })
}

/// Has `work` done as one use of the memory; as one for each piece if graphs hold it, since pieces wait for the device, and
/// replays on other threads must not have to.
fn in_uses<'a>(
    copy: &mut Copy<'a>,
    memory: &'a Memory,
    access: Access,
    bytes: usize,
    work: &(impl Fn(&Copy<'_>, &Chunks) -> Result<()> + Sync),
) -> Result<()> {
    if memory.tracker.is_held() {
        copy.each = Some((memory, access.of_part()));
        let copy = &*copy;
        return in_pieces(copy.home, copy.chunks(bytes), &|chunks| work(copy, chunks));
    }
    let copy = &*copy;
    memory.use_at_home(access, || {
        in_pieces(copy.home, copy.chunks(bytes), &|chunks| work(copy, chunks))
    })
}

/// Has `work` done by this thread and helpers, until no piece is left. A default stream of C is a queue of this thread, or one
/// that only it has made current: there are no helpers then.
fn in_pieces(
    home: &Stream,
    chunks: Chunks,
    work: &(impl Fn(&Chunks) -> Result<()> + Sync),
) -> Result<()> {
    let is_short = |error: &Error| matches!(error, Error::OutOfMemory { .. });
    let help = || match work(&chunks) {
        // Who gets no block leaves the rest to the others.
        Err(error) if !is_short(&error) => chunks.fail(error),
        _ => {}
    };
    let helpers = match home.state().kind() {
        Kind::Own => chunks.helpers(),
        Kind::Legacy | Kind::PerThread => 0,
    };
    let mut result = crew::together(helpers, &help, || work(&chunks));
    if result.as_ref().is_err_and(is_short) {
        // The helpers had what there was, and are gone.
        result = work(&chunks);
    }
    if let Err(error) = result {
        chunks.fail(error);
    }
    chunks.result()
}

/// Where the bytes of a copy lie on the device.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// One behind the other.
    Linear(CUdeviceptr),
    /// In rows that fit in a block.
    Rows(Rows),
}

/// A copy between the device and pageable memory.
struct Copy<'a> {
    home: &'a Stream,
    shelf: &'a Shelf,
    device: Place,
    host: *mut u8,
    /// If each piece is a use of its own: of this memory.
    each: Option<(&'a Memory, Access)>,
}

// SAFETY: whoever uses `host` from another thread must not race ← the threads of a copy read it, or write pieces of it
// that are apart, and are done when the copy returns. All else may go to other threads.
unsafe impl Sync for Copy<'_> {}

impl<'a> Copy<'a> {
    /// The copy, and whether it fits in a small block.
    fn new(home: &'a Stream, device: Place, host: *mut u8, bytes: usize) -> (Self, bool) {
        let staging = home.context().staging();
        let is_small = bytes <= SMALL;
        let shelf = if is_small {
            &staging.small
        } else {
            &staging.large
        };
        let copy = Self {
            home,
            shelf,
            device,
            host,
            each: None,
        };
        (copy, is_small)
    }

    /// The pieces of the copy: of whole rows, if it is of rows.
    fn chunks(&self, bytes: usize) -> Chunks {
        match self.device {
            Place::Linear(_) => Chunks::new(bytes, 1),
            Place::Rows(rows) => Chunks::new(bytes, rows.width),
        }
    }

    /// Queues something of a piece.
    fn queue(&self, queue: impl FnOnce() -> Result<(), DriverError>) -> Result<()> {
        match self.each {
            Some((memory, access)) => memory.use_at_home(access, queue),
            None => Ok(queue()?),
        }
    }

    fn take(&self) -> Result<Slot> {
        self.shelf.take(self.home.context(), self.home.state())
    }

    /// Uploads pieces until none is left.
    ///
    /// # Errors
    ///
    /// That there is no block; other errors are told to `chunks`.
    ///
    /// # Safety
    ///
    /// Both sides have the bytes of the pieces. Nobody writes the source meanwhile.
    unsafe fn upload_pieces(&self, chunks: &Chunks) -> Result<()> {
        while !chunks.are_taken() {
            // The block first: who gets none must not have taken a piece.
            let slot = self.take()?;
            let Some(piece) = chunks.next() else {
                self.shelf.put(slot);
                return Ok(());
            };
            // SAFETY: both sides must have the piece ← the caller says so; a piece is no more than a block.
            match unsafe { self.queue_upload(&slot, piece) } {
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
    unsafe fn queue_upload(&self, slot: &Slot, piece: Range<usize>) -> Result<()> {
        // SAFETY: the result must be in the same memory ← the source has the piece.
        let from = unsafe { self.host.add(piece.start) };
        // SAFETY: both sides must hold the piece, apart ← the caller says so; the block is ours, and nothing uses it.
        unsafe { ptr::copy_nonoverlapping(from, slot.start(), piece.len()) };
        let start = slot.start().cast();
        self.queue(|| match self.device {
            // SAFETY: both sides must hold the bytes until the copy is done ← the caller says so of the device's, which
            // is freed behind its uses; the block is used again only behind its event, or never.
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

    /// Downloads pieces until none is left. The device fills one block while another is emptied.
    ///
    /// # Errors
    ///
    /// That there is no block; other errors are told to `chunks`.
    ///
    /// # Safety
    ///
    /// Both sides have the bytes of the pieces. Nobody else uses the destination meanwhile.
    unsafe fn download_pieces(&self, chunks: &Chunks) -> Result<()> {
        let mut filling = None;
        loop {
            // SAFETY: the source must have the pieces ← the caller says so.
            let next = match unsafe { self.begin_download(chunks) } {
                Ok(next) => next,
                // The block in hand will do.
                Err(_) if filling.is_some() => None,
                Err(error) => return Err(error),
            };
            let is_last = next.is_none() && filling.is_none();
            if let Some((slot, piece)) = filling.take() {
                let slot: Slot = slot;
                let done = slot.wait().map_err(Error::from);
                // SAFETY: the block must hold the piece ← its event has been waited for, or `done` says that it could
                // not be.
                if let Err(error) = unsafe { self.finish_download(slot, done, piece) } {
                    chunks.fail(error);
                }
            }
            if is_last {
                return Ok(());
            }
            filling = next;
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
        // SAFETY: the source must have the piece ← the caller says so; a piece is no more than a block.
        let queued = unsafe { self.queue_download(&slot, piece.clone()) };
        // Without an event behind the copy the stream is waited for instead.
        let state = self.home.state();
        let queued = queued.and_then(|()| {
            let recorded = slot.record(state);
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
    unsafe fn queue_download(&self, slot: &Slot, piece: Range<usize>) -> Result<()> {
        let start = slot.start().cast();
        self.queue(|| match self.device {
            // SAFETY: both sides must hold the bytes until the copy is done ← the caller says so of the device's, which
            // is freed behind its uses; the block is used again only when the copy is known to be done, or never.
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
    /// If `done` is no error the block holds the bytes of `piece`, and the destination has them and is nobody else's.
    unsafe fn finish_download(
        &self,
        slot: Slot,
        done: Result<()>,
        piece: Range<usize>,
    ) -> Result<()> {
        if done.is_err() {
            self.shelf.lose(slot);
            return done;
        }
        // SAFETY: the result must be in the same memory ← the destination has the piece.
        let to = unsafe { self.host.add(piece.start) };
        // SAFETY: both sides must hold the piece, apart ← the caller says so; the block is ours, and nothing uses it.
        unsafe { ptr::copy_nonoverlapping(slot.start(), to, piece.len()) };
        self.shelf.put(slot);
        Ok(())
    }
}
