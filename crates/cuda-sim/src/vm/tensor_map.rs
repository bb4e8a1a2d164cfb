//! Tensor maps: 128 opaque bytes that `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` writes
//! and bulk copies of tensors read.
//!
//! The layout is private to this driver: a magic number, the address, then numbers.

/// The size of a tensor map in bytes.
pub(crate) const BYTES: usize = 128;
/// The magic number, the first 8 bytes.
const MARK: [u8; 8] = *b"simTiles";
/// The largest number of dimensions.
pub(crate) const MAX_RANK: usize = 5;

/// The permutation of 16-byte chunks in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Swizzle {
    #[default]
    None,
    Span32,
    Span64,
    Span128,
}

impl Swizzle {
    /// The swizzle with this number in `CUtensorMapSwizzle`.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Span32,
            2 => Self::Span64,
            3 => Self::Span128,
            _ => return None,
        })
    }

    /// The bytes of one row of the pattern.
    pub(crate) fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Span32 => Some(32),
            Self::Span64 => Some(64),
            Self::Span128 => Some(128),
        }
    }

    /// The swizzled address of the chunk that would be at `address` without a swizzle.
    pub(super) fn place(self, address: u64) -> u64 {
        let bits = self.span().map_or(0, |span| span - 16);
        address ^ (address >> 3 & bits)
    }
}

/// The element type, as far as copies and reductions depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Element {
    #[default]
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
}

impl Element {
    const ALL: [Self; 10] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::S32,
        Self::U64,
        Self::S64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
    ];

    /// The element type with this number in `CUtensorMapDataType`, if copies do not convert it.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
            Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }
}

/// The images of a tensor. A copy takes a column of pixels: pixel by pixel within a box, row by
/// row, image by image. Dimension 0 is the channels, the last dimension the images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The corner where filters start first, relative to the first pixel, for each spatial
    /// dimension (all but the first and the last).
    pub(crate) lower: [i16; MAX_RANK - 2],
    /// The corner where filters start last, relative to the last pixel.
    pub(crate) upper: [i16; MAX_RANK - 2],
    /// The number of pixels that a copy takes.
    pub(crate) pixels: u16,
}

/// A tensor in global memory, and the box of it that one copy takes. Elements are contiguous along
/// dimension 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TensorMap {
    pub(crate) address: u64,
    pub(crate) element: Element,
    pub(crate) swizzle: Swizzle,
    pub(crate) rank: usize,
    /// The number of elements along each dimension.
    pub(crate) dims: [u64; MAX_RANK],
    /// The distance in bytes between elements along each dimension but the first.
    pub(crate) strides: [u64; MAX_RANK - 1],
    /// The size of the box; for images only the number of channels.
    pub(crate) extent: [u16; MAX_RANK],
    /// The step between copied elements of the box: every n-th element is copied.
    pub(crate) steps: [u8; MAX_RANK],
    /// The image parameters, for an im2col map.
    pub(crate) columns: Option<Columns>,
}

impl TensorMap {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MARK);
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        bytes[16] = self.element as u8;
        bytes[17] = self.swizzle as u8;
        bytes[18] = self.rank as u8;
        bytes[19..24].copy_from_slice(&self.steps);
        for (place, extent) in bytes[24..34].chunks_mut(2).zip(self.extent) {
            place.copy_from_slice(&extent.to_le_bytes());
        }
        bytes[34] = self.columns.is_some().into();
        if let Some(columns) = self.columns {
            let corners = columns.lower.into_iter().chain(columns.upper);
            for (place, corner) in bytes[112..124].chunks_mut(2).zip(corners) {
                place.copy_from_slice(&corner.to_le_bytes());
            }
            bytes[124..126].copy_from_slice(&columns.pixels.to_le_bytes());
        }
        for (place, dim) in bytes[40..80].chunks_mut(8).zip(self.dims) {
            place.copy_from_slice(&dim.to_le_bytes());
        }
        for (place, stride) in bytes[80..112].chunks_mut(8).zip(self.strides) {
            place.copy_from_slice(&stride.to_le_bytes());
        }
        bytes
    }

    /// Decodes a tensor map that copies can use; `None` if these bytes are not one.
    pub(crate) fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let map = Self::fields(bytes)?;
        let is_sound = (1..=MAX_RANK).contains(&map.rank)
            && (0..map.rank).all(|i| map.extent[i] <= 256 && map.steps[i] > 0);
        let is_image = |columns: Columns| map.rank >= 3 && columns.pixels <= 1024;
        (is_sound && map.columns.is_none_or(is_image)).then_some(map)
    }

    /// Decodes the fields of a map that may be incomplete. Zeros are a map without any fields.
    pub(super) fn fields(bytes: &[u8; BYTES]) -> Option<Self> {
        if *bytes == [0; BYTES] {
            return Some(Self::default());
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let corner = |at: usize| [0, 2, 4].map(|i| short(at + i) as i16);
        let columns = Columns {
            lower: corner(112),
            upper: corner(118),
            pixels: short(124),
        };
        let map = Self {
            address: word(8),
            element: Element::of_number(bytes[16].into())?,
            swizzle: Swizzle::of_number(bytes[17].into())?,
            rank: bytes[18].into(),
            dims: [0, 1, 2, 3, 4].map(|i| word(40 + 8 * i)),
            strides: [0, 1, 2, 3].map(|i| word(80 + 8 * i)),
            extent: [0, 1, 2, 3, 4].map(|i| short(24 + 2 * i)),
            steps: [0, 1, 2, 3, 4].map(|i| bytes[19 + i]),
            columns: (bytes[34] != 0).then_some(columns),
        };
        (bytes[..8] == MARK).then_some(map)
    }

    /// The number of elements that a copy takes along a dimension.
    pub(crate) fn count(&self, dimension: usize) -> u64 {
        let extent = u64::from(self.extent[dimension]);
        match dimension {
            // Contiguous elements are never skipped.
            0 => extent,
            _ => extent.div_ceil(self.steps[dimension].into()),
        }
    }

    /// The bytes of contiguous elements that a copy takes together.
    pub(crate) fn row(&self) -> u64 {
        self.count(0) * self.element.bytes()
    }

    /// The number of such rows.
    pub(crate) fn rows(&self) -> u64 {
        match self.columns {
            Some(columns) => columns.pixels.into(),
            None => (1..self.rank).map(|d| self.count(d)).product(),
        }
    }

    /// The distance in bytes between such rows in shared memory. An H100 keeps rows that are
    /// shorter than the pattern of the swizzle apart, as if they had its length.
    pub(super) fn pitch(&self) -> u64 {
        self.row().max(self.swizzle.span().unwrap_or_default())
    }

    /// The bytes that a copy moves.
    pub(crate) fn bytes(&self) -> u64 {
        self.row() * self.rows()
    }

    /// The bytes of shared memory from the first to the last row of a copy.
    pub(super) fn shared_bytes(&self) -> u64 {
        self.pitch() * self.rows()
    }

    /// The first and last start of filters along a dimension of pixels.
    pub(crate) fn corners(&self, columns: &Columns, dimension: usize) -> (i64, i64) {
        let last = self.dims[dimension] as i64 - 1;
        let upper = i64::from(columns.upper[dimension - 1]);
        (columns.lower[dimension - 1].into(), last + upper)
    }
}
