//! Fills of boxes of device memory (`cuMemsetD2D8Async` and related calls).
//!
//! C fills rows with a number of 1, 2 or 4 bytes. Here one method fills a box of any number of
//! planes with a value of any type.

use cuda_sys::CUdeviceptr;

use super::rows::{Rows, Side, queue};
use super::{PitchedBuffer, PitchedSliceMut};
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::memory::fill::{fill_range, repeated};
use crate::memory::recorder::Part;
use crate::memory::{DeviceRepr, Memory};
use crate::observer::Work;
use crate::stream::Stream;
use crate::types::WorkKind;

/// Fills.
///
/// ```
/// use cuda_driver::memory::PitchedBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut image = PitchedBuffer::<u32>::zeroed(&stream, (4, 3))?;
/// image.region_mut(1..3, 1..2, ..)?.fill(7)?;
/// assert_eq!(image.to_vec()?, [0, 0, 0, 0, 0, 7, 7, 0, 0, 0, 0, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: DeviceRepr> PitchedSliceMut<'_, T> {
    /// `cuMemsetD2D8Async(value)`, `cuMemsetD2D16Async`, `cuMemsetD2D32Async`—Queues a fill of all
    /// elements with `value`, on the owning stream.
    ///
    /// The fill is one call for each plane if the bytes of `value` repeat with a period of 1, 2 or
    /// 4 bytes, as the bytes of every number of up to 32 bits do. Otherwise the first row is filled
    /// and then copied over the remaining rows; each copy doubles the part that is filled.
    #[doc(alias = "cuMemsetD2D8Async")]
    #[doc(alias = "cuMemsetD2D16Async")]
    #[doc(alias = "cuMemsetD2D32Async")]
    #[doc(alias = "cudaMemset2DAsync")]
    #[doc(alias = "cudaMemset3DAsync")]
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.fill_on(value, self.memory.owning_stream())
    }

    /// `cuMemsetD2D8Async(value, stream)` and related calls—Queues a fill of all elements with
    /// `value` on `stream`, as [`fill`](Self::fill) does on the owning stream.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream belongs to another
    /// context.
    #[doc(alias = "cuMemsetD2D8Async")]
    #[doc(alias = "cuMemsetD2D16Async")]
    #[doc(alias = "cuMemsetD2D32Async")]
    pub fn fill_on(&mut self, value: T, stream: &Stream) -> Result<()> {
        let (rows, value) = (self.rows, bytemuck::bytes_of(&value));
        if rows.bytes() == 0 {
            return Ok(());
        }
        let part = Part {
            memory: self.memory,
            access: self.access,
            address: rows.address,
            bytes: rows.span_bytes(),
        };
        Memory::queue_all(stream, "PitchedSliceMut::fill", [part], |stream| {
            if rows.is_linear() {
                // SAFETY: the range must be writable by this thread alone ← it is the range of a
                // mutable view, whose rows are contiguous.
                return unsafe { fill_range(stream, rows.address, value, rows.bytes()) };
            }
            match repeated(value, rows.address) {
                Some(unit) if rows.pitch.is_multiple_of(unit.len()) => {
                    planes(&rows).try_for_each(|plane| {
                        // SAFETY: the rows must be writable ← they are a plane of a mutable view,
                        // and both the address and the pitch are multiples of the unit.
                        unsafe { set_rows(stream, &plane, unit) }
                    })
                }
                // SAFETY: the rows must be writable ← they are those of a mutable view.
                _ => unsafe { fill_by_copies(stream, &rows, value) },
            }
        })
    }

    /// `cuMemsetD2D8Async(0)`—Queues a fill of all elements with zero bits, on the owning stream.
    #[doc(alias = "cuMemsetD2D8Async")]
    #[doc(alias = "cudaMemset2DAsync")]
    pub fn set_zero(&mut self) -> Result<()> {
        self.fill(T::zeroed())
    }
}

/// Fills.
impl<T: DeviceRepr> PitchedBuffer<T> {
    /// `cuMemsetD2D8Async(value)` and related calls—Queues a fill of all elements with `value`, on
    /// the owning stream. See [`PitchedSliceMut::fill`].
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.as_mut_slice().fill(value)
    }
}

/// Returns each plane of a box. Planes without other rows between them count as one.
fn planes(rows: &Rows) -> impl Iterator<Item = Rows> {
    let rows = *rows;
    let (height, depth) = if rows.plane == rows.height {
        (rows.height * rows.depth, 1)
    } else {
        (rows.height, rows.depth)
    };
    (0..depth).map(move |z| Rows {
        address: rows.row(0, z),
        height,
        depth: 1,
        ..rows
    })
}

/// Queues a fill of one plane with repetitions of `unit`, which has 1, 2 or 4 bytes.
///
/// # Safety
///
/// The rows may be written. The address and the pitch are multiples of the size of `unit`.
unsafe fn set_rows(stream: &Stream, rows: &Rows, unit: &[u8]) -> Result<(), DriverError> {
    let (driver, raw) = (stream.driver(), stream.as_raw());
    let (address, pitch, height) = (rows.address, rows.pitch, rows.height);
    let width = rows.width / unit.len().max(1);
    let work = Work::of_kind(WorkKind::Fill, rows.width * height);
    stream.observed(work, || match *unit {
        [a, b, c, d] => {
            let word = u32::from_ne_bytes([a, b, c, d]);
            // SAFETY: the rows must be writable and start at multiples of the unit ← the caller
            // guarantees it.
            unsafe {
                call!(
                    driver,
                    cuMemsetD2D32Async(address, pitch, word, width, height, raw)
                )
            }
        }
        [a, b] => {
            let half = u16::from_ne_bytes([a, b]);
            // SAFETY: as above.
            unsafe {
                call!(
                    driver,
                    cuMemsetD2D16Async(address, pitch, half, width, height, raw)
                )
            }
        }
        // The unit has one byte.
        _ => {
            let byte = unit.first().copied().unwrap_or_default();
            // SAFETY: as above.
            unsafe {
                call!(
                    driver,
                    cuMemsetD2D8Async(address, pitch, byte, width, height, raw)
                )
            }
        }
    })
}

/// Queues a fill of the first row with `value`, and copies of it to all other rows.
///
/// # Safety
///
/// The rows may be written, and the size of `value` divides their width.
unsafe fn fill_by_copies(stream: &Stream, rows: &Rows, value: &[u8]) -> Result<(), DriverError> {
    // SAFETY: the range must be writable ← it is the first row.
    unsafe { fill_range(stream, rows.address, value, rows.width) }?;
    for plane in planes(rows) {
        let mut done = 0;
        while done < plane.height {
            // The first row of the box is the source of the first row of each further plane.
            let (from, height) = if done == 0 {
                (rows.address, 1)
            } else {
                (plane.address, done.min(plane.height - done))
            };
            let to = plane.row(done, 0);
            done += height;
            if to == from {
                continue;
            }
            let part = |address: CUdeviceptr| Rows {
                address,
                height,
                ..plane
            };
            let (to, from) = (Side::Device(part(to)), Side::Device(part(from)));
            // SAFETY: both sides must be rows of the box that do not overlap ← the source is the
            // first row of the box or the first `height` rows of the plane, and the destination
            // starts after the first `height` rows of the plane, or in another plane.
            unsafe { queue(stream, to, from, &part(0)) }?;
        }
    }
    Ok(())
}
