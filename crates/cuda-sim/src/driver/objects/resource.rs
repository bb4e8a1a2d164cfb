//! The resources of textures and surfaces: arrays, mipmapped arrays, and linear memory in one or
//! two dimensions.

use std::ffi::c_uint;

use cuda_sys::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUarray_format, CUdeviceptr, CUresourceViewFormat,
    CUresourcetype,
};

use crate::driver::handle::pointer;
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::vm::{Channel, Elements, Shape};

/// A resource in the form of its C descriptor.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) enum Resource {
    Array(u64),
    Mipmap(u64),
    Linear {
        start: CUdeviceptr,
        format: CUarray_format,
        channels: u32,
        bytes: usize,
    },
    Plane {
        start: CUdeviceptr,
        format: CUarray_format,
        channels: u32,
        size: [usize; 2],
        pitch: usize,
    },
}

impl Resource {
    /// Parses a descriptor. Fails with `INVALID_VALUE` if it is invalid.
    pub(in crate::driver) fn new(desc: &CUDA_RESOURCE_DESC) -> Status<Self> {
        if desc.flags != 0 {
            return Err(INVALID_VALUE);
        }
        match desc.resType {
            CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
                // SAFETY: every bit pattern of the union must be valid for a pointer ← all variants
                // contain only integers and pointers, and the pointer is only used as a number.
                match unsafe { desc.res.array.hArray.addr() } {
                    0 => Err(INVALID_VALUE),
                    array => Ok(Self::Array(array as u64)),
                }
            }
            CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
                // SAFETY: as for the previous variant.
                match unsafe { desc.res.mipmap.hMipmappedArray.addr() } {
                    0 => Err(INVALID_VALUE),
                    array => Ok(Self::Mipmap(array as u64)),
                }
            }
            CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
                // SAFETY: every bit pattern of the union must be valid for this variant ← all
                // variants contain only integers and pointers.
                let linear = unsafe { desc.res.linear };
                Ok(Self::Linear {
                    start: linear.devPtr,
                    format: linear.format,
                    channels: linear.numChannels,
                    bytes: linear.sizeInBytes,
                })
            }
            CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => {
                // SAFETY: as for the previous variant.
                let plane = unsafe { desc.res.pitch2D };
                Ok(Self::Plane {
                    start: plane.devPtr,
                    format: plane.format,
                    channels: plane.numChannels,
                    size: [plane.width, plane.height],
                    pitch: plane.pitchInBytes,
                })
            }
            _ => Err(INVALID_VALUE),
        }
    }

    /// Returns the C descriptor.
    pub(in crate::driver) fn desc(self) -> CUDA_RESOURCE_DESC {
        // SAFETY: all-zero bytes must be a valid value of the struct ← it contains only integers,
        // open enums and pointers.
        let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
        match self {
            Self::Array(handle) => {
                desc.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
                desc.res.array.hArray = pointer(handle);
            }
            Self::Mipmap(handle) => {
                desc.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
                desc.res.mipmap.hMipmappedArray = pointer(handle);
            }
            Self::Linear {
                start,
                format,
                channels,
                bytes,
            } => {
                desc.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
                desc.res.linear.devPtr = start;
                desc.res.linear.format = format;
                desc.res.linear.numChannels = channels;
                desc.res.linear.sizeInBytes = bytes;
            }
            Self::Plane {
                start,
                format,
                channels,
                size: [width, height],
                pitch,
            } => {
                desc.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
                desc.res.pitch2D.devPtr = start;
                desc.res.pitch2D.format = format;
                desc.res.pitch2D.numChannels = channels;
                desc.res.pitch2D.width = width;
                desc.res.pitch2D.height = height;
                desc.res.pitch2D.pitchInBytes = pitch;
            }
        }
        desc
    }

    pub(in crate::driver) fn is_linear(self) -> bool {
        matches!(self, Self::Linear { .. })
    }
}

/// Returns the channel type and the number of channels of a view format.
fn view_format(format: CUresourceViewFormat) -> Status<(Channel, u32)> {
    let kinds = [
        Channel::U8,
        Channel::S8,
        Channel::U16,
        Channel::S16,
        Channel::U32,
        Channel::S32,
        Channel::F16,
        Channel::F32,
    ];
    // 1, 2 and 4 channels of each type, followed by the block-compressed formats. An H200 does not
    // accept `CU_RES_VIEW_FORMAT_NONE` as a format.
    match format.0 as c_uint {
        number @ 1..=24 => {
            let place = number as usize - 1;
            Ok((kinds[place / 3], 1 << (place % 3)))
        }
        25..=34 => Err(NOT_SUPPORTED),
        _ => Err(INVALID_VALUE),
    }
}

/// Returns the part of `elements` that a view selects.
pub(in crate::driver) fn view(
    mut elements: Elements,
    resource: Resource,
    view: &CUDA_RESOURCE_VIEW_DESC,
) -> Status<Elements> {
    let right = |is_right: bool| if is_right { Ok(()) } else { Err(INVALID_VALUE) };
    right(matches!(resource, Resource::Array(_) | Resource::Mipmap(_)))?;
    let bytes = |channel: Channel, channels: u32| channel.bytes() * u64::from(channels);
    let (channel, channels) = view_format(view.format)?;
    right(bytes(channel, channels) == bytes(elements.channel, elements.channels))?;
    (elements.channel, elements.channels) = (channel, channels);
    // The size of an absent dimension is 0.
    let [width, height, depth] = elements.levels[0].size.map(|axis| axis as usize);
    let is_layered = matches!(
        elements.shape,
        Shape::Lines | Shape::Planes | Shape::Cube | Shape::Cubes
    );
    let same = |given: usize, own: usize| given == own || given == 0 && own == 1;
    right(view.width == width && same(view.height, height))?;
    // The depth is the number of all layers, even if the view selects only some of them.
    right(same(view.depth, depth))?;
    let (first, last) = (view.firstMipmapLevel, view.lastMipmapLevel);
    right(first <= last && (last as usize) < elements.levels.len())?;
    elements.levels = elements.levels[first as usize..=last as usize].to_vec();
    let (first, last) = (view.firstLayer, view.lastLayer);
    if !is_layered {
        right(first == 0 && last == 0)?;
        return Ok(elements);
    }
    right(first <= last && (last as usize) < depth)?;
    let count = last - first + 1;
    let of_cubes = first.is_multiple_of(6) && count.is_multiple_of(6);
    right(of_cubes || matches!(elements.shape, Shape::Lines | Shape::Planes))?;
    for level in &mut elements.levels {
        level.address += u64::from(first) * level.pitch * u64::from(level.size[1]);
        level.size[2] = count;
    }
    Ok(elements)
}
