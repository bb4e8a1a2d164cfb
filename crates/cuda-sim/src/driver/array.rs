//! Arrays: memory without an address, in rows and planes of elements.
//!
//! Here the elements lie one behind the other, which no program can see. Textures and surfaces, which read arrays in
//! kernels, are not implemented, so arrays are copied to and from.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D, CUarray, CUarray_format,
    CUarray_st, CUdeviceptr, CUmemorytype, CUstream, CUstream_st,
};

use super::arg::{In, Out};
use super::copy::Mode;
use super::device::Device;
use super::export::{Call, exports};
use super::handle::{fresh, pointer};
use super::status::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status};

exports! {
    cuArrayCreate_v2 => array_create(
        array: *mut CUarray, desc: *const CUDA_ARRAY_DESCRIPTOR);
    cuArray3DCreate_v2 => array_3d_create(
        array: *mut CUarray, desc: *const CUDA_ARRAY3D_DESCRIPTOR);
    cuArrayGetDescriptor_v2 => array_get_descriptor(
        desc: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray);
    cuArray3DGetDescriptor_v2 => array_3d_get_descriptor(
        desc: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray);
    cuArrayDestroy => array_destroy(array: CUarray);
    cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds => memcpy_h_to_a(
        dst: CUarray, at: usize, src: *const c_void, size: usize);
    cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz => memcpy_h_to_a_async(
        dst: CUarray, at: usize, src: *const c_void, size: usize, stream: CUstream);
    cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds => memcpy_a_to_h(
        dst: *mut c_void, src: CUarray, at: usize, size: usize);
    cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz => memcpy_a_to_h_async(
        dst: *mut c_void, src: CUarray, at: usize, size: usize, stream: CUstream);
    cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds => memcpy_d_to_a(
        dst: CUarray, at: usize, src: CUdeviceptr, size: usize);
    cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds => memcpy_a_to_d(
        dst: CUdeviceptr, src: CUarray, at: usize, size: usize);
    cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds => memcpy_a_to_a(
        dst: CUarray, dst_at: usize, src: CUarray, src_at: usize, size: usize);
}

/// `CUDA_ARRAY3D_LAYERED`, `_SURFACE_LDST`, `_CUBEMAP`, `_TEXTURE_GATHER`
const LAYERED: u32 = 1;
const CUBEMAP: u32 = 4;
const KNOWN_FLAGS: u32 = 15;
/// The flags that `cuda.h` has besides: for sparse arrays, for arrays that get their memory later, for graphics.
const OTHER_FLAGS: u32 = 0x1F0;

/// An array.
#[derive(Debug)]
pub(super) struct Array {
    handle: u64,
    pub(super) context: u64,
    device: Arc<Device>,
    desc: CUDA_ARRAY3D_DESCRIPTOR,
    /// The bytes of an element.
    element: u64,
    base: u64,
}

impl Drop for Array {
    fn drop(&mut self) {
        // It was allocated there.
        let _ = self.device.arena.free(self.base, "cuArrayDestroy");
    }
}

impl Array {
    /// Where its first byte is, the bytes of a row, and the rows of a plane.
    pub(super) fn layout(&self) -> (u64, usize, usize) {
        let pitch = self.desc.Width * self.element as usize;
        (self.base, pitch, self.desc.Height.max(1))
    }

    /// `INVALID_VALUE` unless whole elements of the array, from `at` on, are meant: in bytes, rows and planes.
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

/// The bytes of a channel.
fn channel_bytes(format: CUarray_format) -> Status<u64> {
    type F = CUarray_format;
    match format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 | F::CU_AD_FORMAT_SIGNED_INT8 => Ok(1),
        F::CU_AD_FORMAT_UNSIGNED_INT16 | F::CU_AD_FORMAT_SIGNED_INT16 | F::CU_AD_FORMAT_HALF => {
            Ok(2)
        }
        F::CU_AD_FORMAT_UNSIGNED_INT32 | F::CU_AD_FORMAT_SIGNED_INT32 | F::CU_AD_FORMAT_FLOAT => {
            Ok(4)
        }
        // Formats of video, of normalised integers and of blocks.
        CUarray_format(0x50..=0xFF) => Err(NOT_SUPPORTED),
        _ => Err(INVALID_VALUE),
    }
}

/// Whether the extents go with each other and with the flags, and are such as devices have since Turing.
fn is_shape(desc: &CUDA_ARRAY3D_DESCRIPTOR) -> bool {
    let (width, height, depth) = (desc.Width, desc.Height, desc.Depth);
    let layered = desc.Flags & LAYERED != 0;
    if desc.Flags & CUBEMAP != 0 {
        let cubes = if layered { depth % 6 == 0 } else { depth == 6 };
        return width == height && (1..=32768).contains(&width) && cubes && depth > 0;
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

/// One end of a copy to or from a one-dimensional array.
#[derive(Clone, Copy)]
enum End {
    Host(*mut c_void),
    Device(CUdeviceptr),
    Array(u64, usize),
}

impl Call {
    fn array(&self, handle: u64) -> Status<Arc<Array>> {
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
        let element = channel_bytes(desc.Format)? * u64::from(desc.NumChannels);
        if desc.Flags & !KNOWN_FLAGS != 0 {
            let is_other = desc.Flags & !(KNOWN_FLAGS | OTHER_FLAGS) == 0;
            return Err(if is_other {
                NOT_SUPPORTED
            } else {
                INVALID_VALUE
            });
        }
        if !matches!(desc.NumChannels, 1 | 2 | 4) || !is_shape(&desc) {
            return Err(INVALID_VALUE);
        }
        let axes = [desc.Width, desc.Height.max(1), desc.Depth.max(1)];
        let size = axes
            .iter()
            .try_fold(element, |size, &axis| size.checked_mul(axis as u64))
            .ok_or(OUT_OF_MEMORY)?;
        let base = context.device.allocate(size, 512).ok_or(OUT_OF_MEMORY)?;
        let created = Array {
            handle: fresh(),
            context: context.handle,
            device: Arc::clone(&context.device),
            desc,
            element,
            base,
        };
        let handle = created.handle;
        self.arrays.insert(handle, Arc::new(created));
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

    /// Waits for the device, as freeing memory does.
    fn array_destroy(&self, array: Out<CUarray_st>) -> Status {
        let array = self.arrays.remove(array.handle()).ok_or(INVALID_HANDLE)?;
        self.drain_device(&array.device);
        array.device.alive()
    }

    /// A copy of one row, in which an array has nothing but one.
    fn copy_row(&self, stream: u64, dst: End, src: End, size: usize, mode: Mode) -> Status {
        // SAFETY: all zeros must be a value of it ← it has integers, open enums and pointers only.
        let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        for end in [dst, src] {
            if let End::Array(handle, _) = end {
                let desc = self.array(handle)?.desc;
                if desc.Height > 1 || desc.Depth > 1 {
                    return Err(INVALID_VALUE);
                }
            }
        }
        (copy.WidthInBytes, copy.Height, copy.Depth) = (size, 1, 1);
        match src {
            End::Host(host) => {
                copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
                copy.srcHost = host;
            }
            End::Device(device) => {
                copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
                copy.srcDevice = device;
            }
            End::Array(handle, at) => {
                copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
                (copy.srcArray, copy.srcXInBytes) = (pointer(handle), at);
            }
        }
        match dst {
            End::Host(host) => {
                copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
                copy.dstHost = host;
            }
            End::Device(device) => {
                copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
                copy.dstDevice = device;
            }
            End::Array(handle, at) => {
                copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
                (copy.dstArray, copy.dstXInBytes) = (pointer(handle), at);
            }
        }
        self.copy_3d(stream, &copy, mode)
    }

    fn memcpy_h_to_a(
        &self,
        dst: Out<CUarray_st>,
        at: usize,
        src: In<c_void>,
        size: usize,
    ) -> Status {
        let dst = End::Array(dst.handle(), at);
        let src = End::Host(src.raw().cast_mut());
        self.copy_row(0, dst, src, size, Mode::Blocking)
    }

    fn memcpy_h_to_a_async(
        &self,
        dst: Out<CUarray_st>,
        at: usize,
        src: In<c_void>,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        let dst = End::Array(dst.handle(), at);
        let src = End::Host(src.raw().cast_mut());
        self.copy_row(stream.handle(), dst, src, size, Mode::Queued)
    }

    fn memcpy_a_to_h(
        &self,
        dst: Out<c_void>,
        src: Out<CUarray_st>,
        at: usize,
        size: usize,
    ) -> Status {
        let (dst, src) = (End::Host(dst.raw()), End::Array(src.handle(), at));
        self.copy_row(0, dst, src, size, Mode::Blocking)
    }

    fn memcpy_a_to_h_async(
        &self,
        dst: Out<c_void>,
        src: Out<CUarray_st>,
        at: usize,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        let (dst, src) = (End::Host(dst.raw()), End::Array(src.handle(), at));
        self.copy_row(stream.handle(), dst, src, size, Mode::Queued)
    }

    fn memcpy_d_to_a(
        &self,
        dst: Out<CUarray_st>,
        at: usize,
        src: CUdeviceptr,
        size: usize,
    ) -> Status {
        let (dst, src) = (End::Array(dst.handle(), at), End::Device(src));
        self.copy_row(0, dst, src, size, Mode::Blocking)
    }

    fn memcpy_a_to_d(
        &self,
        dst: CUdeviceptr,
        src: Out<CUarray_st>,
        at: usize,
        size: usize,
    ) -> Status {
        let (dst, src) = (End::Device(dst), End::Array(src.handle(), at));
        self.copy_row(0, dst, src, size, Mode::Blocking)
    }

    fn memcpy_a_to_a(
        &self,
        dst: Out<CUarray_st>,
        dst_at: usize,
        src: Out<CUarray_st>,
        src_at: usize,
        size: usize,
    ) -> Status {
        let dst = End::Array(dst.handle(), dst_at);
        let src = End::Array(src.handle(), src_at);
        self.copy_row(0, dst, src, size, Mode::Blocking)
    }
}
