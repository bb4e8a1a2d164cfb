//! Views of consecutive chunks of equal length.

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut};
use crate::error::{RangeError, Result};

/// Iteration over parts of the view.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// Returns read-only views of consecutive chunks of `size` elements. The last chunk may be
    /// shorter.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if `size` is 0.
    pub fn chunks(self, size: usize) -> Result<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Every start is less than the length, as `piece` requires.
        Ok(starts.map(move |start| self.piece(start, size)))
    }
}

/// Iteration over parts of the view.
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// Returns writable views of consecutive chunks of `size` elements. The last chunk may be
    /// shorter.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if `size` is 0.
    pub fn chunks_mut(self, size: usize) -> Result<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Every start is less than the length, as `piece` requires, and no two pieces overlap.
        Ok(starts.map(move |start| self.piece(start, size)))
    }
}

/// Returns the indices at which chunks of `size` elements start.
fn starts(len: usize, size: usize) -> Result<impl ExactSizeIterator<Item = usize>> {
    if size == 0 {
        let parts = "chunks";
        return Err(RangeError::Divide { len, size, parts }.into());
    }
    Ok((0..len.div_ceil(size)).map(move |index| index * size))
}
