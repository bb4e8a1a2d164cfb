//! Elements on the host, and the results of reading them through a texture as the programming guide
//! defines them.

use cuda_sys::{CUaddress_mode, CUarray_format};
use fastrand::Rng;
use half::f16;

use crate::support::numbers;

/// The type of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    F16,
    F32,
}

impl Format {
    pub(super) const ALL: [Self; 8] = [
        Self::U8,
        Self::S8,
        Self::U16,
        Self::S16,
        Self::U32,
        Self::S32,
        Self::F16,
        Self::F32,
    ];

    pub(super) fn raw(self) -> CUarray_format {
        match self {
            Self::U8 => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
            Self::S8 => CUarray_format::CU_AD_FORMAT_SIGNED_INT8,
            Self::U16 => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16,
            Self::S16 => CUarray_format::CU_AD_FORMAT_SIGNED_INT16,
            Self::U32 => CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32,
            Self::S32 => CUarray_format::CU_AD_FORMAT_SIGNED_INT32,
            Self::F16 => CUarray_format::CU_AD_FORMAT_HALF,
            Self::F32 => CUarray_format::CU_AD_FORMAT_FLOAT,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32)
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32)
    }

    /// Whether a texture can convert it to a number from 0 or -1 to 1.
    pub(super) fn is_small(self) -> bool {
        matches!(self, Self::U8 | Self::S8 | Self::U16 | Self::S16)
    }

    /// The bits of any integer, or of a number between -2 and 2.
    fn random(self, random: &mut Rng) -> u32 {
        let number = random.f32() * 4.0 - 2.0;
        match self {
            Self::U8 | Self::S8 => random.u8(..).into(),
            Self::U16 | Self::S16 => random.u16(..).into(),
            Self::U32 | Self::S32 => random.u32(..),
            Self::F16 => f16::from_f32(number).to_bits().into(),
            Self::F32 => number.to_bits(),
        }
    }
}

/// Rows, planes and volumes of elements.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    pub(super) format: Format,
    pub(super) channels: usize,
    /// The extent as in an array descriptor: 0 for a dimension that does not exist.
    pub(super) extent: [usize; 3],
    /// The bits of each channel.
    pub(super) bits: Vec<u32>,
}

impl Elements {
    pub(super) fn random(format: Format, channels: usize, extent: [usize; 3], seed: u64) -> Self {
        let mut random = numbers(seed);
        let count = extent.map(|axis| axis.max(1)).iter().product::<usize>();
        Self {
            format,
            channels,
            extent,
            bits: (0..count * channels)
                .map(|_| format.random(&mut random))
                .collect(),
        }
    }

    pub(super) fn size(&self) -> [usize; 3] {
        self.extent.map(|axis| axis.max(1))
    }

    pub(super) fn bytes_of_one(&self) -> usize {
        self.format.bytes() * self.channels
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let bytes = self.format.bytes();
        let all = self.bits.iter();
        all.flat_map(|bits| bits.to_le_bytes().into_iter().take(bytes))
            .collect()
    }

    pub(super) fn bits(&self, [x, y, z]: [usize; 3], channel: usize) -> u32 {
        let [width, height, _] = self.size();
        self.bits[((z * height + y) * width + x) * self.channels + channel]
    }

    /// A channel as a 32-bit integer.
    pub(super) fn integer(&self, at: [usize; 3], channel: usize) -> u32 {
        let bits = self.bits(at, channel);
        match self.format {
            Format::S8 => i32::from(bits as u8 as i8) as u32,
            Format::S16 => i32::from(bits as u16 as i16) as u32,
            _ => bits,
        }
    }

    /// A channel as a number; integers are scaled to the range from 0 or -1 to 1.
    pub(super) fn number(&self, at: [usize; 3], channel: usize) -> f64 {
        let bits = self.bits(at, channel);
        let signed = |most: f64| (f64::from(self.integer(at, channel) as i32) / most).max(-1.0);
        match self.format {
            Format::U8 => f64::from(bits) / 255.0,
            Format::U16 => f64::from(bits) / 65535.0,
            Format::S8 => signed(127.0),
            Format::S16 => signed(32767.0),
            Format::F16 => f16::from_bits(bits as u16).to_f64(),
            Format::F32 => f32::from_bits(bits).into(),
            Format::U32 | Format::S32 => panic!("never a number"),
        }
    }

    /// The difference between the largest and the smallest number, with the border included.
    pub(super) fn range(&self, border: f64) -> f64 {
        let [width, height, depth] = self.size();
        let (mut least, mut most) = (border, border);
        for place in 0..width * height * depth {
            for channel in 0..self.channels {
                let at = [
                    place % width,
                    place / width % height,
                    place / width / height,
                ];
                let number = self.number(at, channel);
                (least, most) = (least.min(number), most.max(number));
            }
        }
        most - least
    }
}

/// The element that an address mode selects for the index `at` of `size`; `None` is the border.
pub(super) fn place(mode: CUaddress_mode, at: i64, size: usize) -> Option<usize> {
    let size = size as i64;
    let found = match mode {
        CUaddress_mode::CU_TR_ADDRESS_MODE_WRAP => at.rem_euclid(size),
        CUaddress_mode::CU_TR_ADDRESS_MODE_MIRROR => {
            // 0, 1, 2, 2, 1, 0, 0, 1, ...
            let at = at.rem_euclid(2 * size);
            at.min(2 * size - 1 - at)
        }
        CUaddress_mode::CU_TR_ADDRESS_MODE_BORDER => {
            return usize::try_from(at).ok().filter(|at| (*at as i64) < size);
        }
        _ => at.clamp(0, size - 1),
    };
    Some(found as usize)
}

/// The linear filter of the programming guide, with exact weights, for one channel at coordinates
/// in units of elements. A dimension without a coordinate is a layer.
pub(super) fn filter(
    elements: &Elements,
    mode: CUaddress_mode,
    border: f64,
    at: &[f64],
    layer: usize,
    channel: usize,
) -> f64 {
    let size = elements.size();
    let mut sum = 0.0;
    for corner in 0..1_usize << at.len() {
        let mut weight = 1.0;
        let mut found = [Some(0), Some(0), Some(layer)];
        for (axis, coordinate) in at.iter().enumerate() {
            let below = coordinate - 0.5;
            let (first, rest) = (below.floor(), below - below.floor());
            let upper = corner >> axis & 1;
            weight *= if upper == 1 { rest } else { 1.0 - rest };
            found[axis] = place(mode, first as i64 + upper as i64, size[axis]);
        }
        sum += weight
            * match found {
                [Some(x), Some(y), Some(z)] => elements.number([x, y, z], channel),
                _ => border,
            };
    }
    sum
}
