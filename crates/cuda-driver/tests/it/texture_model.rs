//! A model of textures: results computed on the host from the formulas of the CUDA programming
//! guide.

use cuda_driver::texture::{AddressMode, ArrayShape, ChannelFormat, Texel};
use half::f16;

/// Elements on the host.
pub(crate) struct Image<T> {
    pub(crate) shape: ArrayShape,
    pub(crate) texels: Vec<T>,
}

/// Returns the bytes of a channel of this type.
pub(crate) fn channel_bytes(format: ChannelFormat) -> usize {
    match format {
        ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT8 | ChannelFormat::CU_AD_FORMAT_SIGNED_INT8 => 1,
        ChannelFormat::CU_AD_FORMAT_UNSIGNED_INT16
        | ChannelFormat::CU_AD_FORMAT_SIGNED_INT16
        | ChannelFormat::CU_AD_FORMAT_HALF => 2,
        _ => 4,
    }
}

fn is_signed(format: ChannelFormat) -> bool {
    matches!(
        format,
        ChannelFormat::CU_AD_FORMAT_SIGNED_INT8
            | ChannelFormat::CU_AD_FORMAT_SIGNED_INT16
            | ChannelFormat::CU_AD_FORMAT_SIGNED_INT32
    )
}

pub(crate) fn is_float(format: ChannelFormat) -> bool {
    matches!(
        format,
        ChannelFormat::CU_AD_FORMAT_HALF | ChannelFormat::CU_AD_FORMAT_FLOAT
    )
}

/// Returns whether textures can read the channels as numbers from 0 or -1 to 1.
pub(crate) fn is_small_integer<T: Texel>() -> bool {
    !is_float(T::FORMAT) && channel_bytes(T::FORMAT) < 4
}

/// A point in units of elements, and the layer or face.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: [f64; 3],
    pub(crate) layer: usize,
}

impl<T: Texel> Image<T> {
    pub(crate) fn random(shape: ArrayShape, random: &mut fastrand::Rng) -> Self {
        let extent = shape.extent();
        let len = extent.width * extent.height * extent.depth;
        let texels = (0..len)
            .map(|_| {
                let mut texel = T::zeroed();
                for channel in
                    bytemuck::bytes_of_mut(&mut texel).chunks_mut(channel_bytes(T::FORMAT))
                {
                    let number = random.f32() * 4.0 - 2.0;
                    let bits = match T::FORMAT {
                        ChannelFormat::CU_AD_FORMAT_HALF => f16::from_f32(number).to_bits().into(),
                        ChannelFormat::CU_AD_FORMAT_FLOAT => number.to_bits(),
                        _ => random.u32(..),
                    };
                    channel.copy_from_slice(&bits.to_le_bytes()[..channel.len()]);
                }
                texel
            })
            .collect();
        Self { shape, texels }
    }

    /// Returns a channel as a texture returns it without conversion: as a 32-bit integer, or as the
    /// bits of a float.
    pub(crate) fn bits(&self, [x, y, z]: [usize; 3], channel: usize) -> u32 {
        let extent = self.shape.extent();
        let texel = &self.texels[(z * extent.height + y) * extent.width + x];
        let size = channel_bytes(T::FORMAT);
        let bytes = &bytemuck::bytes_of(texel)[channel * size..][..size];
        let mut word = [0; 4];
        word[..size].copy_from_slice(bytes);
        let bits = u32::from_le_bytes(word);
        match (T::FORMAT, is_signed(T::FORMAT), size) {
            (ChannelFormat::CU_AD_FORMAT_HALF, ..) => {
                f16::from_bits(bits as u16).to_f32().to_bits()
            }
            (_, true, 1) => i32::from(bits as u8 as i8) as u32,
            (_, true, 2) => i32::from(bits as u16 as i16) as u32,
            _ => bits,
        }
    }

    /// Returns a channel as a number; integers are scaled to the range from 0 or -1 to 1.
    pub(crate) fn number(&self, at: [usize; 3], channel: usize) -> f64 {
        let bits = self.bits(at, channel);
        if is_float(T::FORMAT) {
            return f32::from_bits(bits).into();
        }
        let bytes = channel_bytes(T::FORMAT) as u32;
        if is_signed(T::FORMAT) {
            let most = f64::from((1_u32 << (8 * bytes - 1)) - 1);
            (f64::from(bits as i32) / most).max(-1.0)
        } else {
            f64::from(bits) / f64::from((1_u32 << (8 * bytes)) - 1)
        }
    }

    /// Returns the difference between the largest and the smallest number, with zero included,
    /// which is the colour of the border.
    pub(crate) fn range(&self) -> f64 {
        let extent = self.shape.extent();
        let (mut least, mut most) = (0.0_f64, 0.0_f64);
        for index in 0..self.texels.len() {
            let at = [
                index % extent.width,
                index / extent.width % extent.height,
                index / extent.width / extent.height,
            ];
            for channel in 0..T::CHANNELS as usize {
                let number = self.number(at, channel);
                (least, most) = (least.min(number), most.max(number));
            }
        }
        most - least
    }

    /// Returns the nearest element, or `None` if it is the border. The first `axes` coordinates
    /// count; the others are replaced by the layer.
    pub(crate) fn nearest(
        &self,
        mode: AddressMode,
        point: &Point,
        axes: usize,
    ) -> Option<[usize; 3]> {
        let size = self.size();
        let mut found = [0, 0, point.layer];
        for axis in 0..axes {
            found[axis] = place(mode, point.at[axis].floor() as i64, size[axis])?;
        }
        Some(found)
    }

    /// Returns the result of the linear filter with exact weights for one channel.
    pub(crate) fn filtered(
        &self,
        mode: AddressMode,
        point: &Point,
        axes: usize,
        channel: usize,
    ) -> f64 {
        let size = self.size();
        let mut sum = 0.0;
        for corner in 0..1_usize << axes {
            let mut weight = 1.0;
            let mut found = [Some(0), Some(0), Some(point.layer)];
            for axis in 0..axes {
                let below = point.at[axis] - 0.5;
                let rest = below - below.floor();
                let upper = corner >> axis & 1;
                weight *= if upper == 1 { rest } else { 1.0 - rest };
                found[axis] = place(mode, below.floor() as i64 + upper as i64, size[axis]);
            }
            if let [Some(x), Some(y), Some(z)] = found {
                sum += weight * self.number([x, y, z], channel);
            }
        }
        sum
    }

    fn size(&self) -> [usize; 3] {
        let extent = self.shape.extent();
        [extent.width, extent.height, extent.depth]
    }
}

/// Returns the index that an address mode selects; `None` is the border.
fn place(mode: AddressMode, at: i64, size: usize) -> Option<usize> {
    let size = size as i64;
    let found = match mode {
        AddressMode::Wrap => at.rem_euclid(size),
        AddressMode::Mirror => {
            // 0, 1, 2, 2, 1, 0, 0, 1, ...
            let at = at.rem_euclid(2 * size);
            at.min(2 * size - 1 - at)
        }
        AddressMode::Border => return usize::try_from(at).ok().filter(|at| (*at as i64) < size),
        AddressMode::Clamp => at.clamp(0, size - 1),
    };
    Some(found as usize)
}

/// Returns the direction that hits a face of a cube at `s` and `t`, from -1 to 1.
pub(crate) fn direction(face: usize, [s, t]: [f32; 2]) -> [f32; 3] {
    match face {
        0 => [1.0, -t, -s],
        1 => [-1.0, -t, s],
        2 => [s, 1.0, t],
        3 => [s, -1.0, -t],
        4 => [s, -t, 1.0],
        _ => [-s, -t, -1.0],
    }
}
