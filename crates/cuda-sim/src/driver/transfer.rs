//! What a copy is: two sides and an extent.

use std::ffi::c_void;

use cuda_sys::{CUDA_MEMCPY3D, CUdeviceptr, CUmemorytype};

use super::space::Spaces;
use super::status::{ILLEGAL_ADDRESS, INVALID_VALUE, NOT_SUPPORTED, Status};
use super::stream::Lost;

/// One side of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) addr: u64,
    /// Bytes from row to row, and from slice to slice.
    pub(super) pitch: u64,
    pub(super) slice: u64,
}

/// How much is copied: bytes, rows, slices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) depth: u64,
}

impl Extent {
    pub(super) fn rows(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.depth).flat_map(move |z| (0..self.height).map(move |y| (y, z)))
    }

    fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }
}

impl Side {
    pub(super) fn linear(addr: u64) -> Self {
        Self {
            addr,
            pitch: 0,
            slice: 0,
        }
    }

    pub(super) fn row(self, y: u64, z: u64) -> u64 {
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

/// A copy: from where, to where, how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) dst: Side,
    pub(super) src: Side,
    pub(super) extent: Extent,
}

impl Transfer {
    /// What a 3D copy does; `INVALID_VALUE` for what the driver refuses.
    pub(super) fn new(spaces: &Spaces, copy: &CUDA_MEMCPY3D) -> Status<Self> {
        if copy.srcLOD != 0 || copy.dstLOD != 0 {
            return Err(INVALID_VALUE);
        }
        let src = place(copy.srcMemoryType, copy.srcHost, copy.srcDevice, spaces)?;
        let dst = place(copy.dstMemoryType, copy.dstHost, copy.dstDevice, spaces)?;
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
        Ok(Self { dst, src, extent })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extent.is_empty()
    }

    /// Whether it is one row.
    pub(super) fn is_linear(&self) -> bool {
        self.extent.height == 1 && self.extent.depth == 1
    }

    /// Whether each side is known to the devices; `INVALID_VALUE` if what is theirs is not live. It is not empty.
    pub(super) fn check(&self, spaces: &Spaces) -> Status<(bool, bool)> {
        let (dst, src) = (self.dst.span(self.extent)?, self.src.span(self.extent)?);
        Ok((
            spaces.check(self.dst.addr, dst)?,
            spaces.check(self.src.addr, src)?,
        ))
    }

    /// Which sides are memory of a device: destination, source.
    pub(super) fn is_device(&self, spaces: &Spaces) -> (bool, bool) {
        (
            spaces.is_device(self.dst.addr),
            spaces.is_device(self.src.addr),
        )
    }

    /// As C says it.
    pub(super) fn params(&self, spaces: &Spaces) -> CUDA_MEMCPY3D {
        let sort = |addr| {
            if spaces.is_device(addr) {
                CUmemorytype::CU_MEMORYTYPE_DEVICE
            } else {
                CUmemorytype::CU_MEMORYTYPE_HOST
            }
        };
        let height = |side: Side| side.slice.checked_div(side.pitch).unwrap_or(0) as usize;
        let host = |addr: u64| std::ptr::with_exposed_provenance_mut::<c_void>(addr as usize);
        let (dst, src, extent) = (self.dst, self.src, self.extent);
        CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: sort(src.addr),
            srcHost: host(src.addr).cast_const(),
            srcDevice: src.addr,
            srcArray: std::ptr::null_mut(),
            reserved0: std::ptr::null_mut(),
            srcPitch: src.pitch as usize,
            srcHeight: height(src),
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: sort(dst.addr),
            dstHost: host(dst.addr),
            dstDevice: dst.addr,
            dstArray: std::ptr::null_mut(),
            reserved1: std::ptr::null_mut(),
            dstPitch: dst.pitch as usize,
            dstHeight: height(dst),
            WidthInBytes: extent.width as usize,
            Height: extent.height as usize,
            Depth: extent.depth as usize,
        }
    }

    /// Copies row by row; an address that is gone by now stops the device.
    pub(super) fn run(&self, spaces: &Spaces) -> Result<(), Lost> {
        transfer(spaces, self.dst, self.src, self.extent)
    }
}

/// Copies row by row; an address that is gone by now stops the device.
pub(super) fn transfer(spaces: &Spaces, dst: Side, src: Side, extent: Extent) -> Result<(), Lost> {
    let gone = |error: String| (ILLEGAL_ADDRESS, format!("copy: {error}"));
    for (y, z) in extent.rows() {
        spaces
            .copy(dst.row(y, z), src.row(y, z), extent.width)
            .map_err(gone)?;
    }
    Ok(())
}

/// Where a side of a 2D or 3D copy is.
pub(super) fn place(
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
pub(super) fn offset(
    base: u64,
    [x, y, z]: [usize; 3],
    pitch: usize,
    height: usize,
) -> Status<Side> {
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
