//! Views of consecutive chunks of equal length.

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut};

impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// Returns read-only views of consecutive chunks of `size` elements, or `None` if `size` is 0.
    /// The last chunk may be shorter.
    #[must_use]
    pub fn chunks(self, size: usize) -> Option<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Every start is less than the length, as `piece` requires.
        Some(starts.map(move |start| self.piece(start, size)))
    }
}

impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// Returns writable views of consecutive chunks of `size` elements, or `None` if `size` is 0.
    /// The last chunk may be shorter.
    #[must_use]
    pub fn chunks_mut(self, size: usize) -> Option<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Every start is less than the length, as `piece` requires, and no two pieces overlap.
        Some(starts.map(move |start| self.piece(start, size)))
    }
}

/// Returns the indices at which chunks of `size` elements start.
fn starts(len: usize, size: usize) -> Option<impl ExactSizeIterator<Item = usize>> {
    (size > 0).then(|| (0..len.div_ceil(size)).map(move |index| index * size))
}
