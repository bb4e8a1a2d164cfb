//! Which bytes of a device's memory somebody has written.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of memory that one piece of the shadow is for.
const PIECE: u64 = 1 << 20;
/// Words of a piece.
const WORDS: u64 = PIECE / 64;

/// A bit for each byte, which is set while nobody has written the byte since it was allocated.
pub(super) struct Shadow {
    base: u64,
    /// What is not there was written, or is not allocated.
    pieces: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// Bits of a word of the shadow.
#[derive(Clone, Copy, Debug)]
struct Part {
    word: u64,
    bits: u64,
}

impl Shadow {
    /// For `len` bytes from the device address `base` on.
    pub(super) fn new(base: u64, len: u64) -> Self {
        let pieces = (0..len.div_ceil(PIECE)).map(|_| OnceLock::new());
        Self {
            base,
            pieces: pieces.collect(),
        }
    }

    /// Whether it is for this address.
    pub(super) fn covers(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.base) / PIECE < self.pieces.len() as u64
    }

    /// What stands for `len` bytes at `addr`.
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

    /// A word, if its piece is there.
    fn word(&self, word: u64) -> Option<&AtomicU64> {
        let piece = self.pieces.get((word / WORDS) as usize)?.get()?;
        piece.get((word % WORDS) as usize)
    }

    /// Nobody has written these bytes.
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

    /// Somebody has written these bytes.
    pub(super) fn wrote(&self, addr: u64, len: u64) {
        for part in self.parts(addr, len) {
            if let Some(word) = self.word(part.word)
                && word.load(Ordering::Relaxed) & part.bits != 0
            {
                word.fetch_and(!part.bits, Ordering::Relaxed);
            }
        }
    }

    /// The first of these bytes that nobody has written.
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
        // Over the edge of two pieces.
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
