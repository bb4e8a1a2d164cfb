//! The checks of a tensor map before the driver is called: the limits in NVIDIA's driver API
//! manual.

use super::layout::{
    Im2col, Im2colWide, TensorDataType, TensorFill, TensorInterleave, TensorLayout, TensorSwizzle,
    WidePixels,
};
use crate::error::TensorMapError;

type Result<T, E = TensorMapError> = std::result::Result<T, E>;

/// Fails if a number is not within limits.
fn within(
    what: &'static str,
    dimension: Option<usize>,
    given: i64,
    (least, most): (i64, i64),
) -> Result<()> {
    if (least..=most).contains(&given) {
        return Ok(());
    }
    Err(TensorMapError::OutOfRange {
        what,
        dimension,
        given,
        least,
        most,
    })
}

fn multiple(what: &'static str, dimension: Option<usize>, given: u64, of: u64) -> Result<()> {
    if given.is_multiple_of(of) {
        return Ok(());
    }
    Err(TensorMapError::NotMultiple {
        what,
        dimension,
        given,
        of,
    })
}

fn consistent(is_fine: bool, what: &'static str) -> Result<()> {
    if is_fine {
        Ok(())
    } else {
        Err(TensorMapError::Contradiction { what })
    }
}

/// Converts to a signed number. A number that is too large for that exceeds every limit anyway.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn counted(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl TensorLayout {
    /// The minimum number of dimensions of an image.
    const IMAGE: i64 = 3;

    fn rank(&self) -> i64 {
        counted(self.dims.len())
    }

    pub(super) fn aligned_to(&self) -> u64 {
        if self.interleave == TensorInterleave::Bytes32 || self.data_type.is_padded() {
            32
        } else {
            16
        }
    }

    /// Checks the requirements that all kinds of maps share. `least` is the minimum number of
    /// dimensions.
    fn check(&self, address: u64, memory: u64, least: i64) -> Result<()> {
        let rank = self.rank();
        within("number of dimensions", None, rank, (least, 5))?;
        let of_all = (rank, rank);
        let of_most = (rank - 1, rank - 1);
        let strides = counted(self.strides.len());
        within("number of strides", None, strides, of_most)?;
        let steps = counted(self.steps.len());
        within("number of element strides", None, steps, of_all)?;
        if self.interleave != TensorInterleave::None {
            let what = "number of dimensions (with interleaved channels)";
            within(what, None, rank, (Self::IMAGE, 5))?;
        }
        multiple("address", None, address, self.aligned_to())?;
        for (at, &dim) in self.dims.iter().enumerate() {
            within("length", Some(at), signed(dim), (1, 1 << 31))?;
        }
        let inner = self.dims.first().copied().unwrap_or(0);
        let inner_multiple = match self.data_type {
            TensorDataType::U4x16Align16 | TensorDataType::U6x16Align16 => 128,
            TensorDataType::U4x16Align8 => 2,
            _ => 1,
        };
        multiple("length", Some(0), inner, inner_multiple)?;
        for (at, &stride) in self.strides.iter().enumerate() {
            let limits = (0, (1 << 40) - 1);
            within("stride in bytes", Some(at + 1), signed(stride), limits)?;
            multiple("stride in bytes", Some(at + 1), stride, self.aligned_to())?;
        }
        for (at, &step) in self.steps.iter().enumerate() {
            within("element stride", Some(at), step.into(), (1, 8))?;
        }
        self.check_modes()?;
        // With interleaved channels the size does not follow from the strides alone. Copies in
        // im2col mode write the channels of a pixel in pieces of 16 bytes, and the last piece may
        // extend beyond the last channel.
        let piece = if least == Self::IMAGE { 16 } else { 1 };
        let tensor = self.bytes(piece);
        if self.interleave == TensorInterleave::None && tensor > memory {
            return Err(TensorMapError::Memory { tensor, memory });
        }
        Ok(())
    }

    /// Checks the combinations of modes.
    fn check_modes(&self) -> Result<()> {
        use TensorSwizzle as S;
        let Self {
            data_type,
            interleave,
            swizzle,
            ..
        } = *self;
        consistent(
            interleave != TensorInterleave::Bytes32 || swizzle == S::Bytes32,
            "channels interleaved in groups of 32 bytes require a 32-byte swizzle",
        )?;
        consistent(
            self.fill == TensorFill::Zeros || data_type.is_float(),
            "only a tensor of floating-point numbers can be filled with NaN",
        )?;
        let wide = matches!(swizzle, S::None | S::Bytes128 | S::Bytes128Atom32);
        match data_type {
            TensorDataType::U6x16Align16 => {
                consistent(
                    interleave == TensorInterleave::None,
                    "6-bit numbers cannot be combined with interleaved channels",
                )?;
                consistent(
                    wide || matches!(swizzle, S::Bytes128Atom64 | S::Bytes64),
                    "6-bit numbers cannot be combined with this swizzle",
                )
            }
            TensorDataType::U4x16Align16 => consistent(
                wide,
                "4-bit numbers padded to 16 bytes cannot be combined with this swizzle",
            ),
            _ => Ok(()),
        }
    }

    /// Returns the bytes from the first element to the last, with rows rounded up to whole pieces.
    fn bytes(&self, piece: u64) -> u64 {
        let outer = self.dims.iter().skip(1).zip(&self.strides);
        let inner = self.dims.first().copied().unwrap_or(0);
        let row = self.data_type.bytes_of(inner);
        let row = row.checked_next_multiple_of(piece).unwrap_or(u64::MAX);
        outer.fold(row, |bytes, (dim, stride)| {
            bytes.saturating_add(dim.saturating_sub(1).saturating_mul(*stride))
        })
    }

    /// Checks a row of `elements` elements in shared memory.
    fn check_row(&self, what: &'static str, elements: u32) -> Result<()> {
        if self.data_type.is_padded() {
            let what = "number of elements in a row of padded numbers";
            within(what, None, elements.into(), (128, 128))?;
        }
        if let (TensorInterleave::None, Some(span)) = (self.interleave, self.swizzle.span()) {
            let bytes = self.data_type.bytes_of(elements.into());
            within(what, None, signed(bytes), (1, signed(span)))?;
        }
        Ok(())
    }

    pub(super) fn check_tiled(&self, address: u64, memory: u64, tile: &[u32]) -> Result<()> {
        self.check(address, memory, 1)?;
        let rank = self.rank();
        let tile_rank = counted(tile.len());
        within(
            "number of dimensions of the tile",
            None,
            tile_rank,
            (rank, rank),
        )?;
        for (at, &length) in tile.iter().enumerate() {
            within("length of the tile", Some(at), length.into(), (1, 256))?;
        }
        let inner = tile.first().copied().unwrap_or(0);
        if self.interleave == TensorInterleave::None && !self.data_type.is_padded() {
            let bits = u64::from(inner) * self.data_type.bits();
            multiple("number of bits in a row of the tile", None, bits, 128)?;
        }
        self.check_row("number of bytes in a swizzled row of the tile", inner)
    }

    pub(super) fn check_im2col(
        &self,
        address: u64,
        memory: u64,
        im2col: &Im2col<'_>,
    ) -> Result<()> {
        self.check(address, memory, Self::IMAGE)?;
        let corners = self.rank() - 2;
        let limits = match corners {
            1 => (-32768, 32767),
            2 => (-128, 127),
            _ => (-16, 15),
        };
        let both = [
            ("number of offsets of the lower corner", "lower corner"),
            ("number of offsets of the upper corner", "upper corner"),
        ];
        let offsets = [im2col.lower_corner, im2col.upper_corner];
        for ((number, what), offsets) in both.into_iter().zip(offsets) {
            within(number, None, counted(offsets.len()), (corners, corners))?;
            for (at, &offset) in offsets.iter().enumerate() {
                within(what, Some(at + 1), offset.into(), limits)?;
            }
        }
        // The box must not be empty: there has to be at least one position for a filter.
        let pixels = self.dims.iter().skip(1);
        let corners = pixels.zip(im2col.lower_corner).zip(im2col.upper_corner);
        for (at, ((&dim, &lower), &upper)) in (1..).zip(corners) {
            let least = i64::from(lower) - (signed(dim) - 1);
            let limits = (least.max(limits.0), limits.1);
            within("upper corner", Some(at), upper.into(), limits)?;
        }
        self.check_column(im2col.channels_per_pixel, im2col.pixels_per_column)
    }

    pub(super) fn check_im2col_wide(
        &self,
        address: u64,
        memory: u64,
        wide: &Im2colWide,
    ) -> Result<()> {
        use TensorSwizzle as S;
        self.check(address, memory, Self::IMAGE)?;
        consistent(
            matches!(self.swizzle, S::Bytes64 | S::Bytes128 | S::Bytes128Atom32),
            "wide columns require swizzle Bytes64, Bytes128 or Bytes128Atom32",
        )?;
        let limits = (-32768, 32767);
        within("lower corner", Some(1), wide.lower_corner.into(), limits)?;
        within("upper corner", Some(1), wide.upper_corner.into(), limits)?;
        let pixels = match wide.pixels {
            WidePixels::Count(count) => count,
            WidePixels::W128 => 128,
        };
        self.check_column(wide.channels_per_pixel, pixels)
    }

    fn check_column(&self, channels: u32, pixels: u32) -> Result<()> {
        within(
            "number of channels per pixel",
            None,
            channels.into(),
            (1, 256),
        )?;
        within(
            "number of pixels per column",
            None,
            pixels.into(),
            (1, 1024),
        )?;
        self.check_row("number of bytes in a swizzled pixel", channels)
    }
}
