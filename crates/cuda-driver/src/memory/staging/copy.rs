//! Copies between pageable memory and the device, through the blocks of the context.

use std::ptr;

use cuda_sys::CUdeviceptr;

use super::chunks::{Chunks, Way};
use super::download::Filling;
use super::past_caches;
use super::{LARGE, SMALL, Shelf, Slot};
use crate::crew;
use crate::error::{DriverError, Error, Result};
use crate::memory::Memory;
use crate::memory::pitched::Rows;
use crate::order::Access;
use crate::stream::{Kind, Stream};

/// Copies `bytes` bytes from `source` to `to`, which lies in `memory`, on its home stream. They
/// have been read when this returns; the device gets them where the stream comes to it.
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
    let _current = copy.home.bind_to_ask()?;
    if !is_small {
        // SAFETY: both sides must have the bytes of each piece, and nobody write the source ← the
        // caller says so.
        let work = |copy: &Copy<'_>, chunks: &Chunks| unsafe { copy.upload_pieces(chunks) };
        return in_uses(&mut copy, memory, access, (bytes, Way::ToDevice), &work);
    }
    let slot = copy.take()?;
    // SAFETY: as above; and `bytes` are no more than a small block has.
    let queued = memory.use_at_home(access, || unsafe {
        copy.queue_upload(&slot, 0..bytes, false)
    });
    if queued.is_err() {
        copy.shelf.lose(slot);
        return queued;
    }
    Ok(copy.shelf.put_behind(slot, copy.home)?)
}

/// Copies `bytes` bytes from `from`, which lies in `memory`, to `destination`, on the home stream
/// of the memory. They are there when this returns; on an error, some may be.
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
    let _current = copy.home.bind_to_ask()?;
    if !is_small {
        let filling = Filling::default();
        // SAFETY: both sides must have the bytes of each piece, the destination be ours alone ← the
        // caller says so.
        let work =
            |copy: &Copy<'_>, chunks: &Chunks| unsafe { copy.download_pieces(chunks, &filling) };
        return in_uses(&mut copy, memory, access, (bytes, Way::ToHost), &work);
    }
    let slot = copy.take()?;
    // SAFETY: as above; and `bytes` are no more than a small block has.
    let queued = memory.use_at_home(access, || unsafe { copy.queue_download(&slot, 0..bytes) });
    let wait = || copy.home.state().synchronize(copy.home.context());
    let done = queued.and_then(|()| Ok(wait()?));
    // SAFETY: the block must hold the bytes ← the stream has been waited for, or `done` says that
    // it could not be.
    unsafe { copy.finish_download(slot, done, 0..bytes, false) }
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

/// The copies that make up one of rows, each with its bytes and where they begin on the host: one,
/// or one for each row if a row does not fit in a block.
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

/// Has `work` done as one use of the memory; as one for each piece if graphs hold it, since pieces
/// wait for the device, and replays on other threads must not have to.
fn in_uses<'a>(
    copy: &mut Copy<'a>,
    memory: &'a Memory,
    access: Access,
    (bytes, way): (usize, Way),
    work: &(impl Fn(&Copy<'_>, &Chunks) -> Result<()> + Sync),
) -> Result<()> {
    let is_held = memory.tracker.is_held();
    if is_held {
        copy.each = Some((memory, access.of_part()));
    }
    let copy = &*copy;
    let all = || {
        in_pieces(copy.home, copy.chunks(bytes, way), &|chunks| {
            work(copy, chunks)
        })
    };
    if is_held {
        all()
    } else {
        memory.use_at_home(access, all)
    }
}
/// Has `work` done by this thread and helpers, until no piece is left. A default stream of C is a
/// queue of this thread, or one that only it has made current: there are no helpers then.
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
    let is_short = match &result {
        Ok(()) => !chunks.are_taken(),
        Err(error) => is_short(error),
    };
    if is_short {
        // The helpers had what there was, and are gone.
        result = work(&chunks);
    }
    if let Err(error) = result {
        chunks.fail(error);
    }
    chunks.result()
}

/// # Safety
///
/// Both sides have so many bytes, apart. Nobody else uses the destination, nor writes the source,
/// meanwhile.
pub(super) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize, is_past_caches: bool) {
    if is_past_caches {
        // SAFETY: as the caller says.
        unsafe { past_caches::copy(from, to, bytes) };
    } else {
        // SAFETY: as the caller says.
        unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
    }
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
pub(super) struct Copy<'a> {
    pub(super) home: &'a Stream,
    pub(super) shelf: &'a Shelf,
    pub(super) device: Place,
    pub(super) host: *mut u8,
    /// If each piece is a use of its own: of this memory.
    each: Option<(&'a Memory, Access)>,
}

// SAFETY: whoever uses `host` from another thread must not race ← the threads of a copy read it, or
// write pieces of it that are apart, and are done when the copy returns. All else may go to other
// threads.
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
    fn chunks(&self, bytes: usize, way: Way) -> Chunks {
        match self.device {
            Place::Linear(_) => Chunks::new(bytes, 1, way),
            Place::Rows(rows) => Chunks::new(bytes, rows.width, way),
        }
    }

    /// Queues something of a piece.
    pub(super) fn queue(&self, queue: impl FnOnce() -> Result<(), DriverError>) -> Result<()> {
        let _queueing = self.home.queueing()?;
        match self.each {
            Some((memory, access)) => memory.use_at_home(access, queue),
            None => Ok(queue()?),
        }
    }

    pub(super) fn take(&self) -> Result<Slot> {
        self.shelf.take(self.home.context(), self.home.state())
    }
}
