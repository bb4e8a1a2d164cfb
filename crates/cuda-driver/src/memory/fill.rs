//! Fills of device memory with a value.
//!
//! C has one memset call for each of three widths. Here one method fills with a value of any type.

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, DeviceSliceMut, Memory};
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::observer::Work;
use crate::stream::Stream;
use crate::types::WorkKind;

/// Fills with one value.
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemsetD8Async(0)`—Queues a fill of all elements with zero bits, on the owning stream.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cudaMemsetAsync")]
    pub fn set_zero(&mut self) -> Result<()> {
        self.fill(T::zeroed())
    }

    /// `cuMemsetD8Async(value)`, `cuMemsetD16Async`, `cuMemsetD32Async`—Queues a fill of all
    /// elements with `value`, on the owning stream.
    ///
    /// The fill is one call if the bytes of `value` repeat with a period of 1, 2 or 4 bytes, as the
    /// bytes of every number of up to 32 bits do. Otherwise the first element is written in units
    /// of up to 4 bytes and then copied over the remaining elements; each copy doubles the part
    /// that is filled.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cudaMemsetAsync")]
    #[doc(alias = "cuMemsetD16Async")]
    #[doc(alias = "cuMemsetD32Async")]
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.fill_on(value, self.memory.owning_stream())
    }

    /// `cuMemsetD8Async(value, stream)`, `cuMemsetD16Async`, `cuMemsetD32Async`—Queues a fill of
    /// all elements with `value` on `stream`. The fill is ordered with other uses of the buffer.
    ///
    /// The number of driver calls is that of [`fill`](Self::fill).
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream belongs to another
    /// context.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cudaMemsetAsync")]
    #[doc(alias = "cuMemsetD16Async")]
    #[doc(alias = "cuMemsetD32Async")]
    pub fn fill_on(&mut self, value: T, stream: &Stream) -> Result<()> {
        let (value, len) = (bytemuck::bytes_of(&value), self.len());
        if value.is_empty() || len == 0 {
            return Ok(());
        }
        Memory::queue_all(stream, "DeviceSliceMut::fill", [self.part()], |stream| {
            // SAFETY: the range must be writable by this thread alone ← it is the range of a
            // mutable view.
            unsafe { fill_range(stream, self.as_raw(), value, value.len() * len) }
        })
    }
}

/// Queues a fill of the `bytes` bytes from `address` on with repetitions of `value`, which is not
/// empty.
///
/// # Safety
///
/// The bytes may be written, and the size of `value` divides their number.
pub(super) unsafe fn fill_range(
    stream: &Stream,
    address: CUdeviceptr,
    value: &[u8],
    bytes: usize,
) -> Result<(), DriverError> {
    if let Some(unit) = repeated(value, address) {
        // SAFETY: the range must be writable ← the caller guarantees it.
        return unsafe { set(stream, address, unit, bytes / unit.len()) };
    }
    let unit = largest_unit(value, address);
    for (piece, at) in value.chunks_exact(unit).zip((address..).step_by(unit)) {
        // SAFETY: as above; `piece` lies within the first element.
        unsafe { set(stream, at, piece, 1) }?;
    }
    let _current = stream.bind_for_copy()?;
    let mut done = value.len();
    while done < bytes {
        let next = done.min(bytes - done);
        let to = address + done as CUdeviceptr;
        stream.observed(Work::of_kind(WorkKind::Fill, next), || {
            // SAFETY: both ranges must be within the view and must not overlap ← the source is the
            // first `next` bytes of the view, `next` is at most `done`, and the destination starts
            // after the first `done` bytes.
            unsafe {
                call!(
                    stream.driver(),
                    cuMemcpyDtoDAsync_v2(to, address, next, stream.as_raw())
                )
            }
        })?;
        done += next;
    }
    Ok(())
}

/// Returns the shortest unit of 1, 2 or 4 bytes of which `value` is a repetition, if `address` is
/// aligned to the size of that unit.
pub(crate) fn repeated(value: &[u8], address: CUdeviceptr) -> Option<&[u8]> {
    [1, 2, 4].into_iter().find_map(|size| {
        let unit = value.get(..size)?;
        let is_made_of = value.chunks(size).all(|piece| piece == unit);
        (is_made_of && address.is_multiple_of(size as u64)).then_some(unit)
    })
}

/// Returns the size of the largest unit, 4, 2 or 1 bytes, that divides both the length of `value`
/// and the address.
fn largest_unit(value: &[u8], address: CUdeviceptr) -> usize {
    let divides =
        |size: &usize| value.len().is_multiple_of(*size) && address.is_multiple_of(*size as u64);
    [4, 2].into_iter().find(divides).unwrap_or(1)
}

/// Queues a fill with `count` repetitions of `unit`, which has 1, 2 or 4 bytes.
///
/// # Safety
///
/// The `count` units from `address` on may be written, and `address` is aligned to the size of
/// `unit`.
unsafe fn set(
    stream: &Stream,
    address: CUdeviceptr,
    unit: &[u8],
    count: usize,
) -> Result<(), DriverError> {
    let (driver, raw) = (stream.driver(), stream.as_raw());
    let work = Work::of_kind(WorkKind::Fill, count * unit.len());
    stream.observed(work, || match *unit {
        [a, b, c, d] => {
            let word = u32::from_ne_bytes([a, b, c, d]);
            // SAFETY: the range must be writable and start at a multiple of the unit ← the caller
            // guarantees it.
            unsafe { call!(driver, cuMemsetD32Async(address, word, count, raw)) }
        }
        [a, b] => {
            let half = u16::from_ne_bytes([a, b]);
            // SAFETY: as above.
            unsafe { call!(driver, cuMemsetD16Async(address, half, count, raw)) }
        }
        // The unit has one byte.
        _ => {
            let byte = unit.first().copied().unwrap_or_default();
            // SAFETY: as above.
            unsafe { call!(driver, cuMemsetD8Async(address, byte, count, raw)) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{largest_unit, repeated};

    #[test]
    fn the_shortest_unit_is_found() {
        assert_eq!(repeated(&[7; 12], 1), Some(&[7][..]));
        assert_eq!(repeated(&[1, 2, 1, 2], 2), Some(&[1, 2][..]));
        assert_eq!(repeated(&[1, 2, 1, 2], 1), None);
        assert_eq!(
            repeated(&[1, 2, 3, 4, 1, 2, 3, 4], 8),
            Some(&[1, 2, 3, 4][..])
        );
        assert_eq!(repeated(&[1, 2, 3, 4], 2), None);
        assert_eq!(repeated(&[1, 2, 3, 4, 1, 2], 4), None);
        assert_eq!(repeated(&[1, 2, 3], 4), None);
        assert_eq!(largest_unit(&[1, 2, 3, 4], 2), 2);
        assert_eq!(largest_unit(&[1, 2, 3], 4), 1);
        assert_eq!(largest_unit(&[0; 12], 8), 4);
    }
}
