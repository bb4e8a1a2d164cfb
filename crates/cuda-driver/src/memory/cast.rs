//! Views of the same bytes as elements of another type.

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut};
use crate::error::{Error, Result};

/// Views with another element type.
impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// Returns a view of the same bytes as elements of type `U`.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if the address is not aligned for `U`, or [`Error::Uneven`] if the
    /// size in bytes is not a multiple of the size of `U`.
    pub fn cast<U: DeviceRepr>(self) -> Result<DeviceSlice<'a, U>> {
        let len = len_of_cast::<U>(self.as_raw(), self.bytes())?;
        Ok(DeviceSlice {
            access: self.access,
            ..DeviceSlice::new(self.memory, self.as_raw(), len)
        })
    }
}

/// Views with another element type.
impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// Returns a writable view of the same bytes as elements of type `U`.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::cast`] does.
    pub fn cast<U: DeviceRepr>(self) -> Result<DeviceSliceMut<'a, U>> {
        let len = len_of_cast::<U>(self.as_raw(), self.bytes())?;
        let (memory, access) = (self.memory, self.access);
        Ok(DeviceSliceMut {
            access,
            ..DeviceSliceMut::new(memory, self.as_raw(), len)
        })
    }
}

/// Returns the number of elements of type `U` in `bytes` bytes at `address`.
pub(crate) fn len_of_cast<U>(address: CUdeviceptr, bytes: usize) -> Result<usize> {
    let (size, align) = (size_of::<U>(), align_of::<U>());
    if bytes > 0 && !address.is_multiple_of(align as u64) {
        return Err(Error::Misaligned { address, align });
    }
    match bytes.checked_rem(size) {
        Some(0) => Ok(bytes / size),
        None if bytes == 0 => Ok(0),
        _ => Err(Error::Uneven {
            variable: None,
            bytes,
            size,
        }),
    }
}
