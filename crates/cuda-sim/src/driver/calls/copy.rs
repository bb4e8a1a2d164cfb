//! Copies between host memory, device memory and arrays, in one, two and three dimensions.
//!
//! Addresses are unified: the address itself determines the kind of memory. Synchronization is as
//! the driver documents it. A blocking copy that involves the host returns when it is complete. A
//! blocking copy between device addresses is only queued. An asynchronous copy from pageable memory
//! has read its source when it returns (unless `late_pageable_copies` is set in the builder), and
//! one to pageable memory is complete when it returns.

use std::ffi::c_void;

use cuda_sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUctx_st, CUdeviceptr, CUmemorytype,
    CUresult, CUstream_st,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::objects::memory::Kind;
use crate::driver::objects::transfer::{Extent, Mode, Side, Transfer};
use crate::driver::status::{INVALID_CONTEXT, INVALID_VALUE, Status};

exports! {
    cuMemcpy | cuMemcpy_ptds => memcpy;
    cuMemcpyAsync | cuMemcpyAsync_ptsz => memcpy_async;
    cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds => memcpy_h_to_d;
    cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz => memcpy_h_to_d_async;
    cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds => memcpy_d_to_h;
    cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz => memcpy_d_to_h_async;
    cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds => memcpy_d_to_d;
    cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz => memcpy_d_to_d_async;
    cuMemcpyPeer | cuMemcpyPeer_ptds => memcpy_peer;
    cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz => memcpy_peer_async;
    cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds | cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds
        => memcpy_2d;
    cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz => memcpy_2d_async;
    cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds => memcpy_3d;
    cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz => memcpy_3d_async;
    cuMemcpy3DPeer | cuMemcpy3DPeer_ptds => memcpy_3d_peer;
    cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz => memcpy_3d_peer_async;
}

impl Call {
    fn linear(&self, stream: u64, dst: u64, src: u64, size: usize, mode: Mode) -> Status {
        let stream = self.stream(stream)?;
        let extent = Extent {
            width: size as u64,
            height: 1,
            depth: 1,
        };
        self.copy(&stream, Side::linear(dst), Side::linear(src), extent, mode)
    }

    /// Fails with `INVALID_VALUE` unless the address can be the device side of a copy or `size` is
    /// 0.
    fn must_be_device(&self, addr: u64, size: usize) -> Status {
        if size == 0 || self.spaces().is_known(addr) && !self.is_in_host_pool(addr) {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }

    /// Returns whether the address is in page-locked host memory of a pool. Driver 580 refuses
    /// such memory as device memory, unlike that of `cuMemHostAlloc`.
    fn is_in_host_pool(&self, addr: u64) -> bool {
        let is_in = self.find_allocation(addr, |_, it| matches!(it.kind, Kind::HostPool(_)));
        is_in.unwrap_or(false)
    }

    /// Fails with `INVALID_VALUE` if one of the addresses is in memory of a pool to which the
    /// device of the current context has no access, or if one of the ranges, each an address and a
    /// number of bytes, crosses the end of a mapping and no context is current.
    ///
    /// Driver 580 does this for asynchronous linear copies, except copies between contexts. Copies
    /// of rows were not measured; they are refused here too.
    pub(super) fn current_reaches(&self, ranges: [(u64, u64); 2]) -> Status {
        let current = match self.current_even_if_lost() {
            Ok(current) => current,
            Err(INVALID_CONTEXT) if ranges.into_iter().any(|it| self.crosses_mapping(it)) => {
                return Err(INVALID_VALUE);
            }
            Err(_) => return Ok(()),
        };
        let is_elsewhere = |(addr, _): (u64, u64)| {
            self.find_allocation(addr, |_, allocation| {
                let ordinal = current.device.ordinal;
                matches!(&allocation.kind, Kind::Pool(pool) if !pool.is_accessible(ordinal))
            })
        };
        if ranges.into_iter().filter_map(is_elsewhere).any(|is| is) {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    /// Returns whether the range begins in mapped memory and ends behind that mapping.
    fn crosses_mapping(&self, (addr, bytes): (u64, u64)) -> bool {
        let mapped = self.virtual_memory.mapped(addr);
        mapped.is_some_and(|it| bytes > it.start + it.size - addr)
    }

    /// Queues a linear copy that names no contexts.
    fn linear_async(&self, stream: u64, dst: u64, src: u64, size: usize) -> Status {
        self.current_reaches([(dst, size as u64), (src, size as u64)])?;
        self.linear(stream, dst, src, size, Mode::Queued)
    }

    fn memcpy(&self, dst: CUdeviceptr, src: CUdeviceptr, size: usize) -> Status {
        self.linear(0, dst, src, size, Mode::Blocking)
    }

    fn memcpy_async(
        &self,
        dst: CUdeviceptr,
        src: CUdeviceptr,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.linear_async(stream.handle(), dst, src, size)
    }

    fn memcpy_h_to_d(&self, dst: CUdeviceptr, src: In<c_void>, size: usize) -> Status {
        self.must_be_device(dst, size)?;
        self.linear(
            0,
            dst,
            src.raw().expose_provenance() as u64,
            size,
            Mode::Blocking,
        )
    }

    fn memcpy_h_to_d_async(
        &self,
        dst: CUdeviceptr,
        src: In<c_void>,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.must_be_device(dst, size)?;
        let src = src.raw().expose_provenance() as u64;
        self.linear_async(stream.handle(), dst, src, size)
    }

    fn memcpy_d_to_h(&self, dst: Out<c_void>, src: CUdeviceptr, size: usize) -> Status {
        self.must_be_device(src, size)?;
        self.linear(
            0,
            dst.raw().expose_provenance() as u64,
            src,
            size,
            Mode::Blocking,
        )
    }

    fn memcpy_d_to_h_async(
        &self,
        dst: Out<c_void>,
        src: CUdeviceptr,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.must_be_device(src, size)?;
        let dst = dst.raw().expose_provenance() as u64;
        self.linear_async(stream.handle(), dst, src, size)
    }

    fn memcpy_d_to_d(&self, dst: CUdeviceptr, src: CUdeviceptr, size: usize) -> Status {
        self.must_be_device(dst, size)?;
        self.must_be_device(src, size)?;
        self.linear(0, dst, src, size, Mode::Blocking)
    }

    fn memcpy_d_to_d_async(
        &self,
        dst: CUdeviceptr,
        src: CUdeviceptr,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.must_be_device(dst, size)?;
        self.must_be_device(src, size)?;
        self.linear_async(stream.handle(), dst, src, size)
    }

    fn contexts_exist(&self, contexts: [u64; 2]) -> Status {
        for handle in contexts {
            self.context(handle)?;
        }
        Ok(())
    }

    fn memcpy_peer(
        &self,
        dst: CUdeviceptr,
        dst_ctx: Out<CUctx_st>,
        src: CUdeviceptr,
        src_ctx: Out<CUctx_st>,
        size: usize,
    ) -> Status {
        self.contexts_exist([dst_ctx.handle(), src_ctx.handle()])?;
        self.memcpy_d_to_d(dst, src, size)
    }

    fn memcpy_peer_async(
        &self,
        dst: CUdeviceptr,
        dst_ctx: Out<CUctx_st>,
        src: CUdeviceptr,
        src_ctx: Out<CUctx_st>,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.contexts_exist([dst_ctx.handle(), src_ctx.handle()])?;
        self.must_be_device(dst, size)?;
        self.must_be_device(src, size)?;
        self.linear(stream.handle(), dst, src, size, Mode::Queued)
    }

    /// Runs a 2D copy as a 3D copy of depth 1.
    fn copy_2d(&self, stream: u64, copy: In<CUDA_MEMCPY2D>, mode: Mode) -> Status {
        let copy = copy.get()?;
        let all = CUDA_MEMCPY3D {
            srcXInBytes: copy.srcXInBytes,
            srcY: copy.srcY,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: copy.srcMemoryType,
            srcHost: copy.srcHost,
            srcDevice: copy.srcDevice,
            srcArray: copy.srcArray,
            reserved0: std::ptr::null_mut(),
            srcPitch: copy.srcPitch,
            srcHeight: 0,
            dstXInBytes: copy.dstXInBytes,
            dstY: copy.dstY,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: copy.dstMemoryType,
            dstHost: copy.dstHost,
            dstDevice: copy.dstDevice,
            dstArray: copy.dstArray,
            reserved1: std::ptr::null_mut(),
            dstPitch: copy.dstPitch,
            dstHeight: 0,
            WidthInBytes: copy.WidthInBytes,
            Height: copy.Height,
            Depth: 1,
        };
        self.copy_3d(stream, &all, mode)
    }

    /// Fails with `INVALID_VALUE` if a side of type `DEVICE` is in page-locked memory of a pool.
    fn sides_are_device(&self, sides: [(CUmemorytype, CUdeviceptr); 2]) -> Status {
        let is_wrong = |(kind, addr): (CUmemorytype, CUdeviceptr)| {
            kind == CUmemorytype::CU_MEMORYTYPE_DEVICE && self.is_in_host_pool(addr)
        };
        if sides.into_iter().any(is_wrong) {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    fn memcpy_2d(&self, copy: In<CUDA_MEMCPY2D>) -> Status {
        self.copy_2d(0, copy, Mode::Blocking)
    }

    fn memcpy_2d_async(&self, copy: In<CUDA_MEMCPY2D>, stream: Out<CUstream_st>) -> Status {
        self.copy_2d(stream.handle(), copy, Mode::Queued)
    }

    pub(in crate::driver) fn copy_3d(
        &self,
        stream: u64,
        copy: &CUDA_MEMCPY3D,
        mode: Mode,
    ) -> Status {
        let stream = self.stream(stream)?;
        let transfer = Transfer::new(&self.spaces(), copy)?;
        self.sides_are_device([
            (copy.srcMemoryType, copy.srcDevice),
            (copy.dstMemoryType, copy.dstDevice),
        ])?;
        let Transfer { dst, src, extent } = transfer;
        if mode == Mode::Queued && !transfer.is_empty() {
            let range = |side: Side| Ok((side.addr, side.span(extent)?));
            self.current_reaches([range(dst)?, range(src)?])?;
        }
        self.copy(&stream, dst, src, extent, mode)
    }

    fn memcpy_3d(&self, copy: In<CUDA_MEMCPY3D>) -> Status {
        self.copy_3d(0, &copy.get()?, Mode::Blocking)
    }

    fn memcpy_3d_async(&self, copy: In<CUDA_MEMCPY3D>, stream: Out<CUstream_st>) -> Status {
        self.copy_3d(stream.handle(), &copy.get()?, Mode::Queued)
    }

    /// Copies between the contexts that `copy` names. The current context does not matter.
    fn copy_3d_peer(&self, stream: u64, copy: In<CUDA_MEMCPY3D_PEER>, mode: Mode) -> Status {
        let stream = self.stream(stream)?;
        let copy = self.without_contexts(copy)?;
        let Transfer { dst, src, extent } = Transfer::new(&self.spaces(), &copy)?;
        self.sides_are_device([
            (copy.srcMemoryType, copy.srcDevice),
            (copy.dstMemoryType, copy.dstDevice),
        ])?;
        self.copy(&stream, dst, src, extent, mode)
    }

    fn memcpy_3d_peer(&self, copy: In<CUDA_MEMCPY3D_PEER>) -> Status {
        self.copy_3d_peer(0, copy, Mode::Blocking)
    }

    fn memcpy_3d_peer_async(
        &self,
        copy: In<CUDA_MEMCPY3D_PEER>,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.copy_3d_peer(stream.handle(), copy, Mode::Queued)
    }

    /// Converts a peer copy to a plain copy, which is the same with unified addresses.
    fn without_contexts(&self, copy: In<CUDA_MEMCPY3D_PEER>) -> Result<CUDA_MEMCPY3D, CUresult> {
        let copy = copy.get()?;
        for context in [copy.srcContext, copy.dstContext] {
            if !context.is_null() {
                self.contexts
                    .get(context.addr() as u64)
                    .ok_or(INVALID_CONTEXT)?;
            }
        }
        Ok(CUDA_MEMCPY3D {
            srcXInBytes: copy.srcXInBytes,
            srcY: copy.srcY,
            srcZ: copy.srcZ,
            srcLOD: copy.srcLOD,
            srcMemoryType: copy.srcMemoryType,
            srcHost: copy.srcHost,
            srcDevice: copy.srcDevice,
            srcArray: copy.srcArray,
            reserved0: std::ptr::null_mut(),
            srcPitch: copy.srcPitch,
            srcHeight: copy.srcHeight,
            dstXInBytes: copy.dstXInBytes,
            dstY: copy.dstY,
            dstZ: copy.dstZ,
            dstLOD: copy.dstLOD,
            dstMemoryType: copy.dstMemoryType,
            dstHost: copy.dstHost,
            dstDevice: copy.dstDevice,
            dstArray: copy.dstArray,
            reserved1: std::ptr::null_mut(),
            dstPitch: copy.dstPitch,
            dstHeight: copy.dstHeight,
            WidthInBytes: copy.WidthInBytes,
            Height: copy.Height,
            Depth: copy.Depth,
        })
    }
}
