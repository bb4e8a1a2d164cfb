//! The layout of matrices in shared memory.

/// The place of a matrix: rows of A, or columns of B, with `depth` elements each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The bytes of a row of the swizzle pattern: 16 for no swizzle, 32, 64 or 128.
    pub(crate) span: usize,
    /// Whether the elements of a column of A, or of a row of B, are contiguous.
    pub(crate) transposed: bool,
    /// Whether groups that follow each other along the rows, instead of along the depth, are
    /// adjacent in memory.
    pub(crate) rows_first: bool,
    /// The chunks of 16 bytes by which the matrix begins inside of the rows of the pattern.
    pub(crate) chunk: usize,
    /// The rows of 128 bytes by which the pattern begins after a multiple of its size.
    pub(crate) base: usize,
}

/// A matrix in an image of shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    layout: Layout,
    /// The offset of the first group.
    start: usize,
    leading: usize,
    stride: usize,
    /// The bytes of an element.
    size: usize,
    /// The offset of the end.
    pub(crate) end: usize,
}

const CHUNK: usize = 16;

impl Layout {
    pub(crate) const fn new(span: usize, transposed: bool) -> Self {
        Self {
            span,
            transposed,
            rows_first: false,
            chunk: 0,
            base: 0,
        }
    }

    /// Places a matrix of `rows` rows of `depth` elements of `size` bytes at `start` or later.
    pub(crate) fn place(self, start: usize, rows: usize, depth: usize, size: usize) -> Placed {
        let start = start.next_multiple_of(1024) + 128 * self.base;
        let group = 8 * self.span;
        let each = self.span / CHUNK;
        // The number of groups along the contiguous elements, and across them.
        let (along, across) = if self.transposed {
            ((rows * size).div_ceil(self.span), depth.div_ceil(8))
        } else {
            let chunks = (depth * size).div_ceil(CHUNK) + self.chunk;
            (chunks.div_ceil(each), rows.div_ceil(8))
        };
        let (near, far) = (group, group * if self.rows_first { across } else { along });
        let (along, across) = if self.rows_first {
            (far, near)
        } else {
            (near, far)
        };
        // Without a swizzle, the stride of a transposed matrix is along its rows.
        let (leading, stride) = if self.transposed && self.span == CHUNK {
            (across, along)
        } else {
            (along, across)
        };
        let mut placed = Placed {
            layout: self,
            start,
            leading,
            stride,
            size,
            end: 0,
        };
        let mut end = 0;
        for row in 0..rows {
            for k in 0..depth {
                end = end.max(placed.offset(row, k, self.base) + size);
            }
        }
        placed.end = end.next_multiple_of(CHUNK);
        placed
    }
}

impl Placed {
    /// The offset of element `k` of a row, if the rows of the pattern count from the row `base` of
    /// 128 bytes.
    pub(crate) fn offset(&self, row: usize, k: usize, base: usize) -> usize {
        let Layout {
            span,
            transposed,
            chunk,
            ..
        } = self.layout;
        // The byte along the contiguous elements, and the number of the line across them.
        let (byte, line) = if transposed {
            (row * self.size, k)
        } else {
            (k * self.size + chunk * CHUNK, row)
        };
        let (along, across) = match (transposed, span) {
            (true, CHUNK) => (self.stride, self.leading),
            _ => (self.leading, self.stride),
        };
        let at =
            self.start + byte / span * along + line / 8 * across + line % 8 * span + byte % span;
        let row = (at / 128 + 8 - base) % 8;
        at ^ ((row * CHUNK) & (span - CHUNK))
    }

    /// The matrix descriptor, relative to the start of the image.
    pub(crate) fn descriptor(&self) -> u64 {
        let Layout {
            span, chunk, base, ..
        } = self.layout;
        let field = |bytes: usize| (bytes as u64 >> 4) & 0x3fff;
        let swizzle = match span {
            16 => 0,
            128 => 1,
            64 => 2,
            _ => 3,
        };
        field(self.start + chunk * CHUNK)
            | field(self.leading) << 16
            | field(self.stride) << 32
            | (base as u64) << 49
            | swizzle << 62
    }
}
