//! The description of a copy: two sides and an extent.

use std::ffi::c_void;

use cuda_sys::{CUDA_MEMCPY3D, CUarray, CUdeviceptr, CUmemorytype};

use crate::driver::handle::pointer;
use crate::driver::objects::space::Spaces;
use crate::driver::objects::stream::DeviceFault;
use crate::driver::status::{INVALID_VALUE, Status};

/// Specifies whether the host waits for the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Mode {
    Blocking,
    Queued,
}

/// One side of a copy.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Side {
    pub(in crate::driver) addr: u64,
    /// The distance in bytes between rows; `slice` is the distance between slices.
    pub(in crate::driver) pitch: u64,
    pub(in crate::driver) slice: u64,
    /// The handle of the array, if there is one, and the position in it: bytes, rows, planes.
    pub(in crate::driver) array: Option<(u64, [usize; 3])>,
    /// Whether the devices knew the address when the copy was requested. An unknown address is
    /// pageable host memory.
    pub(in crate::driver) is_known: bool,
}

/// The size of a copy: bytes, rows, slices.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Extent {
    pub(in crate::driver) width: u64,
    pub(in crate::driver) height: u64,
    pub(in crate::driver) depth: u64,
}

impl Extent {
    pub(in crate::driver) fn rows(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.depth).flat_map(move |z| (0..self.height).map(move |y| (y, z)))
    }

    fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }
}

impl Side {
    pub(in crate::driver) fn linear(addr: u64) -> Self {
        Self {
            addr,
            pitch: 0,
            slice: 0,
            array: None,
            is_known: false,
        }
    }

    /// Returns the side of bytes that were read in the order of their rows. They must stay alive
    /// until the copy has run.
    pub(in crate::driver) fn staged(bytes: &[u8], extent: Extent) -> Self {
        Self {
            addr: bytes.as_ptr().expose_provenance() as u64,
            pitch: extent.width,
            slice: extent.width * extent.height,
            array: None,
            is_known: false,
        }
    }

    /// Returns the side of a region of an array: the position and the extent are in bytes, rows and
    /// planes. Fails with `INVALID_VALUE` if it is not within the array.
    pub(in crate::driver) fn in_array(
        spaces: &Spaces,
        handle: u64,
        at: [usize; 3],
        extent: [usize; 3],
    ) -> Status<Self> {
        let array = spaces.array(handle).ok_or(INVALID_VALUE)?;
        array.check(at, extent)?;
        let (base, pitch, height) = array.layout();
        let mut side = offset(base, at, pitch, height)?;
        side.array = Some((handle, at));
        Ok(side)
    }

    pub(in crate::driver) fn row(self, y: u64, z: u64) -> u64 {
        self.addr + y * self.pitch + z * self.slice
    }

    fn kind(self, spaces: &Spaces) -> CUmemorytype {
        if self.array.is_some() {
            CUmemorytype::CU_MEMORYTYPE_ARRAY
        } else if spaces.is_device(self.addr) {
            CUmemorytype::CU_MEMORYTYPE_DEVICE
        } else {
            CUmemorytype::CU_MEMORYTYPE_HOST
        }
    }

    /// Returns the side in the form of C.
    fn raw(self, spaces: &Spaces) -> End {
        let kind = self.kind(spaces);
        if let Some((handle, at)) = self.array {
            return End {
                kind,
                host: std::ptr::null(),
                device: 0,
                array: pointer(handle),
                at,
                pitch: 0,
                height: 0,
            };
        }
        End {
            kind,
            host: std::ptr::with_exposed_provenance(self.addr as usize),
            device: self.addr,
            array: std::ptr::null_mut(),
            at: [0; 3],
            pitch: self.pitch as usize,
            height: self.slice.checked_div(self.pitch).unwrap_or(0) as usize,
        }
    }

    /// Returns the number of bytes from the first to the last one that the copy touches. Fails with
    /// `INVALID_VALUE` on overflow. The extent must not be empty.
    pub(in crate::driver) fn span(self, extent: Extent) -> Status<u64> {
        let rows = self.pitch.checked_mul(extent.height - 1);
        let slices = self.slice.checked_mul(extent.depth - 1);
        rows.zip(slices)
            .and_then(|(rows, slices)| rows.checked_add(slices)?.checked_add(extent.width))
            .filter(|&span| self.addr.checked_add(span).is_some())
            .ok_or(INVALID_VALUE)
    }
}

/// A copy: its source, its destination, and its extent.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Transfer {
    pub(in crate::driver) dst: Side,
    pub(in crate::driver) src: Side,
    pub(in crate::driver) extent: Extent,
}

impl Transfer {
    /// Parses the parameters of a 3D copy. Fails with `INVALID_VALUE` for a copy that the driver
    /// rejects.
    pub(in crate::driver) fn new(spaces: &Spaces, copy: &CUDA_MEMCPY3D) -> Status<Self> {
        let extent = [copy.WidthInBytes, copy.Height, copy.Depth];
        let src = End {
            kind: copy.srcMemoryType,
            host: copy.srcHost,
            device: copy.srcDevice,
            array: copy.srcArray,
            at: [copy.srcXInBytes, copy.srcY, copy.srcZ],
            pitch: copy.srcPitch,
            height: copy.srcHeight,
        };
        let dst = End {
            kind: copy.dstMemoryType,
            host: copy.dstHost,
            device: copy.dstDevice,
            array: copy.dstArray,
            at: [copy.dstXInBytes, copy.dstY, copy.dstZ],
            pitch: copy.dstPitch,
            height: copy.dstHeight,
        };
        let (src, dst) = (src.side(spaces, extent)?, dst.side(spaces, extent)?);
        let extent = Extent {
            width: copy.WidthInBytes as u64,
            height: copy.Height as u64,
            depth: copy.Depth as u64,
        };
        Ok(Self { dst, src, extent })
    }

    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.extent.is_empty()
    }

    /// Returns whether it is a single row.
    pub(in crate::driver) fn is_linear(&self) -> bool {
        self.extent.height == 1 && self.extent.depth == 1
    }

    /// Records whether each side is known to the devices. Fails with `INVALID_VALUE` if a side is
    /// device memory that is not live. The copy must not be empty.
    pub(in crate::driver) fn check(&mut self, spaces: &Spaces) -> Status {
        for side in [&mut self.dst, &mut self.src] {
            side.is_known = spaces.check(side.addr, side.span(self.extent)?)?;
        }
        Ok(())
    }

    /// Returns the kind of memory and the owning device of the destination and of the source.
    pub(in crate::driver) fn owners(&self, spaces: &Spaces) -> [(CUmemorytype, Option<usize>); 2] {
        [self.dst, self.src].map(|side| (side.kind(spaces), spaces.owner(side.addr)))
    }

    /// Returns the parameters in the form of C. A side in an array is described only by the array
    /// and the position in it.
    pub(in crate::driver) fn params(&self, spaces: &Spaces) -> CUDA_MEMCPY3D {
        let (dst, src, extent) = (self.dst.raw(spaces), self.src.raw(spaces), self.extent);
        CUDA_MEMCPY3D {
            srcXInBytes: src.at[0],
            srcY: src.at[1],
            srcZ: src.at[2],
            srcLOD: 0,
            srcMemoryType: src.kind,
            srcHost: src.host,
            srcDevice: src.device,
            srcArray: src.array,
            reserved0: std::ptr::null_mut(),
            srcPitch: src.pitch,
            srcHeight: src.height,
            dstXInBytes: dst.at[0],
            dstY: dst.at[1],
            dstZ: dst.at[2],
            dstLOD: 0,
            dstMemoryType: dst.kind,
            dstHost: dst.host.cast_mut(),
            dstDevice: dst.device,
            dstArray: dst.array,
            reserved1: std::ptr::null_mut(),
            dstPitch: dst.pitch,
            dstHeight: dst.height,
            WidthInBytes: extent.width as usize,
            Height: extent.height as usize,
            Depth: extent.depth as usize,
        }
    }

    /// Copies row by row. Fails, and loses the device, if an address is no longer live.
    pub(in crate::driver) fn run(&self, spaces: &Spaces) -> Result<(), DeviceFault> {
        transfer(spaces, self.dst, self.src, self.extent)
    }
}

/// Copies row by row. Fails, and loses the device, if an address is no longer live.
pub(in crate::driver) fn transfer(
    spaces: &Spaces,
    dst: Side,
    src: Side,
    extent: Extent,
) -> Result<(), DeviceFault> {
    for (y, z) in extent.rows() {
        spaces
            .copy(
                (dst.row(y, z), dst.is_known),
                (src.row(y, z), src.is_known),
                extent.width,
            )
            .map_err(|error| spaces.fault("copy", &error))?;
    }
    Ok(())
}

/// A side in the form of C.
struct End {
    kind: CUmemorytype,
    host: *const c_void,
    device: CUdeviceptr,
    array: CUarray,
    at: [usize; 3],
    pitch: usize,
    height: usize,
}

impl End {
    /// Resolves the side to an address. Fails with `INVALID_VALUE` for a side that the driver
    /// rejects.
    fn side(&self, spaces: &Spaces, extent: [usize; 3]) -> Status<Side> {
        if self.kind == CUmemorytype::CU_MEMORYTYPE_ARRAY {
            return Side::in_array(spaces, self.array.addr() as u64, self.at, extent);
        }
        let base = match self.kind {
            CUmemorytype::CU_MEMORYTYPE_HOST => self.host.expose_provenance() as u64,
            CUmemorytype::CU_MEMORYTYPE_UNIFIED => self.device,
            CUmemorytype::CU_MEMORYTYPE_DEVICE if spaces.is_known(self.device) => self.device,
            _ => return Err(INVALID_VALUE),
        };
        let or = |value: usize, default: usize| if value == 0 { default } else { value };
        let [width, rows, planes] = extent;
        let (pitch, height) = (or(self.pitch, width), or(self.height, rows));
        let end = match self.pitch {
            0 => width,
            _ => self.at[0].checked_add(width).ok_or(INVALID_VALUE)?,
        };
        let rows_fit = pitch >= end || rows <= 1;
        let planes_fit = height >= rows || planes <= 1;
        if !rows_fit || !planes_fit {
            return Err(INVALID_VALUE);
        }
        offset(base, self.at, pitch, height)
    }
}

/// Returns the side of a box at `base`. `strides` are the bytes from row to row and the rows from
/// plane to plane, or 0 if there is no padding. Fails with `INVALID_VALUE` if rows or planes
/// overlap.
pub(in crate::driver) fn box_of(
    base: u64,
    [width, rows, planes]: [usize; 3],
    [pitch, height]: [usize; 2],
) -> Status<Side> {
    let or = |value: usize, default: usize| if value == 0 { default } else { value };
    let (pitch, height) = (or(pitch, width), or(height, rows));
    let is_apart = (pitch >= width || rows <= 1) && (height >= rows || planes <= 1);
    if is_apart {
        offset(base, [0; 3], pitch, height)
    } else {
        Err(INVALID_VALUE)
    }
}

/// Returns a side with the address of the first byte, its pitch, and its slice size.
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
    Ok(Side {
        addr,
        pitch,
        slice,
        array: None,
        is_known: false,
    })
}
