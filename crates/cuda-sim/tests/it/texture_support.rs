//! Helpers that create textures, surfaces and arrays.

use std::ptr;

use cuda_sim::CUresult as R;
use cuda_sys::{
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY2D, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC,
    CUDA_TEXTURE_DESC, CUaddress_mode, CUarray, CUarray_format, CUdeviceptr, CUfilter_mode,
    CUmemorytype, CUmipmappedArray, CUresourcetype, CUsurfObject, CUtexObject,
};

use crate::support::{TestDevice, ok};

pub(crate) const TEXTURE: &str = include_str!("kernels/texture.ptx");
pub(crate) const BAD: R = R::CUDA_ERROR_INVALID_VALUE;
pub(crate) const GONE: R = R::CUDA_ERROR_INVALID_HANDLE;
pub(crate) const UNSUPPORTED: R = R::CUDA_ERROR_NOT_SUPPORTED;
pub(crate) const U8: CUarray_format = CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8;
pub(crate) const U32: CUarray_format = CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32;
pub(crate) const F32: CUarray_format = CUarray_format::CU_AD_FORMAT_FLOAT;
pub(crate) const LAYERED: u32 = 1;
pub(crate) const SURFACE: u32 = 2;
pub(crate) const CUBEMAP: u32 = 4;
pub(crate) const GATHER: u32 = 8;
pub(crate) const INTEGER: u32 = 1;
pub(crate) const NORMALIZED: u32 = 2;
pub(crate) const SRGB: u32 = 0x10;
pub(crate) const SEAMLESS: u32 = 0x40;

pub(crate) fn desc(
    [width, height, depth]: [usize; 3],
    format: CUarray_format,
    channels: u32,
    flags: u32,
) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: format,
        NumChannels: channels,
        Flags: flags,
    }
}

pub(crate) fn of_array(array: CUarray) -> CUDA_RESOURCE_DESC {
    let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    desc.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
    desc.res.array.hArray = array;
    desc
}

pub(crate) fn of_mipmap(array: CUmipmappedArray) -> CUDA_RESOURCE_DESC {
    let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    desc.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    desc.res.mipmap.hMipmappedArray = array;
    desc
}

pub(crate) fn of_memory(
    start: CUdeviceptr,
    bytes: usize,
    format: CUarray_format,
    channels: u32,
) -> CUDA_RESOURCE_DESC {
    let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    desc.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
    desc.res.linear.devPtr = start;
    desc.res.linear.format = format;
    desc.res.linear.numChannels = channels;
    desc.res.linear.sizeInBytes = bytes;
    desc
}

pub(crate) fn of_rows(
    start: CUdeviceptr,
    [width, height]: [usize; 2],
    pitch: usize,
) -> CUDA_RESOURCE_DESC {
    let mut desc: CUDA_RESOURCE_DESC = unsafe { std::mem::zeroed() };
    desc.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
    desc.res.pitch2D.devPtr = start;
    desc.res.pitch2D.format = F32;
    desc.res.pitch2D.numChannels = 1;
    desc.res.pitch2D.width = width;
    desc.res.pitch2D.height = height;
    desc.res.pitch2D.pitchInBytes = pitch;
    desc
}

pub(crate) fn reading(mode: CUaddress_mode, flags: u32) -> CUDA_TEXTURE_DESC {
    let mut desc: CUDA_TEXTURE_DESC = unsafe { std::mem::zeroed() };
    desc.addressMode = [mode; 3];
    desc.flags = flags;
    desc
}

pub(crate) fn clamped(flags: u32) -> CUDA_TEXTURE_DESC {
    reading(CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP, flags)
}

pub(crate) fn filtered_as(mode: CUaddress_mode, flags: u32) -> CUDA_TEXTURE_DESC {
    CUDA_TEXTURE_DESC {
        filterMode: CUfilter_mode::CU_TR_FILTER_MODE_LINEAR,
        ..reading(mode, flags)
    }
}

pub(crate) fn filtered(flags: u32) -> CUDA_TEXTURE_DESC {
    filtered_as(CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP, flags)
}

impl TestDevice {
    pub(crate) fn array_of(&self, desc: &CUDA_ARRAY3D_DESCRIPTOR) -> CUarray {
        let mut array = ptr::null_mut();
        unsafe { ok(self.cuArray3DCreate_v2(&raw mut array, desc)) };
        array
    }

    pub(crate) fn mipmap_of(
        &self,
        desc: &CUDA_ARRAY3D_DESCRIPTOR,
        levels: u32,
    ) -> CUmipmappedArray {
        let mut array = ptr::null_mut();
        unsafe { ok(self.cuMipmappedArrayCreate(&raw mut array, desc, levels)) };
        array
    }

    pub(crate) fn make_texture(
        &self,
        resource: &CUDA_RESOURCE_DESC,
        texture: &CUDA_TEXTURE_DESC,
        view: Option<&CUDA_RESOURCE_VIEW_DESC>,
    ) -> Result<CUtexObject, R> {
        let mut object = 0;
        let view = view.map_or(ptr::null(), ptr::from_ref);
        let status = unsafe { self.cuTexObjectCreate(&raw mut object, resource, texture, view) };
        (status == R::CUDA_SUCCESS).then_some(object).ok_or(status)
    }

    pub(crate) fn make_surface(&self, resource: &CUDA_RESOURCE_DESC) -> Result<CUsurfObject, R> {
        let mut object = 0;
        let status = unsafe { self.cuSurfObjectCreate(&raw mut object, resource) };
        (status == R::CUDA_SUCCESS).then_some(object).ok_or(status)
    }

    pub(crate) fn put<T>(&self, array: CUarray, values: &[T]) {
        let size = size_of_val(values);
        unsafe { ok(self.cuMemcpyHtoA_v2(array, 0, values.as_ptr().cast(), size)) };
    }

    /// Writes a row of a plane.
    pub(crate) fn put_row<T>(&self, array: CUarray, y: usize, values: &[T]) {
        let mut copy: CUDA_MEMCPY2D = unsafe { std::mem::zeroed() };
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = values.as_ptr().cast();
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
        (copy.dstArray, copy.dstY) = (array, y);
        (copy.WidthInBytes, copy.Height) = (size_of_val(values), 1);
        unsafe { ok(self.cuMemcpy2D_v2(&copy)) };
    }

    pub(crate) fn take<T: Copy + Default>(&self, array: CUarray, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let size = size_of_val(&values[..]);
        unsafe { ok(self.cuMemcpyAtoH_v2(values.as_mut_ptr().cast(), array, 0, size)) };
        values
    }

    /// Creates a row of 16 words, with a surface.
    pub(crate) fn row(&self) -> (CUarray, CUsurfObject) {
        let array = self.array_of(&desc([16, 0, 0], U32, 1, SURFACE));
        (array, self.make_surface(&of_array(array)).unwrap())
    }

    /// Launches 32 threads and returns the status.
    pub(crate) fn run(&self, kernel: &str, params: &mut [u64]) -> R {
        let function = self.function(self.load(TEXTURE), kernel);
        ok(self.launch(function, [1, 32], ptr::null_mut(), params));
        self.sync()
    }
}
