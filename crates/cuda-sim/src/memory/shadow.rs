//! Tracks which bytes of a device's memory have been written.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of memory that one piece of the shadow covers.
const PIECE: u64 = 1 << 20;
/// The words of a piece.
const WORDS: u64 = PIECE / 64;

/// One bit for each byte. The bit is set while the byte has not been written since it was
/// allocated.
pub(super) struct Shadow {
    base: u64,
    /// A missing piece means that its bytes were written or are not allocated.
    pieces: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// Some bits of one word of the shadow.
#[derive(Clone, Copy, Debug)]
struct Part {
    word: u64,
    bits: u64,
}

impl Shadow {
    /// Creates the shadow of `len` bytes at the device address `base`.
    pub(super) fn new(base: u64, len: u64) -> Self {
        let pieces = (0..len.div_ceil(PIECE)).map(|_| OnceLock::new());
        Self {
            base,
            pieces: pieces.collect(),
        }
    }

    /// Whether the shadow covers this address.
    pub(super) fn covers(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.base) / PIECE < self.pieces.len() as u64
    }

    /// The parts of the shadow that represent `len` bytes at `addr`.
    fn parts(&self, addr: u64, len: u64) -> impl Iterator<Item = Part> {
        let from = addr.wrapping_sub(self.base);
        let end = self.pieces.len() as u64 * PIECE;
        let to = from.saturating_add(len).min(end);
        (from / 64..to.div_ceil(64)).map(move |word| {
            let first = from.max(word * 64) - word * 64;
            let last = to.min((word + 1) * 64) - word * 64;
            let below = |n: u64| if n == 64 { u64::MAX } else { (1 << n) - 1 };
            Part {
                word,
                bits: below(last) & !below(first),
            }
        })
    }

    /// A word of the shadow, if its piece exists.
    fn word(&self, word: u64) -> Option<&AtomicU64> {
        let piece = self.pieces.get((word / WORDS) as usize)?.get()?;
        piece.get((word % WORDS) as usize)
    }

    /// Marks these bytes as not written.
    pub(super) fn forget(&self, addr: u64, len: u64) {
        for part in self.parts(addr, len) {
            if let Some(piece) = self.pieces.get((part.word / WORDS) as usize) {
                piece.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
            }
            if let Some(word) = self.word(part.word) {
                word.fetch_or(part.bits, Ordering::Relaxed);
            }
        }
    }

    /// Marks these bytes as written.
    pub(super) fn wrote(&self, addr: u64, len: u64) {
        for part in self.parts(addr, len) {
            if let Some(word) = self.word(part.word)
                && word.load(Ordering::Relaxed) & part.bits != 0
            {
                word.fetch_and(!part.bits, Ordering::Relaxed);
            }
        }
    }

    /// The first of these bytes that has not been written.
    pub(super) fn unwritten(&self, addr: u64, len: u64) -> Option<u64> {
        self.parts(addr, len).find_map(|part| {
            let bits = self.word(part.word)?.load(Ordering::Relaxed) & part.bits;
            let offset = part.word * 64 + u64::from(bits.trailing_zeros());
            (bits != 0).then_some(self.base + offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Shadow;

    #[test]
    fn each_byte_counts() {
        let base = 1 << 21;
        let shadow = Shadow::new(base, 3 << 20);
        assert!(shadow.covers(base) && shadow.covers(base + (3 << 20) - 1));
        assert!(!shadow.covers(base - 1) && !shadow.covers(base + (3 << 20)));
        assert_eq!(shadow.unwritten(base, 3 << 20), None);
        // The bytes cross the boundary of two pieces.
        let start = base + (1 << 20) - 70;
        shadow.forget(start, 140);
        shadow.wrote(start, 3);
        assert_eq!(shadow.unwritten(base, 3 << 20), Some(start + 3));
        shadow.wrote(start + 4, 135);
        assert_eq!(shadow.unwritten(start + 3, 1), Some(start + 3));
        assert_eq!(shadow.unwritten(start + 4, 135), None);
        assert_eq!(shadow.unwritten(start + 4, 1000), Some(start + 139));
    }
}
