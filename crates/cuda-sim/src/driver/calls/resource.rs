//! Validation of the resources of textures and surfaces, as C describes them.

use cuda_sys::CUarray_format;

use crate::driver::attributes::{
    LINEAR_PITCH, LINEAR_PLANE, LINEAR_WIDTH, TEXTURE_ALIGN, TEXTURE_PITCH_ALIGN,
};
use crate::driver::export::Call;
use crate::driver::objects::array;
use crate::driver::objects::device::Device;
use crate::driver::objects::resource::Resource;
use crate::driver::status::{INVALID_VALUE, Status};
use crate::vm::{Channel, Elements, Level, Shape};

/// Returns the type of a channel and the size in bytes of an element with `channels` channels.
fn element(format: CUarray_format, channels: u32) -> Status<(Channel, u64)> {
    let channel = array::channel(format)?;
    match channels {
        1 | 2 | 4 => Ok((channel, channel.bytes() * u64::from(channels))),
        _ => Err(INVALID_VALUE),
    }
}

impl Call {
    /// Returns the elements of a resource of `device`.
    pub(in crate::driver) fn elements(
        &self,
        resource: Resource,
        device: &Device,
    ) -> Status<Elements> {
        let on_device = |other: &Device| {
            let same = other.ordinal == device.ordinal;
            if same { Ok(()) } else { Err(INVALID_VALUE) }
        };
        match resource {
            Resource::Array(handle) => {
                let array = self.array(handle)?;
                on_device(&array.device)?;
                Ok(array.elements())
            }
            Resource::Mipmap(handle) => {
                let mipmap = self.mipmap(handle)?;
                on_device(&mipmap.device)?;
                let mut all = mipmap.levels.iter().map(|level| level.elements());
                let mut elements = all.next().ok_or(INVALID_VALUE)?;
                elements.levels.extend(all.flat_map(|other| other.levels));
                Ok(elements)
            }
            Resource::Linear {
                start,
                format,
                channels,
                bytes,
            } => {
                let (channel, element) = element(format, channels)?;
                let count = bytes as u64 / element;
                let is_right = start.is_multiple_of(TEXTURE_ALIGN as u64)
                    && (1..=LINEAR_WIDTH as u64).contains(&count);
                self.check_plain(is_right, start, count * element)?;
                Ok(Elements {
                    shape: Shape::Buffer,
                    channel,
                    channels,
                    levels: vec![Level {
                        address: start,
                        size: [count as u32, 1, 1],
                        pitch: count * element,
                    }],
                    gathers: false,
                })
            }
            Resource::Plane {
                start,
                format,
                channels,
                size: [width, height],
                pitch,
            } => {
                let (channel, element) = element(format, channels)?;
                let is_right = start.is_multiple_of(TEXTURE_ALIGN as u64)
                    && pitch.is_multiple_of(TEXTURE_PITCH_ALIGN as usize)
                    && (1..=LINEAR_PLANE[0] as usize).contains(&width)
                    && (1..=LINEAR_PLANE[1] as usize).contains(&height)
                    && (1..=LINEAR_PITCH as usize).contains(&pitch)
                    && width as u64 * element <= pitch as u64;
                let bytes = || (height as u64 - 1) * pitch as u64 + width as u64 * element;
                self.check_plain(is_right, start, if is_right { bytes() } else { 0 })?;
                Ok(Elements {
                    shape: Shape::Plane,
                    channel,
                    channels,
                    levels: vec![Level {
                        address: start,
                        size: [width as u32, height as u32, 1],
                        pitch: pitch as u64,
                    }],
                    gathers: false,
                })
            }
        }
    }

    /// Fails with `INVALID_VALUE` unless `is_right` is true and the range is live memory.
    fn check_plain(&self, is_right: bool, start: u64, bytes: u64) -> Status {
        if is_right && self.spaces().check(start, bytes)? {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }
}
