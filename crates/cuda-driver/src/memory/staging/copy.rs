//! The parts that copies in both directions share.

use std::ptr;

use cuda_sys::CUdeviceptr;

use super::non_temporal;
use super::pieces::{Direction, Pieces};
use crate::copy_threads;
use crate::error::{DriverError, Error, Result};
use crate::memory::Memory;
use crate::memory::pitched::{ArrayBox, Rows};
use crate::staging_pool::{LARGE, SMALL, Shelf, Slot};
use crate::stream::Stream;
use crate::stream_state::Kind;
use crate::tracking::{Access, Scope};

/// The name of these copies in errors. The callers refuse captured calls by their own names.
pub(super) const CALL: &str = "a copy from or to host memory";

/// Returns the copies that make up a copy of rows, each with its offset on the host and its size.
/// There is one copy, or one for each row if a row does not fit in a block.
pub(super) fn copies_of(rows: &Rows) -> impl Iterator<Item = (usize, DeviceSide, usize)> {
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
pub(super) fn in_uses<'a>(
    copy: &mut Copy<'a>,
    memory: &'a Memory,
    access: Access,
    (bytes, direction): (usize, Direction),
    work: &(impl Fn(&Copy<'_>, &Pieces) -> Result<()> + Sync),
) -> Result<()> {
    let all = |copy: &Copy<'_>| {
        in_pieces(copy.stream, copy.pieces(bytes, direction), &|pieces| {
            work(copy, pieces)
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
/// this thread runs all the work of a default stream.
fn in_pieces(
    stream: &Stream,
    pieces: Pieces,
    work: &(impl Fn(&Pieces) -> Result<()> + Sync),
) -> Result<()> {
    let is_short = |error: &Error| matches!(error, Error::OutOfMemory { .. });
    let help = || match work(&pieces) {
        // A worker that gets no block leaves the remaining pieces to other threads.
        Err(error) if !is_short(&error) => pieces.fail(error),
        _ => {}
    };
    let workers = match stream.state().kind() {
        Kind::Own => pieces.workers(),
        Kind::Legacy | Kind::PerThread => 0,
    };
    let mut result = copy_threads::run_with_workers(workers, &help, || work(&pieces));
    let is_short = match &result {
        Ok(()) => !pieces.are_taken(),
        Err(error) => is_short(error),
    };
    if is_short {
        // The workers held all available blocks, and have finished.
        result = work(&pieces);
    }
    if let Err(error) = result {
        pieces.fail(error);
    }
    pieces.result()
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
    /// Rows of an array, each of which fits in a block.
    Array(ArrayBox),
}

/// A copy between the device and pageable memory.
pub(super) struct Copy<'a> {
    pub(super) stream: &'a Stream,
    pub(super) shelf: &'a Shelf,
    pub(super) device: DeviceSide,
    pub(super) host: *mut u8,
    /// Whether the context must be current on each thread that queues a piece.
    may_be_mapped: bool,
    /// The memory, and the access that is recorded for each piece, if each piece is a use of its
    /// own; otherwise `None`.
    use_per_piece: Option<(&'a Memory, Access)>,
}

// SAFETY: threads that share a `Copy` must not race on `host` ← they only read it, or write pieces
// that do not overlap, and have finished when the copy returns. All other fields are `Sync`.
unsafe impl Sync for Copy<'_> {}

impl<'a> Copy<'a> {
    /// Creates a copy from or to `memory`. The second value is `true` if the copy fits in a small
    /// block.
    pub(super) fn new(
        stream: &'a Stream,
        memory: &Memory,
        device: DeviceSide,
        host: *mut u8,
        bytes: usize,
    ) -> (Self, bool) {
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
            may_be_mapped: memory.may_be_mapped(),
            use_per_piece: None,
        };
        (copy, is_small)
    }

    /// Returns the pieces of the copy. For a copy of rows, a piece consists of whole rows.
    fn pieces(&self, bytes: usize, direction: Direction) -> Pieces {
        match self.device {
            DeviceSide::Linear(_) => Pieces::new(bytes, 1, direction),
            DeviceSide::Rows(rows) => Pieces::new(bytes, rows.width, direction),
            DeviceSide::Array(part) => Pieces::new(bytes, part.width, direction),
        }
    }

    /// Calls `queue` to queue a transfer of a piece, and records the use if each piece is one.
    pub(super) fn queue(&self, queue: impl FnOnce() -> Result<(), DriverError>) -> Result<()> {
        let _queueing = self.stream.queueing()?;
        let _current = match self.stream.bind_for_mapped(self.may_be_mapped)? {
            Some(current) => Some(current),
            None => self.stream.bind_for_copy()?,
        };
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
