//! A copy in pieces, which several threads take one after the other.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{LARGE, SMALL};
use crate::error::Error;
use crate::lock::{Mutex, MutexGuard, rank};

/// The pieces of one copy that are left, and what went wrong.
pub(super) struct Chunks {
    bytes: usize,
    chunk: usize,
    /// Whether it is worth the hands of others.
    is_shared: bool,
    /// Whether what is copied has no place in the caches.
    is_past_caches: bool,
    /// Where the next piece begins; from `bytes` on there is none.
    next: AtomicUsize,
    /// Pieces that were taken and not copied.
    returned: Mutex<Vec<Range<usize>>, { rank::COPY_RETURNED }>,
    failed: Mutex<Option<Error>, { rank::COPY_FAILED }>,
}

/// Copies of more bytes to the device are worth waking others for.
const ALONE_TO_DEVICE: usize = LARGE;
/// The same of those to the host.
const ALONE_TO_HOST: usize = 512 << 10;
/// A further thread for each so many bytes of those.
const SHARE: usize = 512 << 10;
/// So many pieces to the host at least, if they do not get too small: for what is done at the same
/// time.
const PIECES: usize = 8;
/// From this size on the caches of the threads that copy to the host hold what they have in hand.
const IN_CACHES: usize = 4 << 20;
/// From this size on, fewer calls and events are worth more than pieces that are in many hands
/// soon.
const LONG: usize = 32 << 20;
/// From this size on, copies to the device through the caches were the faster ones
/// (docs/performance.md): the source, which is in no cache, is what the threads wait for.
const BEYOND: usize = 128 << 20;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    ToDevice,
    ToHost,
}

impl Chunks {
    /// Pieces of multiples of `unit` bytes, which is no more than a block.
    pub(super) fn new(bytes: usize, unit: usize, way: Way) -> Self {
        let share = |pieces| bytes.div_ceil(pieces).next_multiple_of(SMALL);
        let is_shared = match way {
            Way::ToDevice => bytes > ALONE_TO_DEVICE,
            Way::ToHost => bytes > ALONE_TO_HOST,
        };
        let chunk = match way {
            _ if bytes >= LONG => LARGE,
            // To queue a piece takes as long as to copy half of this.
            Way::ToDevice if is_shared => LARGE / 2,
            // The device takes it while this thread goes on.
            Way::ToDevice => LARGE,
            Way::ToHost if is_shared => share(PIECES).clamp(LARGE / 4, LARGE / 2),
            // The device fills one block while this thread empties another.
            Way::ToHost => share(4).clamp(2 * SMALL, LARGE / 4),
        };
        let chunk = (chunk / unit).max(1) * unit;
        Self {
            bytes,
            chunk,
            is_shared,
            is_past_caches: match way {
                Way::ToDevice => is_shared && bytes < BEYOND,
                Way::ToHost => is_shared && bytes < IN_CACHES,
            },
            next: AtomicUsize::new(0),
            returned: Mutex::default(),
            failed: Mutex::new(None),
        }
    }

    /// How many blocks the device may have to fill while others are emptied.
    pub(super) fn ahead(&self) -> usize {
        if self.is_shared { 16 } else { 4 }
    }

    pub(super) fn is_past_caches(&self) -> bool {
        self.is_past_caches
    }

    /// How many threads more than one this is worth.
    pub(super) fn helpers(&self) -> usize {
        if !self.is_shared {
            return 0;
        }
        (self.bytes / SHARE).min(self.bytes.div_ceil(self.chunk) - 1)
    }

    /// Whether no piece is left; if not, others may take them meanwhile.
    pub(super) fn are_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.bytes && self.returned().is_empty()
    }

    /// The next piece.
    pub(super) fn next(&self) -> Option<Range<usize>> {
        let start = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |start| {
                (start < self.bytes).then(|| start.saturating_add(self.chunk))
            });
        match start {
            Ok(start) => Some(start..start.saturating_add(self.chunk).min(self.bytes)),
            Err(_) => self.returned().pop(),
        }
    }

    /// Leaves a piece that was taken to others.
    pub(super) fn give_back(&self, piece: Range<usize>) {
        self.returned().push(piece);
    }

    /// Ends the copy: no piece is left. The first error is the one that is told.
    pub(super) fn fail(&self, error: impl Into<Error>) {
        self.next.store(self.bytes, Ordering::Relaxed);
        self.returned().clear();
        let mut failed = self.failed.lock();
        failed.get_or_insert(error.into());
    }

    fn returned(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.returned.lock()
    }

    /// What went wrong, if something did. Only when all threads are done.
    pub(super) fn result(self) -> Result<(), Error> {
        match self.failed.into_inner() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunks, LARGE, Way};

    #[test]
    fn the_pieces_are_the_whole_and_fit_in_a_block() {
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
            for way in [Way::ToDevice, Way::ToHost] {
                let chunks = Chunks::new(bytes, unit, way);
                let mut end = 0;
                while let Some(piece) = chunks.next() {
                    assert_eq!((piece.start, piece.len() % unit), (end, 0));
                    assert!((1..=LARGE).contains(&piece.len()), "{bytes}: {piece:?}");
                    end = piece.end;
                }
                assert_eq!(end, bytes);
            }
        }
    }

    #[test]
    fn what_is_given_back_is_left_until_it_is_taken_again() {
        let chunks = Chunks::new(3 * LARGE, 1, Way::ToDevice);
        let pieces: Vec<_> = std::iter::from_fn(|| chunks.next()).collect();
        assert!(chunks.are_taken());
        chunks.give_back(pieces[1].clone());
        assert!(!chunks.are_taken());
        assert_eq!(chunks.next(), Some(pieces[1].clone()));
        assert!(chunks.are_taken());
        assert_eq!(chunks.next(), None);
    }
}
