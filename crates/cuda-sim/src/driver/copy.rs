//! Copies between any two places, in one, two and three dimensions.
//!
//! Addresses are unified: where one lies decides what it is. Synchronisation is as the driver documents it: a
//! blocking copy that involves the host returns when it is done; one between device addresses is only queued; an
//! asynchronous copy from pageable memory has read its source when it returns (unless the builder said
//! `late_pageable_copies`), and one to pageable memory is done when it returns.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUcontext, CUctx_st, CUdeviceptr,
    CUmemorytype, CUresult, CUstream, CUstream_st,
};

use super::arg::{In, Out};
use super::export::{Call, exports};
use super::instance::Instance;
use super::space::Spaces;
use super::status::{ILLEGAL_ADDRESS, INVALID_CONTEXT, INVALID_VALUE, NOT_SUPPORTED, Status};
use super::stream::{Lost, Stream};

exports! {
    cuMemcpy | cuMemcpy_ptds => memcpy(dst: CUdeviceptr, src: CUdeviceptr, size: usize);
    cuMemcpyAsync | cuMemcpyAsync_ptsz => memcpy_async(
        dst: CUdeviceptr, src: CUdeviceptr, size: usize, stream: CUstream);
    cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds => memcpy_h_to_d(
        dst: CUdeviceptr, src: *const c_void, size: usize);
    cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz => memcpy_h_to_d_async(
        dst: CUdeviceptr, src: *const c_void, size: usize, stream: CUstream);
    cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds => memcpy_d_to_h(
        dst: *mut c_void, src: CUdeviceptr, size: usize);
    cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz => memcpy_d_to_h_async(
        dst: *mut c_void, src: CUdeviceptr, size: usize, stream: CUstream);
    cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds => memcpy_d_to_d(
        dst: CUdeviceptr, src: CUdeviceptr, size: usize);
    cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz => memcpy_d_to_d_async(
        dst: CUdeviceptr, src: CUdeviceptr, size: usize, stream: CUstream);
    cuMemcpyPeer | cuMemcpyPeer_ptds => memcpy_peer(
        dst: CUdeviceptr, dst_ctx: CUcontext, src: CUdeviceptr, src_ctx: CUcontext, size: usize);
    cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz => memcpy_peer_async(
        dst: CUdeviceptr, dst_ctx: CUcontext, src: CUdeviceptr, src_ctx: CUcontext, size: usize,
        stream: CUstream);
    cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds | cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds
        => memcpy_2d(copy: *const CUDA_MEMCPY2D);
    cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz => memcpy_2d_async(
        copy: *const CUDA_MEMCPY2D, stream: CUstream);
    cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds => memcpy_3d(copy: *const CUDA_MEMCPY3D);
    cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz => memcpy_3d_async(
        copy: *const CUDA_MEMCPY3D, stream: CUstream);
    cuMemcpy3DPeer | cuMemcpy3DPeer_ptds => memcpy_3d_peer(copy: *const CUDA_MEMCPY3D_PEER);
    cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz => memcpy_3d_peer_async(
        copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream);
}

/// One side of a copy.
#[derive(Clone, Copy, Debug)]
struct Side {
    addr: u64,
    /// Bytes from row to row, and from slice to slice.
    pitch: u64,
    slice: u64,
}

/// How much is copied: bytes, rows, slices.
#[derive(Clone, Copy, Debug)]
struct Extent {
    width: u64,
    height: u64,
    depth: u64,
}

impl Extent {
    fn rows(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.depth).flat_map(move |z| (0..self.height).map(move |y| (y, z)))
    }

    fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }
}

impl Side {
    fn linear(addr: u64) -> Self {
        Self {
            addr,
            pitch: 0,
            slice: 0,
        }
    }

    fn row(self, y: u64, z: u64) -> u64 {
        self.addr + y * self.pitch + z * self.slice
    }

    /// The bytes from the first to the last that is touched; `INVALID_VALUE` on overflow.
    fn span(self, extent: Extent) -> Status<u64> {
        let rows = self.pitch.checked_mul(extent.height - 1);
        let slices = self.slice.checked_mul(extent.depth - 1);
        rows.zip(slices)
            .and_then(|(rows, slices)| rows.checked_add(slices)?.checked_add(extent.width))
            .filter(|&span| self.addr.checked_add(span).is_some())
            .ok_or(INVALID_VALUE)
    }
}

/// Whether the host waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Blocking,
    Queued,
}

/// Copies row by row; an address that is gone by now stops the device.
fn transfer(spaces: &Spaces, dst: Side, src: Side, extent: Extent) -> Result<(), Lost> {
    let gone = |error: String| (ILLEGAL_ADDRESS, format!("copy: {error}"));
    for (y, z) in extent.rows() {
        spaces
            .copy(dst.row(y, z), src.row(y, z), extent.width)
            .map_err(gone)?;
    }
    Ok(())
}

impl Instance {
    fn copy(&self, stream: &Stream, dst: Side, src: Side, extent: Extent, mode: Mode) -> Status {
        if extent.is_empty() {
            return Ok(());
        }
        let (dst_span, src_span) = (dst.span(extent)?, src.span(extent)?);
        let spaces = self.spaces();
        let dst_known = spaces.check(dst.addr, dst_span)?;
        let src_known = spaces.check(src.addr, src_span)?;
        let late = self.config.late_pageable;
        let wait = match mode {
            Mode::Blocking => !(spaces.is_device(dst.addr) && spaces.is_device(src.addr)),
            Mode::Queued => !dst_known && !late,
        };
        if wait {
            return self.run(stream, move || transfer(&spaces, dst, src, extent));
        }
        if src_known || late {
            self.enqueue(stream, &[], move || transfer(&spaces, dst, src, extent));
            return Ok(());
        }
        // Pageable source: read now, written in its turn.
        let mut rows: Vec<u8> = Vec::new();
        for (y, z) in extent.rows() {
            rows.extend(spaces.read(src.row(y, z), extent.width));
        }
        self.enqueue(stream, &[], move || {
            let staged = Side {
                addr: rows.as_ptr().expose_provenance() as u64,
                pitch: extent.width,
                slice: extent.width * extent.height,
            };
            transfer(&spaces, dst, staged, extent)
        });
        Ok(())
    }

    pub(super) fn spaces(&self) -> Spaces {
        Spaces::new(Arc::clone(&self.devices))
    }
}

/// Where a side of a 2D or 3D copy is.
fn place(
    sort: CUmemorytype,
    host: *const c_void,
    device: CUdeviceptr,
    spaces: &Spaces,
) -> Status<u64> {
    match sort {
        CUmemorytype::CU_MEMORYTYPE_HOST => Ok(host.expose_provenance() as u64),
        CUmemorytype::CU_MEMORYTYPE_UNIFIED => Ok(device),
        CUmemorytype::CU_MEMORYTYPE_DEVICE if spaces.is_known(device) => Ok(device),
        CUmemorytype::CU_MEMORYTYPE_ARRAY => Err(NOT_SUPPORTED),
        _ => Err(INVALID_VALUE),
    }
}

/// The offset of the first byte, and the steps, of a side.
fn offset(base: u64, [x, y, z]: [usize; 3], pitch: usize, height: usize) -> Status<Side> {
    let pitch = pitch as u64;
    let slice = pitch.checked_mul(height as u64).ok_or(INVALID_VALUE)?;
    let row = (y as u64).checked_mul(pitch);
    let plane = (z as u64).checked_mul(slice);
    let addr = row
        .zip(plane)
        .and_then(|(row, plane)| {
            base.checked_add(row)?
                .checked_add(plane)?
                .checked_add(x as u64)
        })
        .ok_or(INVALID_VALUE)?;
    Ok(Side { addr, pitch, slice })
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

    /// `INVALID_VALUE` unless the address is the device's.
    fn must_be_known(&self, addr: u64, size: usize) -> Status {
        if size == 0 || self.spaces().is_known(addr) {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
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
        self.linear(stream.handle(), dst, src, size, Mode::Queued)
    }

    fn memcpy_h_to_d(&self, dst: CUdeviceptr, src: In<c_void>, size: usize) -> Status {
        self.must_be_known(dst, size)?;
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
        self.must_be_known(dst, size)?;
        let src = src.raw().expose_provenance() as u64;
        self.linear(stream.handle(), dst, src, size, Mode::Queued)
    }

    fn memcpy_d_to_h(&self, dst: Out<c_void>, src: CUdeviceptr, size: usize) -> Status {
        self.must_be_known(src, size)?;
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
        self.must_be_known(src, size)?;
        let dst = dst.raw().expose_provenance() as u64;
        self.linear(stream.handle(), dst, src, size, Mode::Queued)
    }

    fn memcpy_d_to_d(&self, dst: CUdeviceptr, src: CUdeviceptr, size: usize) -> Status {
        self.must_be_known(dst, size)?;
        self.must_be_known(src, size)?;
        self.linear(0, dst, src, size, Mode::Blocking)
    }

    fn memcpy_d_to_d_async(
        &self,
        dst: CUdeviceptr,
        src: CUdeviceptr,
        size: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.must_be_known(dst, size)?;
        self.must_be_known(src, size)?;
        self.linear(stream.handle(), dst, src, size, Mode::Queued)
    }

    fn contexts_exist(&self, contexts: [u64; 2]) -> Status {
        for handle in contexts {
            self.contexts
                .get(handle)
                .ok_or(INVALID_CONTEXT)?
                .device
                .alive()?;
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
        self.memcpy_d_to_d_async(dst, src, size, stream)
    }

    fn copy_2d(&self, stream: u64, copy: In<CUDA_MEMCPY2D>, mode: Mode) -> Status {
        let copy = copy.get()?;
        let stream = self.stream(stream)?;
        let spaces = self.spaces();
        let src = place(copy.srcMemoryType, copy.srcHost, copy.srcDevice, &spaces)?;
        let dst = place(copy.dstMemoryType, copy.dstHost, copy.dstDevice, &spaces)?;
        let pitch = |pitch: usize| if pitch == 0 { copy.WidthInBytes } else { pitch };
        let (src_pitch, dst_pitch) = (pitch(copy.srcPitch), pitch(copy.dstPitch));
        if copy.Height > 1 && (src_pitch < copy.WidthInBytes || dst_pitch < copy.WidthInBytes) {
            return Err(INVALID_VALUE);
        }
        let src = offset(src, [copy.srcXInBytes, copy.srcY, 0], src_pitch, 0)?;
        let dst = offset(dst, [copy.dstXInBytes, copy.dstY, 0], dst_pitch, 0)?;
        let (width, height) = (copy.WidthInBytes as u64, copy.Height as u64);
        self.copy(
            &stream,
            dst,
            src,
            Extent {
                width,
                height,
                depth: 1,
            },
            mode,
        )
    }

    fn memcpy_2d(&self, copy: In<CUDA_MEMCPY2D>) -> Status {
        self.copy_2d(0, copy, Mode::Blocking)
    }

    fn memcpy_2d_async(&self, copy: In<CUDA_MEMCPY2D>, stream: Out<CUstream_st>) -> Status {
        self.copy_2d(stream.handle(), copy, Mode::Queued)
    }

    fn copy_3d(&self, stream: u64, copy: &CUDA_MEMCPY3D, mode: Mode) -> Status {
        let stream = self.stream(stream)?;
        if copy.srcLOD != 0 || copy.dstLOD != 0 {
            return Err(INVALID_VALUE);
        }
        let spaces = self.spaces();
        let src = place(copy.srcMemoryType, copy.srcHost, copy.srcDevice, &spaces)?;
        let dst = place(copy.dstMemoryType, copy.dstHost, copy.dstDevice, &spaces)?;
        let or = |value: usize, default: usize| if value == 0 { default } else { value };
        let src_pitch = or(copy.srcPitch, copy.WidthInBytes);
        let dst_pitch = or(copy.dstPitch, copy.WidthInBytes);
        let src_height = or(copy.srcHeight, copy.Height);
        let dst_height = or(copy.dstHeight, copy.Height);
        let rows_fit = src_pitch.min(dst_pitch) >= copy.WidthInBytes || copy.Height <= 1;
        let planes_fit = src_height.min(dst_height) >= copy.Height || copy.Depth <= 1;
        if !rows_fit || !planes_fit {
            return Err(INVALID_VALUE);
        }
        let at = [copy.srcXInBytes, copy.srcY, copy.srcZ];
        let src = offset(src, at, src_pitch, src_height)?;
        let at = [copy.dstXInBytes, copy.dstY, copy.dstZ];
        let dst = offset(dst, at, dst_pitch, dst_height)?;
        let extent = Extent {
            width: copy.WidthInBytes as u64,
            height: copy.Height as u64,
            depth: copy.Depth as u64,
        };
        self.copy(&stream, dst, src, extent, mode)
    }

    fn memcpy_3d(&self, copy: In<CUDA_MEMCPY3D>) -> Status {
        self.copy_3d(0, &copy.get()?, Mode::Blocking)
    }

    fn memcpy_3d_async(&self, copy: In<CUDA_MEMCPY3D>, stream: Out<CUstream_st>) -> Status {
        self.copy_3d(stream.handle(), &copy.get()?, Mode::Queued)
    }

    fn memcpy_3d_peer(&self, copy: In<CUDA_MEMCPY3D_PEER>) -> Status {
        self.copy_3d(0, &self.without_contexts(copy)?, Mode::Blocking)
    }

    fn memcpy_3d_peer_async(
        &self,
        copy: In<CUDA_MEMCPY3D_PEER>,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.copy_3d(stream.handle(), &self.without_contexts(copy)?, Mode::Queued)
    }

    /// With unified addresses a peer copy is a copy.
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
