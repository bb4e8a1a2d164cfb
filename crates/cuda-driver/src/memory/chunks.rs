//! Views in pieces of one length, and as elements of another type.

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut};
use crate::error::{Error, Result};

impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// Pieces of `size` elements, the last of which may be shorter; `None` if `size` is 0.
    #[must_use]
    pub fn chunks(self, size: usize) -> Option<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Each start is below the length.
        Some(starts.map(move |start| self.piece(start, size)))
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if no `U` may start at the address, [`Error::Uneven`] if the bytes are not a whole number of
    /// them.
    pub fn cast<U: DeviceRepr>(self) -> Result<DeviceSlice<'a, U>> {
        let len = len_of_cast::<T, U>(self.as_raw(), self.len())?;
        Ok(DeviceSlice {
            access: self.access,
            ..DeviceSlice::new(self.memory, self.as_raw(), len)
        })
    }
}

impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// Pieces of `size` elements, the last of which may be shorter, all to write; `None` if `size` is 0.
    #[must_use]
    pub fn chunks_mut(self, size: usize) -> Option<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Each start is below the length, and no two pieces overlap.
        Some(starts.map(move |start| self.piece(start, size)))
    }

    /// The same bytes as elements of another type, to write.
    ///
    /// # Errors
    ///
    /// As [`DeviceSlice::cast`].
    pub fn cast<U: DeviceRepr>(self) -> Result<DeviceSliceMut<'a, U>> {
        let len = len_of_cast::<T, U>(self.as_raw(), self.len())?;
        let (memory, access) = (self.memory, self.access);
        Ok(DeviceSliceMut {
            access,
            ..DeviceSliceMut::new(memory, self.as_raw(), len)
        })
    }
}

/// Where pieces of `size` elements start.
fn starts(len: usize, size: usize) -> Option<impl ExactSizeIterator<Item = usize>> {
    (size > 0).then(|| (0..len.div_ceil(size)).map(move |index| index * size))
}

/// How many `U` the bytes of `len` elements are.
fn len_of_cast<T, U>(address: u64, len: usize) -> Result<usize> {
    // No overflow: the view is of memory.
    let (bytes, size) = (len * size_of::<T>(), size_of::<U>());
    if bytes == 0 {
        return Ok(0);
    }
    if !address.is_multiple_of(align_of::<U>() as u64) {
        return Err(Error::Misaligned {
            address,
            align: align_of::<U>(),
        });
    }
    if size == 0 || !bytes.is_multiple_of(size) {
        return Err(Error::Uneven { bytes, size });
    }
    Ok(bytes / size)
}
