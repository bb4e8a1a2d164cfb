//! What bytes may be seen as.

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut};
use crate::error::{Error, Result};

impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// The same bytes as elements of another type.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if no `U` may start at the address, [`Error::Uneven`] if the bytes are
    /// not a whole number of them.
    pub fn cast<U: DeviceRepr>(self) -> Result<DeviceSlice<'a, U>> {
        let len = len_of_cast::<U>(self.as_raw(), self.bytes())?;
        Ok(DeviceSlice {
            access: self.access,
            ..DeviceSlice::new(self.memory, self.as_raw(), len)
        })
    }
}

impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// The same bytes as elements of another type, to write.
    ///
    /// # Errors
    ///
    /// As [`DeviceSlice::cast`].
    pub fn cast<U: DeviceRepr>(self) -> Result<DeviceSliceMut<'a, U>> {
        let len = len_of_cast::<U>(self.as_raw(), self.bytes())?;
        let (memory, access) = (self.memory, self.access);
        Ok(DeviceSliceMut {
            access,
            ..DeviceSliceMut::new(memory, self.as_raw(), len)
        })
    }
}

/// How many `U` the `bytes` bytes at `address` are.
pub(crate) fn len_of_cast<U>(address: CUdeviceptr, bytes: usize) -> Result<usize> {
    let (size, align) = (size_of::<U>(), align_of::<U>());
    if bytes > 0 && !address.is_multiple_of(align as u64) {
        return Err(Error::Misaligned { address, align });
    }
    match bytes.checked_rem(size) {
        Some(0) => Ok(bytes / size),
        None if bytes == 0 => Ok(0),
        _ => Err(Error::Uneven { bytes, size }),
    }
}
