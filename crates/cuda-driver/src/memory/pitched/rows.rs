//! Rows of bytes on the device, and the driver calls that copy them.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use cuda_sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray, CUarray_st, CUdeviceptr, CUmemorytype};

use crate::driver::call;
use crate::error::DriverError;
use crate::observer::Work;
use crate::stream::Stream;
use crate::types::{SendPtr, WorkKind};

/// A box of bytes on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) address: CUdeviceptr,
    /// The distance in bytes between the starts of consecutive rows.
    pub(crate) pitch: usize,
    /// The distance in rows between the starts of consecutive planes.
    pub(crate) plane: usize,
    /// The number of bytes in a row.
    pub(crate) width: usize,
    /// The number of rows in a plane.
    pub(crate) height: usize,
    /// The number of planes.
    pub(crate) depth: usize,
}

/// A box of bytes in an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayBox {
    pub(crate) array: SendPtr<CUarray_st>,
    /// The number of the array, for accesses.
    pub(crate) number: CUdeviceptr,
    /// The first byte of each row.
    pub(crate) x: usize,
    /// The first row of each plane.
    pub(crate) y: usize,
    /// The first plane or layer.
    pub(crate) z: usize,
    /// The number of bytes in a row.
    pub(crate) width: usize,
    /// The number of rows in a plane.
    pub(crate) height: usize,
    /// The number of planes or layers.
    pub(crate) depth: usize,
}

/// One side of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Device(Rows),
    /// Contiguous rows on the host.
    Host(*mut c_void),
    Array(ArrayBox),
}

/// Whole rows of a box, found by [`boxes`].
pub(super) struct Part {
    /// The offset of the first byte among the bytes to split.
    pub(super) offset: usize,
    pub(super) y: usize,
    pub(super) z: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

/// Splits the byte range `piece` of a box, whose planes have `height` rows of `width` bytes. The
/// range consists of whole rows. The parts are, in order, the rest of a plane, whole planes, and
/// the first rows of a plane.
pub(super) fn boxes(
    width: usize,
    height: usize,
    piece: Range<usize>,
) -> impl Iterator<Item = Part> {
    let mut at = piece.start / width;
    let end = piece.end / width;
    std::iter::from_fn(move || {
        let (y, z) = (at % height, at / height);
        let left = end.saturating_sub(at);
        if left == 0 {
            return None;
        }
        let (rows, depth) = if y == 0 && left >= height {
            (height, left / height)
        } else {
            (left.min(height - y), 1)
        };
        let offset = at * width - piece.start;
        at += rows * depth;
        Some(Part {
            offset,
            y,
            z,
            height: rows,
            depth,
        })
    })
}

impl Rows {
    /// Describes a contiguous range, with an even number of bytes, as two rows.
    pub(crate) fn halves(address: CUdeviceptr, bytes: usize) -> Self {
        let width = bytes / 2;
        Self {
            address,
            pitch: width,
            plane: 2,
            width,
            height: 2,
            depth: 1,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// Returns the number of bytes from the first byte to the last, with the padding between rows.
    pub(crate) fn span_bytes(&self) -> usize {
        if self.bytes() == 0 {
            return 0;
        }
        ((self.depth - 1) * self.plane + self.height - 1) * self.pitch + self.width
    }

    /// Returns `true` if the rows are contiguous.
    pub(crate) fn is_linear(&self) -> bool {
        let rows = self.pitch == self.width || self.height * self.depth == 1;
        rows && (self.plane == self.height || self.depth == 1)
    }

    /// Returns the address of row `y` of plane `z`.
    pub(crate) fn row(&self, y: usize, z: usize) -> CUdeviceptr {
        // A box with elements is within an allocation. The address of an empty box may wrap: it is
        // never dereferenced.
        let rows = z.wrapping_mul(self.plane).wrapping_add(y);
        let offset = rows.wrapping_mul(self.pitch) as CUdeviceptr;
        self.address.wrapping_add(offset)
    }

    /// Splits the byte range `piece`, which consists of whole rows, into boxes, and yields each box
    /// with its offset in `piece`. The boxes are, in order, the rest of a plane, whole planes, and
    /// the first rows of a plane.
    pub(crate) fn boxes(&self, piece: Range<usize>) -> impl Iterator<Item = (usize, Self)> {
        let this = *self;
        boxes(self.width, self.height, piece).map(move |part| {
            let rows = Self {
                address: this.row(part.y, part.z),
                height: part.height,
                depth: part.depth,
                ..this
            };
            (part.offset, rows)
        })
    }
}

/// One side of a copy in the form of the driver's structs.
struct Place {
    kind: CUmemorytype,
    host: *mut c_void,
    device: CUdeviceptr,
    array: CUarray,
    /// The position in an array.
    at: [usize; 3],
}

impl Side {
    fn place(self) -> Place {
        let nothing = Place {
            kind: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            host: ptr::null_mut(),
            device: 0,
            array: ptr::null_mut(),
            at: [0; 3],
        };
        match self {
            Self::Device(rows) => Place {
                device: rows.address,
                ..nothing
            },
            Self::Host(start) => Place {
                kind: CUmemorytype::CU_MEMORYTYPE_HOST,
                host: start,
                ..nothing
            },
            Self::Array(part) => Place {
                kind: CUmemorytype::CU_MEMORYTYPE_ARRAY,
                array: part.array.0,
                at: [part.x, part.y, part.z],
                ..nothing
            },
        }
    }

    /// Returns the distance between rows in bytes, and the distance between planes in rows, for a
    /// copy with the extent of `rows`. An array needs neither.
    fn steps(self, rows: &Rows) -> (usize, usize) {
        match self {
            Self::Device(own) => (own.pitch, own.plane),
            Self::Host(_) => (rows.width, rows.height),
            Self::Array(_) => (0, 0),
        }
    }

    fn is_array(self) -> bool {
        matches!(self, Self::Array(_))
    }
}

/// `cuMemcpy2DAsync_v2()` or `cuMemcpy3DAsync_v2()`—Queues a copy of a box with the width, height
/// and depth of `extent`.
///
/// # Safety
///
/// Both sides hold the bytes until the copy has completed, and do not overlap. No conflicting use
/// of the device memory runs at the same time.
pub(crate) unsafe fn queue(
    stream: &Stream,
    to: Side,
    from: Side,
    extent: &Rows,
) -> Result<(), DriverError> {
    let _current = stream.bind_for_copy()?;
    let kind = match (to, from) {
        (Side::Host(_), _) => WorkKind::CopyToHost,
        (_, Side::Host(_)) => WorkKind::CopyToDevice,
        (_, _) => WorkKind::CopyOnDevice,
    };
    let work = Work::of_kind(kind, extent.width * extent.height * extent.depth);
    let (source, destination) = (from.place(), to.place());
    let (src_pitch, _) = from.steps(extent);
    let (dst_pitch, _) = to.steps(extent);
    // Only a three-dimensional copy reaches all planes and layers of an array.
    if extent.depth == 1 && !to.is_array() && !from.is_array() {
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: source.kind,
            srcHost: source.host,
            srcDevice: source.device,
            srcArray: ptr::null_mut(),
            srcPitch: src_pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: destination.kind,
            dstHost: destination.host,
            dstDevice: destination.device,
            dstArray: ptr::null_mut(),
            dstPitch: dst_pitch,
            WidthInBytes: extent.width,
            Height: extent.height,
        };
        return stream.observed(work, || {
            // SAFETY: both sides must hold the rows until the copy has completed ← the caller
            // guarantees it; the driver reads the struct during the call.
            unsafe {
                call!(
                    stream.driver(),
                    cuMemcpy2DAsync_v2(&raw const copy, stream.as_raw())
                )
            }
        });
    }
    let copy = copy_of(to, from, extent);
    stream.observed(work, || {
        // SAFETY: as above.
        unsafe {
            call!(
                stream.driver(),
                cuMemcpy3DAsync_v2(&raw const copy, stream.as_raw())
            )
        }
    })
}

/// Returns the driver's description of a copy of a box with the width, height and depth of
/// `extent`.
pub(crate) fn copy_of(to: Side, from: Side, extent: &Rows) -> CUDA_MEMCPY3D {
    let (source, destination) = (from.place(), to.place());
    let (src_pitch, src_height) = from.steps(extent);
    let (dst_pitch, dst_height) = to.steps(extent);
    CUDA_MEMCPY3D {
        srcXInBytes: source.at[0],
        srcY: source.at[1],
        srcZ: source.at[2],
        srcLOD: 0,
        srcMemoryType: source.kind,
        srcHost: source.host,
        srcDevice: source.device,
        srcArray: source.array,
        reserved0: ptr::null_mut(),
        srcPitch: src_pitch,
        srcHeight: src_height,
        dstXInBytes: destination.at[0],
        dstY: destination.at[1],
        dstZ: destination.at[2],
        dstLOD: 0,
        dstMemoryType: destination.kind,
        dstHost: destination.host,
        dstDevice: destination.device,
        dstArray: destination.array,
        reserved1: ptr::null_mut(),
        dstPitch: dst_pitch,
        dstHeight: dst_height,
        WidthInBytes: extent.width,
        Height: extent.height,
        Depth: extent.depth,
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn boxes_are_the_rows_of_a_piece_in_order() {
        let rows = Rows {
            address: 1000,
            pitch: 64,
            plane: 7,
            width: 10,
            height: 5,
            depth: 4,
        };
        for start in 0..20 {
            for end in start..=20 {
                let mut seen = Vec::new();
                for (offset, part) in rows.boxes(start * 10..end * 10) {
                    assert_eq!(offset, seen.len() * 10);
                    for z in 0..part.depth {
                        seen.extend((0..part.height).map(|y| part.row(y, z)));
                    }
                }
                let want: Vec<u64> = (start..end)
                    .map(|row| 1000 + (row / 5 * 7 + row % 5) as u64 * 64)
                    .collect();
                assert_eq!(seen, want, "{start}..{end}");
            }
        }
    }
}
