//! Arrays: memory without a visible address that holds rows and planes of elements.
//!
//! The software device stores the elements contiguously, which a program cannot observe. Kernels
//! read and write them through textures ([`super::texture`]) and surfaces ([`super::surface`]).

use std::sync::Arc;

use cuda_sys::{CUDA_ARRAY3D_DESCRIPTOR, CUarray_format};

use crate::driver::handle::fresh;
use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::objects::imported::Imported;
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status};
use crate::vm::{Channel, Elements, Level, Shape};

/// `CUDA_ARRAY3D_LAYERED`, `_SURFACE_LDST`, `_CUBEMAP`, `_TEXTURE_GATHER`
pub(in crate::driver) const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
pub(in crate::driver) const CUBEMAP: u32 = 4;
const GATHER: u32 = 8;
const KNOWN_FLAGS: u32 = 15;

/// `CUDA_ARRAY3D_COLOR_ATTACHMENT`: another API draws to the memory.
pub(in crate::driver) const COLOR_ATTACHMENT: u32 = 0x20;

/// The other flags of `cuda.h`: for sparse arrays, for deferred memory mapping, and for graphics.
const OTHER_FLAGS: u32 = 0x1F0;

/// An array.
#[derive(Debug)]
pub(in crate::driver) struct Array {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) context: u64,
    pub(in crate::driver) device: Arc<Device>,
    pub(in crate::driver) desc: CUDA_ARRAY3D_DESCRIPTOR,
    channel: Channel,
    /// The size of an element in bytes.
    element: u64,
    base: u64,
    /// The memory of another API that holds the elements. `None` if the array has its own.
    imported: Option<Arc<Imported>>,
    /// The handle of the mipmapped array of which this is a level, or 0.
    pub(in crate::driver) mipmap: u64,
}

impl Drop for Array {
    fn drop(&mut self) {
        if self.imported.is_none() {
            // Freeing cannot fail: `base` was allocated from this arena.
            let _ = self.device.arena.free(self.base, "cuArrayDestroy");
        }
    }
}

impl Array {
    /// Creates an array in `context`.
    pub(in crate::driver) fn new(
        context: &Context,
        desc: CUDA_ARRAY3D_DESCRIPTOR,
        mipmap: u64,
    ) -> Status<Arc<Self>> {
        let size = size_of(&desc)?;
        let base = context.device.allocate(size, 512).ok_or(OUT_OF_MEMORY)?;
        Self::at(context, desc, mipmap, (base, None))
    }

    /// Creates an array in `context`, whose elements are at an address: in memory of its own, or in
    /// that of another API.
    pub(in crate::driver) fn at(
        context: &Context,
        desc: CUDA_ARRAY3D_DESCRIPTOR,
        mipmap: u64,
        (base, imported): (u64, Option<Arc<Imported>>),
    ) -> Status<Arc<Self>> {
        Ok(Arc::new(Self {
            handle: fresh(),
            context: context.handle,
            device: Arc::clone(&context.device),
            desc,
            channel: channel(desc.Format)?,
            element: element_bytes(&desc)?,
            base,
            imported,
            mipmap,
        }))
    }

    pub(in crate::driver) fn handle(&self) -> u64 {
        self.handle
    }

    pub(in crate::driver) fn desc(&self) -> CUDA_ARRAY3D_DESCRIPTOR {
        self.desc
    }

    /// Returns whether surface objects can be created from the array.
    pub(in crate::driver) fn is_for_surfaces(&self) -> bool {
        self.desc.Flags & SURFACE != 0
    }

    /// Returns the elements in the form in which kernels access them.
    pub(in crate::driver) fn elements(&self) -> Elements {
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

    /// Returns the size of an element.
    pub(in crate::driver) fn element_bytes(&self) -> usize {
        self.element as usize
    }

    /// Returns the address of the first byte, the bytes of a row, and the rows of a plane.
    pub(in crate::driver) fn layout(&self) -> (u64, usize, usize) {
        let pitch = self.desc.Width * self.element as usize;
        (self.base, pitch, self.desc.Height.max(1))
    }

    /// Checks that the region at `at` with `extent` (each in bytes, rows and planes) lies in the
    /// array and consists of whole elements. Fails with `INVALID_VALUE` otherwise.
    pub(in crate::driver) fn check(&self, at: [usize; 3], extent: [usize; 3]) -> Status {
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

/// Returns the number of bytes of an element.
pub(in crate::driver) fn element_bytes(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> Status<u64> {
    Ok(channel(desc.Format)?.bytes() * u64::from(desc.NumChannels))
}

/// Returns the number of bytes of all elements.
pub(in crate::driver) fn size_of(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> Status<u64> {
    let element = element_bytes(desc)?;
    let mut axes = [desc.Width, desc.Height.max(1), desc.Depth.max(1)].into_iter();
    let size = axes.try_fold(element, |size, axis| size.checked_mul(axis as u64));
    size.ok_or(OUT_OF_MEMORY)
}

/// Returns the type of a channel of `format`.
pub(in crate::driver) fn channel(format: CUarray_format) -> Status<Channel> {
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
        // Not supported: video formats, formats of normalized integers, and block-compressed
        // formats.
        CUarray_format(0x50..=0x5F | 0x90..=0xFF) => return Err(NOT_SUPPORTED),
        _ => return Err(INVALID_VALUE),
    })
}

/// Fails if no array can be created from `desc`.
pub(in crate::driver) fn check(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> Status {
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
