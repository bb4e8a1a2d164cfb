//! A copy in pieces, which several threads process.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::staging_pool::{LARGE, SMALL};

/// The remaining pieces of one copy, and its first error.
pub(super) struct Pieces {
    bytes: usize,
    piece_bytes: usize,
    /// Whether the copy is large enough for worker threads.
    is_shared: bool,
    /// Whether the copied bytes bypass the processor caches.
    is_non_temporal: bool,
    /// The start of the next piece. No piece is left if it is at least `bytes`.
    next: AtomicUsize,
    /// Pieces that a thread took and did not copy.
    returned: Mutex<Vec<Range<usize>>, { rank::COPY_RETURNED }>,
    failed: Mutex<Option<Error>, { rank::COPY_FAILED }>,
}

/// The largest copy to the device, in bytes, that one thread does alone: waking workers would cost
/// more.
const SINGLE_THREAD_UPLOAD_MAX: usize = LARGE;
/// The largest copy to the host, in bytes, that one thread does alone.
const SINGLE_THREAD_DOWNLOAD_MAX: usize = 512 << 10;
/// The number of bytes of a shared copy for each additional thread.
const BYTES_PER_THREAD: usize = 512 << 10;
/// The minimum number of pieces of a copy to the host, so that its two steps overlap. Small copies
/// have fewer pieces, so that no piece is too small.
const MIN_PIECES: usize = 8;
/// From this size on, copies to the host use ordinary stores, which go through the caches: each
/// thread's caches hold the block that it is copying.
const TEMPORAL_DOWNLOAD_MIN: usize = 4 << 20;
/// From this size on, pieces are as large as possible: saving driver calls and events matters more
/// than giving pieces to many threads early.
const LARGE_COPY_MIN: usize = 32 << 20;
/// From this size on, copies to the device are faster with ordinary stores, which go through the
/// caches (docs/performance.md): no part of the source is in a cache, and the threads are limited
/// by reading it.
const TEMPORAL_UPLOAD_MIN: usize = 128 << 20;

/// The direction of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    ToDevice,
    ToHost,
}

impl Pieces {
    /// Divides `bytes` bytes into pieces whose sizes are multiples of `unit`, which is at most the
    /// size of a block.
    pub(super) fn new(bytes: usize, unit: usize, direction: Direction) -> Self {
        let divided_by = |pieces| bytes.div_ceil(pieces).next_multiple_of(SMALL);
        let is_shared = match direction {
            Direction::ToDevice => bytes > SINGLE_THREAD_UPLOAD_MAX,
            Direction::ToHost => bytes > SINGLE_THREAD_DOWNLOAD_MAX,
        };
        let piece_bytes = match direction {
            _ if bytes >= LARGE_COPY_MIN => LARGE,
            // Queuing a piece takes as long as copying half of it.
            Direction::ToDevice if is_shared => LARGE / 2,
            // The device transfers the piece while this thread continues.
            Direction::ToDevice => LARGE,
            Direction::ToHost if is_shared => divided_by(MIN_PIECES).clamp(LARGE / 4, LARGE / 2),
            // The device fills one block while this thread empties another.
            Direction::ToHost => divided_by(4).clamp(2 * SMALL, LARGE / 4),
        };
        let piece_bytes = (piece_bytes / unit).max(1) * unit;
        Self {
            bytes,
            piece_bytes,
            is_shared,
            is_non_temporal: match direction {
                Direction::ToDevice => is_shared && bytes < TEMPORAL_UPLOAD_MIN,
                Direction::ToHost => is_shared && bytes < TEMPORAL_DOWNLOAD_MIN,
            },
            next: AtomicUsize::new(0),
            returned: Mutex::default(),
            failed: Mutex::new(None),
        }
    }

    /// Returns the number of blocks that the device may fill while others are emptied.
    pub(super) fn ahead(&self) -> usize {
        if self.is_shared { 16 } else { 4 }
    }

    pub(super) fn is_non_temporal(&self) -> bool {
        self.is_non_temporal
    }

    /// Returns the number of additional threads that speed up a copy of this size.
    pub(super) fn workers(&self) -> usize {
        if !self.is_shared {
            return 0;
        }
        (self.bytes / BYTES_PER_THREAD).min(self.bytes.div_ceil(self.piece_bytes) - 1)
    }

    /// Returns `true` if no piece is left. If pieces are left, other threads may take them at any
    /// time.
    pub(super) fn are_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.bytes && self.returned().is_empty()
    }

    /// Takes the next piece.
    pub(super) fn next(&self) -> Option<Range<usize>> {
        let start = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |start| {
                (start < self.bytes).then(|| start.saturating_add(self.piece_bytes))
            });
        match start {
            Ok(start) => Some(start..start.saturating_add(self.piece_bytes).min(self.bytes)),
            Err(_) => self.returned().pop(),
        }
    }

    /// Returns a piece that was taken and not copied, for another thread to take.
    pub(super) fn give_back(&self, piece: Range<usize>) {
        self.returned().push(piece);
    }

    /// Ends the copy with an error and removes the remaining pieces. The first error is the one
    /// that is reported.
    pub(super) fn fail(&self, error: impl Into<Error>) {
        self.next.store(self.bytes, Ordering::Relaxed);
        self.returned().clear();
        let mut failed = self.failed.lock();
        failed.get_or_insert(error.into());
    }

    fn returned(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.returned.lock()
    }

    /// Returns the first error, if there was one. All threads must have finished.
    pub(super) fn result(self) -> Result<(), Error> {
        match self.failed.into_inner() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction, LARGE, Pieces};

    #[test]
    fn pieces_cover_the_copy_and_fit_in_a_block() {
        for (bytes, unit) in [
            (1, 1),
            (65_537, 1),
            (131_072, 1),
            (1 << 20, 1),
            ((1 << 20) + 1, 1),
            (12_345_678, 1),
            (1000 * 12_345, 12_345),
            (3 * 400_000, 400_000),
            (5 * LARGE, LARGE),
        ] {
            for direction in [Direction::ToDevice, Direction::ToHost] {
                let pieces = Pieces::new(bytes, unit, direction);
                let mut end = 0;
                while let Some(piece) = pieces.next() {
                    assert_eq!((piece.start, piece.len() % unit), (end, 0));
                    assert!((1..=LARGE).contains(&piece.len()), "{bytes}: {piece:?}");
                    end = piece.end;
                }
                assert_eq!(end, bytes);
            }
        }
    }

    #[test]
    fn returned_pieces_can_be_taken_again() {
        let pieces = Pieces::new(3 * LARGE, 1, Direction::ToDevice);
        let taken: Vec<_> = std::iter::from_fn(|| pieces.next()).collect();
        assert!(pieces.are_taken());
        pieces.give_back(taken[1].clone());
        assert!(!pieces.are_taken());
        assert_eq!(pieces.next(), Some(taken[1].clone()));
        assert!(pieces.are_taken());
        assert_eq!(pieces.next(), None);
    }
}
