//! Arrays: memory without a visible address that holds rows and planes of elements.
//!
//! The software device stores the elements contiguously, which a program cannot observe. Kernels
//! read and write them through textures ([`super::texture`]) and surfaces ([`super::surface`]).

use std::sync::Arc;

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUarray_format, CUarray_st,
};

use super::arg::{In, Out};
use super::context::Context;
use super::device::Device;
use super::export::{Call, exports};
use super::handle::{fresh, pointer};
use super::status::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status};
use crate::vm::{Channel, Elements, Level, Shape};

exports! {
    cuArrayCreate_v2 => array_create;
    cuArray3DCreate_v2 => array_3d_create;
    cuArrayGetDescriptor_v2 => array_get_descriptor;
    cuArray3DGetDescriptor_v2 => array_3d_get_descriptor;
    cuArrayDestroy => array_destroy;
}

/// `CUDA_ARRAY3D_LAYERED`, `_SURFACE_LDST`, `_CUBEMAP`, `_TEXTURE_GATHER`
pub(super) const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
pub(super) const CUBEMAP: u32 = 4;
const GATHER: u32 = 8;
const KNOWN_FLAGS: u32 = 15;
/// The other flags of `cuda.h`: for sparse arrays, for deferred memory mapping, and for graphics.
const OTHER_FLAGS: u32 = 0x1F0;

/// An array.
#[derive(Debug)]
pub(super) struct Array {
    handle: u64,
    pub(super) context: u64,
    pub(super) device: Arc<Device>,
    desc: CUDA_ARRAY3D_DESCRIPTOR,
    channel: Channel,
    /// The size of an element in bytes.
    element: u64,
    base: u64,
    /// The handle of the mipmapped array of which this is a level, or 0.
    pub(super) mipmap: u64,
}

impl Drop for Array {
    fn drop(&mut self) {
        // Freeing cannot fail: `base` was allocated from this arena.
        let _ = self.device.arena.free(self.base, "cuArrayDestroy");
    }
}

impl Array {
    /// Creates an array in `context`.
    pub(super) fn new(
        context: &Context,
        desc: CUDA_ARRAY3D_DESCRIPTOR,
        mipmap: u64,
    ) -> Status<Arc<Self>> {
        let channel = channel(desc.Format)?;
        let element = channel.bytes() * u64::from(desc.NumChannels);
        let axes = [desc.Width, desc.Height.max(1), desc.Depth.max(1)];
        let size = axes
            .iter()
            .try_fold(element, |size, &axis| size.checked_mul(axis as u64))
            .ok_or(OUT_OF_MEMORY)?;
        let base = context.device.allocate(size, 512).ok_or(OUT_OF_MEMORY)?;
        Ok(Arc::new(Self {
            handle: fresh(),
            context: context.handle,
            device: Arc::clone(&context.device),
            desc,
            channel,
            element,
            base,
            mipmap,
        }))
    }

    pub(super) fn handle(&self) -> u64 {
        self.handle
    }

    pub(super) fn desc(&self) -> CUDA_ARRAY3D_DESCRIPTOR {
        self.desc
    }

    /// Returns whether surface objects can be created from the array.
    pub(super) fn is_for_surfaces(&self) -> bool {
        self.desc.Flags & SURFACE != 0
    }

    /// Returns the elements in the form in which kernels access them.
    pub(super) fn elements(&self) -> Elements {
        let desc = &self.desc;
        let layered = desc.Flags & LAYERED != 0;
        let shape = match (desc.Flags & CUBEMAP != 0, desc.Height, desc.Depth) {
            (true, ..) if layered => Shape::Cubes,
            (true, ..) => Shape::Cube,
            (_, 0, _) if layered => Shape::Lines,
            _ if layered => Shape::Planes,
            (_, 0, 0) => Shape::Line,
            (_, _, 0) => Shape::Plane,
            _ => Shape::Space,
        };
        let level = Level {
            address: self.base,
            size: [desc.Width, desc.Height, desc.Depth].map(|axis| axis.max(1) as u32),
            pitch: desc.Width as u64 * self.element,
        };
        Elements {
            shape,
            channel: self.channel,
            channels: desc.NumChannels,
            levels: vec![level],
            gathers: desc.Flags & GATHER != 0,
        }
    }

    /// Returns the address of the first byte, the bytes of a row, and the rows of a plane.
    pub(super) fn layout(&self) -> (u64, usize, usize) {
        let pitch = self.desc.Width * self.element as usize;
        (self.base, pitch, self.desc.Height.max(1))
    }

    /// Checks that the region at `at` with `extent` (each in bytes, rows and planes) lies in the
    /// array and consists of whole elements. Fails with `INVALID_VALUE` otherwise.
    pub(super) fn check(&self, at: [usize; 3], extent: [usize; 3]) -> Status {
        let (_, pitch, height) = self.layout();
        let all = [pitch, height, self.desc.Depth.max(1)];
        let element = self.element as usize;
        let is_whole = at[0].is_multiple_of(element) && extent[0].is_multiple_of(element);
        let mut axes = at.iter().zip(extent).zip(all);
        let is_inside = axes.all(|((&at, extent), all)| at <= all && extent <= all - at);
        if is_whole && is_inside {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }
}

/// Returns the type of a channel of `format`.
pub(super) fn channel(format: CUarray_format) -> Status<Channel> {
    type F = CUarray_format;
    Ok(match format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 => Channel::U8,
        F::CU_AD_FORMAT_SIGNED_INT8 => Channel::S8,
        F::CU_AD_FORMAT_UNSIGNED_INT16 => Channel::U16,
        F::CU_AD_FORMAT_SIGNED_INT16 => Channel::S16,
        F::CU_AD_FORMAT_UNSIGNED_INT32 => Channel::U32,
        F::CU_AD_FORMAT_SIGNED_INT32 => Channel::S32,
        F::CU_AD_FORMAT_HALF => Channel::F16,
        F::CU_AD_FORMAT_FLOAT => Channel::F32,
        // Video formats, formats of normalized integers, and block-compressed formats.
        CUarray_format(0x50..=0x5F | 0x90..=0xFF) => return Err(NOT_SUPPORTED),
        _ => return Err(INVALID_VALUE),
    })
}

/// Fails if no array can be created from `desc`.
pub(super) fn check(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> Status {
    channel(desc.Format)?;
    if desc.Flags & !KNOWN_FLAGS != 0 {
        let is_other = desc.Flags & !(KNOWN_FLAGS | OTHER_FLAGS) == 0;
        return Err(if is_other {
            NOT_SUPPORTED
        } else {
            INVALID_VALUE
        });
    }
    if matches!(desc.NumChannels, 1 | 2 | 4) && is_shape(desc) {
        Ok(())
    } else {
        Err(INVALID_VALUE)
    }
}

/// Returns whether the extents are consistent with each other and with the flags, and are within
/// the limits of devices since Turing.
fn is_shape(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> bool {
    let (width, height, depth) = (desc.Width, desc.Height, desc.Depth);
    let layered = desc.Flags & LAYERED != 0;
    if desc.Flags & GATHER != 0 {
        let is_plane = desc.Flags & (LAYERED | CUBEMAP) == 0 && depth == 0;
        return is_plane && (1..=32768).contains(&width) && (1..=32768).contains(&height);
    }
    if desc.Flags & CUBEMAP != 0 {
        let cubes = if layered { depth % 6 == 0 } else { depth == 6 };
        return width == height
            && (1..=32768).contains(&width)
            && cubes
            && (1..=2046).contains(&depth);
    }
    if layered {
        return (1..=32768).contains(&width) && height <= 32768 && (1..=2048).contains(&depth);
    }
    match (height, depth) {
        (0, 0) => (1..=131_072).contains(&width),
        (_, 0) => (1..=131_072).contains(&width) && height <= 65536,
        (0, _) => false,
        _ => (1..=16384).contains(&width) && height <= 16384 && depth <= 16384,
    }
}

impl Call {
    pub(super) fn array(&self, handle: u64) -> Status<Arc<Array>> {
        let array = self.arrays.get(handle).ok_or(INVALID_HANDLE)?;
        array.device.alive()?;
        Ok(array)
    }

    fn array_create(&self, array: Out<CUarray>, desc: In<CUDA_ARRAY_DESCRIPTOR>) -> Status {
        let desc = desc.get()?;
        self.create_array(
            array,
            CUDA_ARRAY3D_DESCRIPTOR {
                Width: desc.Width,
                Height: desc.Height,
                Depth: 0,
                Format: desc.Format,
                NumChannels: desc.NumChannels,
                Flags: 0,
            },
        )
    }

    fn array_3d_create(&self, array: Out<CUarray>, desc: In<CUDA_ARRAY3D_DESCRIPTOR>) -> Status {
        self.create_array(array, desc.get()?)
    }

    fn create_array(&self, array: Out<CUarray>, desc: CUDA_ARRAY3D_DESCRIPTOR) -> Status {
        array.required()?;
        let context = self.current()?;
        check(&desc)?;
        let created = Array::new(&context, desc, 0)?;
        let handle = created.handle;
        self.arrays.insert(handle, created);
        array.set(pointer(handle))
    }

    fn array_get_descriptor(
        &self,
        desc: Out<CUDA_ARRAY_DESCRIPTOR>,
        array: Out<CUarray_st>,
    ) -> Status {
        let array = self.array(array.handle())?;
        desc.set(CUDA_ARRAY_DESCRIPTOR {
            Width: array.desc.Width,
            Height: array.desc.Height,
            Format: array.desc.Format,
            NumChannels: array.desc.NumChannels,
        })
    }

    fn array_3d_get_descriptor(
        &self,
        desc: Out<CUDA_ARRAY3D_DESCRIPTOR>,
        array: Out<CUarray_st>,
    ) -> Status {
        desc.set(self.array(array.handle())?.desc)
    }

    /// `cuArrayDestroy()`—Waits for the context of the array, as freeing memory does.
    fn array_destroy(&self, array: Out<CUarray_st>) -> Status {
        let handle = array.handle();
        // A level is destroyed only with its mipmapped array.
        if self
            .arrays
            .get(handle)
            .is_some_and(|level| level.mipmap != 0)
        {
            return Err(INVALID_HANDLE);
        }
        let array = self.arrays.get(handle).ok_or(INVALID_HANDLE)?;
        self.potentially_unsafe()?;
        self.arrays.remove(handle).ok_or(INVALID_HANDLE)?;
        self.drain_context(array.context);
        array.device.alive()
    }
}
