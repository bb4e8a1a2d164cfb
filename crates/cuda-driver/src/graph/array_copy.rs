//! Arrays as sides of copy nodes.

use super::copy::{CopyMemory, CopySource, CopyTarget, End};
use crate::texture::{Array, ArraySlice, ArraySliceMut, Texel};

impl<'a, T: Texel> From<ArraySlice<'a, T>> for CopySource<'a, T> {
    fn from(view: ArraySlice<'a, T>) -> Self {
        Self::new(End {
            memory: CopyMemory::Array(view.part(), view.place),
            access: view.access,
            extent: view.extent(),
            bytes: view.place.bytes(),
        })
    }
}

impl<'a, T: Texel> From<ArraySliceMut<'a, T>> for CopyTarget<'a, T> {
    fn from(view: ArraySliceMut<'a, T>) -> Self {
        Self::new(End {
            memory: CopyMemory::Array(view.part(), view.place),
            access: view.access,
            extent: view.extent(),
            bytes: view.place.bytes(),
        })
    }
}

impl<'a, T: Texel> From<&'a Array<T>> for CopySource<'a, T> {
    fn from(array: &'a Array<T>) -> Self {
        array.as_slice().into()
    }
}

impl<'a, T: Texel> From<&'a mut Array<T>> for CopyTarget<'a, T> {
    fn from(array: &'a mut Array<T>) -> Self {
        array.as_mut_slice().into()
    }
}
