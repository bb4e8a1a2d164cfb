//! Views in pieces of one length.

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut};

impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// Pieces of `size` elements, the last of which may be shorter; `None` if `size` is 0.
    #[must_use]
    pub fn chunks(self, size: usize) -> Option<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Each start is below the length.
        Some(starts.map(move |start| self.piece(start, size)))
    }
}

impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// Pieces of `size` elements, the last of which may be shorter, all to write; `None` if `size`
    /// is 0.
    #[must_use]
    pub fn chunks_mut(self, size: usize) -> Option<impl ExactSizeIterator<Item = Self>> {
        let starts = starts(self.len(), size)?;
        // Each start is below the length, and no two pieces overlap.
        Some(starts.map(move |start| self.piece(start, size)))
    }
}

/// Where pieces of `size` elements start.
fn starts(len: usize, size: usize) -> Option<impl ExactSizeIterator<Item = usize>> {
    (size > 0).then(|| (0..len.div_ceil(size)).map(move |index| index * size))
}
