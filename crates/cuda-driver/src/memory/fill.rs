//! Filling memory with a value.

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, DeviceSliceMut};
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::stream::Stream;

impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemsetD8Async(0)`—Queues zero bits for all elements, on the home stream.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuMemsetD8Async")]
    pub fn set_zero(&mut self) -> Result<()> {
        self.fill(T::zeroed())
    }

    /// `cuMemsetD8Async(value)`, `cuMemsetD16Async`, `cuMemsetD32Async`—Queues `value` for all
    /// elements, on the home stream.
    ///
    /// One call if the bytes of `value` repeat after 1, 2 or 4 bytes, as those of any number of up
    /// to 32 bits do. If not, the first element is written in pieces of up to 4 bytes, and then
    /// copied over the others, twice as many each time.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cuMemsetD16Async")]
    #[doc(alias = "cuMemsetD32Async")]
    pub fn fill(&mut self, value: T) -> Result<()> {
        let (value, len) = (bytemuck::bytes_of(&value), self.len());
        if value.is_empty() || len == 0 {
            return Ok(());
        }
        let (address, home) = (self.as_raw(), self.memory.home());
        self.memory.use_at_home(self.access, || {
            let bytes = value.len() * len;
            if let Some(unit) = repeated(value, address) {
                // SAFETY: the range must be ours ← it is that of the view.
                return unsafe { set(home, address, unit, bytes / unit.len()) };
            }
            let unit = largest_unit(value, address);
            for (piece, at) in value.chunks_exact(unit).zip((address..).step_by(unit)) {
                // SAFETY: as above; the piece is in the first element.
                unsafe { set(home, at, piece, 1) }?;
            }
            let mut done = value.len();
            while done < bytes {
                let next = done.min(bytes - done);
                let to = address + done as CUdeviceptr;
                // SAFETY: both ranges must be ours, and apart ← `next` bytes of the view from its
                // start, and as many behind the `done` first ones.
                unsafe {
                    call!(
                        home.driver(),
                        cuMemcpyDtoDAsync_v2(to, address, next, home.as_raw())
                    )
                }?;
                done += next;
            }
            Ok(())
        })
    }
}

/// The shortest unit of 1, 2 or 4 bytes that `value` is made of, if the address is one of such a
/// unit.
pub(crate) fn repeated(value: &[u8], address: CUdeviceptr) -> Option<&[u8]> {
    [1, 2, 4].into_iter().find_map(|size| {
        let unit = value.get(..size)?;
        let is_made_of = value.chunks(size).all(|piece| piece == unit);
        (is_made_of && address.is_multiple_of(size as u64)).then_some(unit)
    })
}

/// The bytes of the largest unit that value and address are multiples of.
fn largest_unit(value: &[u8], address: CUdeviceptr) -> usize {
    let divides =
        |size: &usize| value.len().is_multiple_of(*size) && address.is_multiple_of(*size as u64);
    [4, 2].into_iter().find(divides).unwrap_or(1)
}

/// Queues `count` times `unit`, of 1, 2 or 4 bytes.
///
/// # Safety
///
/// So many units from `address` on may be written.
unsafe fn set(
    stream: &Stream,
    address: CUdeviceptr,
    unit: &[u8],
    count: usize,
) -> Result<(), DriverError> {
    let (driver, raw) = (stream.driver(), stream.as_raw());
    match *unit {
        [a, b, c, d] => {
            let word = u32::from_ne_bytes([a, b, c, d]);
            // SAFETY: the range must be writable, and start at a unit ← the caller says so, and
            // asks for no other.
            unsafe { call!(driver, cuMemsetD32Async(address, word, count, raw)) }
        }
        [a, b] => {
            let half = u16::from_ne_bytes([a, b]);
            // SAFETY: as above.
            unsafe { call!(driver, cuMemsetD16Async(address, half, count, raw)) }
        }
        // One byte.
        _ => {
            let byte = unit.first().copied().unwrap_or_default();
            // SAFETY: as above.
            unsafe { call!(driver, cuMemsetD8Async(address, byte, count, raw)) }
        }
    }
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
