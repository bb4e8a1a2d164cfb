//! Matrix descriptors: the place of a matrix in shared memory, for `wgmma`.

use crate::vm::tensor_map::Swizzle;

/// The bytes of a chunk, the unit of the layout.
pub(in crate::vm) const CHUNK: u64 = 16;

/// A matrix in shared memory. Its chunks are in groups of eight rows, each of which has the bytes
/// of one row of the swizzle pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// The offset in shared memory.
    start: u64,
    /// The leading dimension byte offset.
    leading: u64,
    /// The stride dimension byte offset.
    stride: u64,
    /// The number of the first row of the pattern that is at a multiple of its size.
    base: u64,
    swizzle: Swizzle,
}

impl Descriptor {
    pub(super) fn new(bits: u64) -> Self {
        let field = |at: u32| (bits >> at & 0x3fff) << 4;
        Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: bits >> 49 & 7,
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::Span128,
                2 => Swizzle::Span64,
                _ => Swizzle::Span32,
            },
        }
    }

    /// The offset in shared memory of chunk number `chunk` of a row whose elements are contiguous
    /// (of a row of A, or of a column of B).
    pub(super) fn in_row(&self, row: u64, chunk: u64) -> u64 {
        let span = self.swizzle.span().unwrap_or(CHUNK);
        let each = span / CHUNK;
        let group = row / 8 * self.stride + chunk / each * self.leading;
        self.place(group + row % 8 * span + chunk % each * CHUNK)
    }

    /// The offset in shared memory of a chunk of a transposed matrix: the elements from number
    /// `chunk` of a column of A (or of a row of B) on.
    pub(super) fn across(&self, chunk: u64, depth: u64) -> u64 {
        let at = match self.swizzle.span() {
            None => chunk * self.stride + depth / 8 * self.leading + depth % 8 * CHUNK,
            Some(span) => {
                let each = span / CHUNK;
                let group = chunk / each * self.leading + depth / 8 * self.stride;
                group + depth % 8 * span + chunk % each * CHUNK
            }
        };
        self.place(at)
    }

    /// The offset in shared memory of the byte that would be at `at` without a swizzle.
    fn place(&self, at: u64) -> u64 {
        let at = self.start + at;
        let row = (at >> 7).wrapping_sub(self.base) & 7;
        let bits = self.swizzle.span().map_or(0, |span| span - CHUNK);
        at ^ (row << 4 & bits)
    }
}
