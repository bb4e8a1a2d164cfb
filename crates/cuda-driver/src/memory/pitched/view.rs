//! Views of boxes of device memory, with the borrow rules of slices.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::{Extent, Rows};
use crate::memory::{DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, resolve};
use crate::order::Access;

/// A box of device memory, to read: of a [`PitchedBuffer`](crate::PitchedBuffer), or of a linear
/// one in [rows](DeviceSlice::rows).
#[derive(Clone, Copy)]
pub struct PitchedSlice<'a, T: DeviceRepr> {
    pub(crate) memory: &'a Memory,
    pub(crate) rows: Rows,
    /// Elements of a row.
    width: usize,
    /// How its uses are noted.
    pub(crate) access: Access,
    elements: PhantomData<&'a [T]>,
}

/// A box of device memory, to write: of a [`PitchedBuffer`](crate::PitchedBuffer), or of a linear
/// one in [rows](DeviceSliceMut::into_rows).
pub struct PitchedSliceMut<'a, T: DeviceRepr> {
    pub(crate) memory: &'a Memory,
    pub(crate) rows: Rows,
    /// Elements of a row.
    width: usize,
    /// How its uses are noted.
    pub(crate) access: Access,
    elements: PhantomData<&'a mut [T]>,
}

macro_rules! view {
    () => {
        /// How many elements it has in each direction.
        #[must_use]
        pub fn extent(&self) -> Extent {
            Extent {
                width: self.width,
                height: self.rows.height,
                depth: self.rows.depth,
            }
        }

        /// The bytes from row to row.
        #[must_use]
        pub fn pitch(&self) -> usize {
            self.rows.pitch
        }

        /// The rows from plane to plane.
        #[must_use]
        pub fn rows_per_plane(&self) -> usize {
            self.rows.plane
        }

        /// The address of the first element on the device.
        #[must_use]
        pub fn as_raw(&self) -> CUdeviceptr {
            self.rows.address
        }

        /// The bytes from the first element to the last, with what lies between rows.
        pub(crate) fn reach(&self) -> usize {
            self.rows.reach()
        }
    };
}

impl<'a, T: DeviceRepr> PitchedSlice<'a, T> {
    /// All of a buffer. `rows` has whole elements of its memory.
    pub(super) fn new(memory: &'a Memory, rows: Rows, width: usize) -> Self {
        Self {
            memory,
            rows,
            width,
            access: Access::READ,
            elements: PhantomData,
        }
    }

    view!();

    /// A box of the elements: of each row those of `x`, of each plane the rows of `y`, the planes
    /// of `z`; `None` if one is out of bounds.
    #[must_use]
    pub fn region(
        &self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Option<Self> {
        let (rows, width) = region::<T>(&self.rows, self.extent(), x, y, z)?;
        Some(Self {
            rows,
            width,
            ..*self
        })
    }
}

impl<'a, T: DeviceRepr> PitchedSliceMut<'a, T> {
    /// All of a buffer. `rows` has whole elements of its memory.
    pub(super) fn new(memory: &'a Memory, rows: Rows, width: usize) -> Self {
        Self {
            memory,
            rows,
            width,
            access: Access::WRITE,
            elements: PhantomData,
        }
    }

    view!();

    /// A box of the elements: of each row those of `x`, of each plane the rows of `y`, the planes
    /// of `z`; `None` if one is out of bounds.
    #[must_use]
    pub fn into_region(
        self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Option<Self> {
        let (rows, width) = region::<T>(&self.rows, self.extent(), x, y, z)?;
        Some(Self {
            rows,
            width,
            ..self
        })
    }

    /// The same elements for a shorter time, to write.
    #[must_use]
    pub fn reborrow(&mut self) -> PitchedSliceMut<'_, T> {
        PitchedSliceMut { ..*self }
    }
}

impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// The elements as rows of `width`, one right behind the other; `None` unless they make up
    /// whole rows.
    #[must_use]
    pub fn rows(&self, width: usize) -> Option<PitchedSlice<'a, T>> {
        Some(PitchedSlice {
            memory: self.memory,
            rows: rows::<T>(self.as_raw(), self.len(), width)?,
            width,
            access: self.access,
            elements: PhantomData,
        })
    }
}

impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// The elements as rows of `width`, one right behind the other; `None` unless they make up
    /// whole rows.
    #[must_use]
    pub fn into_rows(self, width: usize) -> Option<PitchedSliceMut<'a, T>> {
        Some(PitchedSliceMut {
            memory: self.memory,
            rows: rows::<T>(self.as_raw(), self.len(), width)?,
            width,
            access: self.access,
            elements: PhantomData,
        })
    }
}

/// `len` elements in rows of `width`.
fn rows<T>(address: CUdeviceptr, len: usize, width: usize) -> Option<Rows> {
    let height = len.checked_div(width)?;
    let bytes = width.checked_mul(size_of::<T>())?;
    (height * width == len).then_some(Rows {
        address,
        pitch: bytes,
        plane: height,
        width: bytes,
        height,
        depth: 1,
    })
}

/// The box within `rows`, and the elements of its rows.
fn region<T>(
    rows: &Rows,
    extent: Extent,
    x: impl RangeBounds<usize>,
    y: impl RangeBounds<usize>,
    z: impl RangeBounds<usize>,
) -> Option<(Rows, usize)> {
    let (left, width) = resolve(x, extent.width)?;
    let (top, height) = resolve(y, extent.height)?;
    let (front, depth) = resolve(z, extent.depth)?;
    // As in `Rows::row`.
    let offset = (left * size_of::<T>()) as CUdeviceptr;
    let address = rows.row(top, front).wrapping_add(offset);
    let rows = Rows {
        address,
        width: width * size_of::<T>(),
        height,
        depth,
        ..*rows
    };
    Some((rows, width))
}

fn describe<T>(name: &str, rows: &Rows, extent: Extent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Extent {
        width,
        height,
        depth,
    } = extent;
    write!(
        f,
        "{name}({:#x}, {width} x {height} x {depth} x {}, pitch {})",
        rows.address,
        size_of::<T>(),
        rows.pitch
    )
}

impl<T: DeviceRepr> fmt::Debug for PitchedSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("PitchedSlice", &self.rows, self.extent(), f)
    }
}

impl<T: DeviceRepr> fmt::Debug for PitchedSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("PitchedSliceMut", &self.rows, self.extent(), f)
    }
}
