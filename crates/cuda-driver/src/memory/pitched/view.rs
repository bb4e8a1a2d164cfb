//! Views of boxes of device memory, with the borrow rules of Rust slices.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::Rows;
use crate::error::{Error, RangeError, Result};
use crate::memory::{DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, resolve_of};
use crate::tracking::Access;
use crate::types::Extent;

/// A read-only view of a box of device memory. The memory is a
/// [`PitchedBuffer`](crate::memory::PitchedBuffer), or a linear buffer that is divided into
/// [rows](DeviceSlice::rows).
///
/// ```
/// use cuda_driver::memory::PitchedBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let image = PitchedBuffer::from_host(&stream, (4, 2), &[0_u32, 1, 2, 3, 10, 11, 12, 13])?;
/// // Columns 1 and 2 of both rows.
/// let middle = image.region(1..3, .., ..)?;
/// assert_eq!(middle.to_vec()?, [1, 2, 11, 12]);
/// assert_eq!(middle.pitch(), image.pitch());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct PitchedSlice<'a, T> {
    pub(crate) memory: &'a Memory,
    pub(crate) rows: Rows,
    /// The number of elements in a row.
    width: usize,
    /// How uses of the view are recorded.
    pub(crate) access: Access,
    elements: PhantomData<&'a [T]>,
}

/// A writable view of a box of device memory. The memory is a
/// [`PitchedBuffer`](crate::memory::PitchedBuffer), or a linear buffer that is divided into
/// [rows](DeviceSliceMut::into_rows).
pub struct PitchedSliceMut<'a, T> {
    pub(crate) memory: &'a Memory,
    pub(crate) rows: Rows,
    /// The number of elements in a row.
    width: usize,
    /// How uses of the view are recorded.
    pub(crate) access: Access,
    elements: PhantomData<&'a mut [T]>,
}

macro_rules! view {
    () => {
        /// Returns the number of elements in each dimension.
        #[must_use]
        pub fn extent(&self) -> Extent {
            Extent {
                width: self.width,
                height: self.rows.height,
                depth: self.rows.depth,
            }
        }

        /// Returns the distance in bytes between the starts of consecutive rows.
        #[must_use]
        pub fn pitch(&self) -> usize {
            self.rows.pitch
        }

        /// Returns the distance in rows between the starts of consecutive planes.
        #[must_use]
        pub fn rows_per_plane(&self) -> usize {
            self.rows.plane
        }

        /// Returns the device address of the first element.
        #[must_use]
        pub fn as_raw(&self) -> CUdeviceptr {
            self.rows.address
        }

        /// Returns the number of bytes from the first element to the last, with the padding between
        /// rows.
        pub(crate) fn span_bytes(&self) -> usize {
            self.rows.span_bytes()
        }
    };
}

impl<'a, T: DeviceRepr> PitchedSlice<'a, T> {
    /// Creates a view of a whole buffer. `rows` must consist of whole elements of its memory.
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

    /// Returns a view of a box: the elements `x` of each row, the rows `y` of each plane, and the
    /// planes `z`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the number of elements, rows or planes.
    pub fn region(
        &self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<Self> {
        let (rows, width) = region::<T>(&self.rows, self.extent(), x, y, z)?;
        Ok(Self {
            rows,
            width,
            ..*self
        })
    }
}

impl<'a, T: DeviceRepr> PitchedSliceMut<'a, T> {
    /// Creates a view of a whole buffer. `rows` must consist of whole elements of its memory.
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

    /// Returns a view of a box: the elements `x` of each row, the rows `y` of each plane, and the
    /// planes `z`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the number of elements, rows or planes.
    pub fn into_region(
        self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<Self> {
        let (rows, width) = region::<T>(&self.rows, self.extent(), x, y, z)?;
        Ok(Self {
            rows,
            width,
            ..self
        })
    }

    /// Returns a writable view of the same elements with a shorter lifetime.
    #[must_use]
    pub fn reborrow(&mut self) -> PitchedSliceMut<'_, T> {
        PitchedSliceMut { ..*self }
    }
}

/// Views with rows.
impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    /// Divides the elements into contiguous rows of `width` elements.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the length is a multiple of `width`, or if `width` is 0.
    /// [`Error::SizeOverflow`] if the size of a row does not fit in a `usize`.
    pub fn rows(&self, width: usize) -> Result<PitchedSlice<'a, T>> {
        Ok(PitchedSlice {
            memory: self.memory,
            rows: rows::<T>(self.as_raw(), self.len(), width)?,
            width,
            access: self.access,
            elements: PhantomData,
        })
    }
}

/// Views with rows.
impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    /// Divides the elements into contiguous rows of `width` elements.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the length is a multiple of `width`, or if `width` is 0.
    /// [`Error::SizeOverflow`] if the size of a row does not fit in a `usize`.
    pub fn into_rows(self, width: usize) -> Result<PitchedSliceMut<'a, T>> {
        Ok(PitchedSliceMut {
            memory: self.memory,
            rows: rows::<T>(self.as_raw(), self.len(), width)?,
            width,
            access: self.access,
            elements: PhantomData,
        })
    }
}

/// Describes `len` elements as rows of `width` elements.
fn rows<T>(address: CUdeviceptr, len: usize, width: usize) -> Result<Rows> {
    let height = len
        .checked_div(width)
        .filter(|height| height * width == len)
        .ok_or_else(|| {
            let (size, parts) = (width, "rows");
            Error::from(RangeError::Divide { len, size, parts })
        })?;
    let size = size_of::<T>();
    let overflow = Error::SizeOverflow { len: width, size };
    // The product may exceed the limit of an allocation: there may be no rows.
    let bytes = width.checked_mul(size).ok_or(overflow)?;
    Ok(Rows {
        address,
        pitch: bytes,
        plane: height,
        width: bytes,
        height,
        depth: 1,
    })
}

/// Returns the part of `rows` that the ranges select, and the number of elements in each of its
/// rows.
fn region<T>(
    rows: &Rows,
    extent: Extent,
    x: impl RangeBounds<usize>,
    y: impl RangeBounds<usize>,
    z: impl RangeBounds<usize>,
) -> Result<(Rows, usize)> {
    let (left, width) = resolve_of("elements in a row", x, extent.width)?;
    let (top, height) = resolve_of("rows", y, extent.height)?;
    let (front, depth) = resolve_of("planes", z, extent.depth)?;
    // The address of an empty box may wrap, as in `Rows::row`.
    let offset = (left * size_of::<T>()) as CUdeviceptr;
    let address = rows.row(top, front).wrapping_add(offset);
    let rows = Rows {
        address,
        width: width * size_of::<T>(),
        height,
        depth,
        ..*rows
    };
    Ok((rows, width))
}

fn describe<T>(name: &str, rows: &Rows, width: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Rows { height, depth, .. } = rows;
    write!(
        f,
        "{name}({:#x}, {width} x {height} x {depth} x {}, pitch {})",
        rows.address,
        size_of::<T>(),
        rows.pitch
    )
}

impl<T> fmt::Debug for PitchedSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("PitchedSlice", &self.rows, self.width, f)
    }
}

impl<T> fmt::Debug for PitchedSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("PitchedSliceMut", &self.rows, self.width, f)
    }
}
