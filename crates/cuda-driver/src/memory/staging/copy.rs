//! Copies between pageable memory and the device, through the page-locked blocks of the context.

use std::ptr;

use cuda_sys::CUdeviceptr;

use super::chunks::{Chunks, Way};
use super::filling::Filling;
use super::non_temporal;
use crate::copy_threads;
use crate::error::{DriverError, Error, Result};
use crate::memory::Memory;
use crate::memory::pitched::Rows;
use crate::staging_pool::{LARGE, SMALL, Shelf, Slot};
use crate::stream::Stream;
use crate::stream_state::Kind;
use crate::tracking::{Access, Scope};

/// The name of these copies in errors. The callers refuse captured calls by their own names.
const CALL: &str = "a copy from or to host memory";

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
    let (mut copy, is_small) = Copy::new(stream, to, source.cast_mut(), bytes);
    let _current = copy.stream.bind_for_query()?;
    if !is_small {
        // SAFETY: both sides must hold the bytes of each piece, and no code may write the source ←
        // the caller guarantees both.
        let work = |copy: &Copy<'_>, chunks: &Chunks| unsafe { copy.upload_pieces(chunks) };
        return in_uses(&mut copy, memory, access, (bytes, Way::ToDevice), &work);
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
    let (mut copy, is_small) = Copy::new(stream, from, destination, bytes);
    let _current = copy.stream.bind_for_query()?;
    if !is_small {
        let filling = Filling::default();
        // SAFETY: both sides must hold the bytes of each piece, and no other code may use the
        // destination ← the caller guarantees both.
        let work =
            |copy: &Copy<'_>, chunks: &Chunks| unsafe { copy.download_pieces(chunks, &filling) };
        return in_uses(&mut copy, memory, access, (bytes, Way::ToHost), &work);
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

/// Returns the copies that make up a copy of rows, each with its offset on the host and its size.
/// There is one copy, or one for each row if a row does not fit in a block.
fn copies_of(rows: &Rows) -> impl Iterator<Item = (usize, DeviceSide, usize)> {
    let (rows, all) = (*rows, rows.bytes());
    let count = match all {
        0 => 0,
        _ if rows.is_linear() || rows.width <= LARGE => 1,
        _ => rows.height * rows.depth,
    };
    (0..count).map(move |row| {
        if rows.is_linear() {
            (0, DeviceSide::Linear(rows.address), all)
        } else if count == 1 && rows.width <= LARGE {
            (0, DeviceSide::Rows(rows), all)
        } else {
            let address = rows.row(row % rows.height, row / rows.height);
            (row * rows.width, DeviceSide::Linear(address), rows.width)
        }
    })
}

/// Runs `work` as one use of the memory. If uses of the memory take the replay lock, each piece is
/// a use of its own: a piece waits for the device, and the lock must not block replays on other
/// threads for all that time.
fn in_uses<'a>(
    copy: &mut Copy<'a>,
    memory: &'a Memory,
    access: Access,
    (bytes, way): (usize, Way),
    work: &(impl Fn(&Copy<'_>, &Chunks) -> Result<()> + Sync),
) -> Result<()> {
    let all = |copy: &Copy<'_>| {
        in_pieces(copy.stream, copy.chunks(bytes, way), &|chunks| {
            work(copy, chunks)
        })
    };
    if !memory.tracker.needs_replay_lock() {
        let mut scope = Scope::acquire(copy.stream, CALL, |scope| {
            memory.tracker.acquire(scope, access)
        })?;
        // Another thread may have leased the memory since the check.
        if !scope.has_locked_replays() {
            let copied = all(copy);
            memory.tracker.commit(&mut scope, access);
            return copied;
        }
    }
    copy.use_per_piece = Some((memory, access.of_part()));
    all(copy)
}

/// Runs `work` on this thread and on worker threads until no piece is left. A default stream of C
/// is a different queue on each thread, or depends on the context that is current on the thread, so
/// this thread runs all the work of such a stream.
fn in_pieces(
    stream: &Stream,
    chunks: Chunks,
    work: &(impl Fn(&Chunks) -> Result<()> + Sync),
) -> Result<()> {
    let is_short = |error: &Error| matches!(error, Error::OutOfMemory { .. });
    let help = || match work(&chunks) {
        // A worker that gets no block leaves the remaining pieces to other threads.
        Err(error) if !is_short(&error) => chunks.fail(error),
        _ => {}
    };
    let workers = match stream.state().kind() {
        Kind::Own => chunks.workers(),
        Kind::Legacy | Kind::PerThread => 0,
    };
    let mut result = copy_threads::run_with_workers(workers, &help, || work(&chunks));
    let is_short = match &result {
        Ok(()) => !chunks.are_taken(),
        Err(error) => is_short(error),
    };
    if is_short {
        // The workers held all available blocks, and have finished.
        result = work(&chunks);
    }
    if let Err(error) = result {
        chunks.fail(error);
    }
    chunks.result()
}

/// # Safety
///
/// Both sides hold `bytes` bytes and do not overlap. During the call no other code uses the
/// destination or writes the source.
pub(super) unsafe fn copy_bytes(from: *const u8, to: *mut u8, bytes: usize, is_non_temporal: bool) {
    if is_non_temporal {
        // SAFETY: the requirements are those of this function ← the caller guarantees them.
        unsafe { non_temporal::copy(from, to, bytes) };
    } else {
        // SAFETY: both sides must hold the bytes and must not overlap ← the caller guarantees it.
        unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
    }
}

/// The location of the bytes of a copy on the device.
#[derive(Clone, Copy)]
pub(crate) enum DeviceSide {
    /// A contiguous range.
    Linear(CUdeviceptr),
    /// Rows, each of which fits in a block.
    Rows(Rows),
}

/// A copy between the device and pageable memory.
pub(super) struct Copy<'a> {
    pub(super) stream: &'a Stream,
    pub(super) shelf: &'a Shelf,
    pub(super) device: DeviceSide,
    pub(super) host: *mut u8,
    /// The memory, and the access that is recorded for each piece, if each piece is a use of its
    /// own; otherwise `None`.
    use_per_piece: Option<(&'a Memory, Access)>,
}

// SAFETY: threads that share a `Copy` must not race on `host` ← they only read it, or write pieces
// that do not overlap, and have finished when the copy returns. All other fields are `Sync`.
unsafe impl Sync for Copy<'_> {}

impl<'a> Copy<'a> {
    /// Creates a copy. The second value is `true` if the copy fits in a small block.
    fn new(stream: &'a Stream, device: DeviceSide, host: *mut u8, bytes: usize) -> (Self, bool) {
        let staging = stream.context().staging();
        let is_small = bytes <= SMALL;
        let shelf = if is_small {
            &staging.small
        } else {
            &staging.large
        };
        let copy = Self {
            stream,
            shelf,
            device,
            host,
            use_per_piece: None,
        };
        (copy, is_small)
    }

    /// Returns the pieces of the copy. For a copy of rows, a piece consists of whole rows.
    fn chunks(&self, bytes: usize, way: Way) -> Chunks {
        match self.device {
            DeviceSide::Linear(_) => Chunks::new(bytes, 1, way),
            DeviceSide::Rows(rows) => Chunks::new(bytes, rows.width, way),
        }
    }

    /// Calls `queue` to queue a transfer of a piece, and records the use if each piece is one.
    pub(super) fn queue(&self, queue: impl FnOnce() -> Result<(), DriverError>) -> Result<()> {
        let _queueing = self.stream.queueing()?;
        let _current = self.stream.bind_for_copy()?;
        match self.use_per_piece {
            Some((memory, access)) => memory.use_on(self.stream, CALL, access, queue),
            None => Ok(queue()?),
        }
    }

    pub(super) fn take(&self) -> Result<Slot> {
        let allocate = |bytes| Slot::allocate(self.stream.context(), bytes);
        self.shelf.take(self.stream.state().id(), allocate)
    }
}
