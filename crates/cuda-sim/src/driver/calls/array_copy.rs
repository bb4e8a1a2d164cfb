//! Copies of one row to and from arrays. [`super::copy`] has the copies with more dimensions.

use std::ffi::c_void;

use cuda_sys::{CUDA_MEMCPY3D, CUarray_st, CUdeviceptr, CUmemorytype, CUstream_st};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::transfer::Mode;
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds => memcpy_h_to_a;
    cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz => memcpy_h_to_a_async;
    cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds => memcpy_a_to_h;
    cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz => memcpy_a_to_h_async;
    cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds => memcpy_d_to_a;
    cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds => memcpy_a_to_d;
    cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds => memcpy_a_to_a;
}

/// One end of a copy to or from a one-dimensional array.
#[derive(Clone, Copy)]
enum End {
    Host(*mut c_void),
    Device(CUdeviceptr),
    Array(u64, usize),
}

impl Call {
    /// Copies one row of bytes. An array on either side must be one-dimensional.
    fn copy_row(&self, stream: u64, dst: End, src: End, size: usize, mode: Mode) -> Status {
        // SAFETY: all-zero bytes must be a valid value of the struct ← it contains only integers,
        // open enums and pointers.
        let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        for end in [dst, src] {
            if let End::Array(handle, _) = end {
                let desc = self.array(handle)?.desc();
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
