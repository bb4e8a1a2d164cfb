//! Views of boxes of an array, with the borrow rules of Rust slices.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::format::Texel;
use super::limits::contradiction;
use super::memory::{ArrayMemory, Level};
use super::surface::{Surface, SurfaceMut};
use crate::error::Result;
use crate::memory::pitched::ArrayBox;
use crate::memory::{Memory, Part, resolve_of};
use crate::tracking::Access;
use crate::types::Extent;

/// A read-only view of a box of an [`Array`](super::Array), or of a level of a
/// [`MipmappedArray`](super::MipmappedArray).
#[derive(Clone, Copy)]
pub struct ArraySlice<'a, T: Texel> {
    pub(crate) memory: &'a Memory,
    level: &'a Level,
    pub(crate) place: ArrayBox,
    pub(crate) access: Access,
    elements: PhantomData<&'a [T]>,
}

/// A writable view of a box of an [`Array`](super::Array), or of a level of a
/// [`MipmappedArray`](super::MipmappedArray).
pub struct ArraySliceMut<'a, T: Texel> {
    pub(crate) memory: &'a Memory,
    level: &'a Level,
    pub(crate) place: ArrayBox,
    pub(crate) access: Access,
    elements: PhantomData<&'a mut [T]>,
}

macro_rules! view {
    () => {
        /// Returns the number of elements per row, the number of rows, and the number of planes or
        /// layers.
        #[must_use]
        pub fn extent(&self) -> Extent {
            extent_of::<T>(&self.place)
        }

        /// Returns the use of the array.
        pub(crate) fn part(&self) -> Part<'a> {
            part(self.memory, self.access, &self.place)
        }
    };
}

impl<'a, T: Texel> ArraySlice<'a, T> {
    /// Creates a view of a level of `memory`.
    pub(super) fn new(memory: &'a ArrayMemory, level: &'a Level) -> Self {
        Self {
            memory: &memory.memory,
            level,
            place: level.whole(size_of::<T>()),
            access: Access::READ,
            elements: PhantomData,
        }
    }

    view!();

    /// Returns a view of a box: the elements `x` of each row, the rows `y` of each plane, and the
    /// planes, layers or faces `z`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) with the range and the number of elements,
    /// rows or planes.
    pub fn region(
        &self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<Self> {
        Ok(Self {
            place: region::<T>(&self.place, x, y, z)?,
            ..*self
        })
    }

    /// Returns a surface through which a kernel reads the whole array or level.
    ///
    /// # Errors
    ///
    /// [`Error::Array`](crate::Error::Array) unless the array was created with
    /// [`ArrayFlags::SURFACE`](super::ArrayFlags::SURFACE).
    pub fn surface(&self) -> Result<Surface<'a>> {
        Ok(Surface {
            handle: surface_of(self.level)?,
            memory: self.memory,
            number: self.level.number,
            object: &self.level.object,
        })
    }
}

impl<'a, T: Texel> ArraySliceMut<'a, T> {
    /// Creates a view of a level of `memory`.
    pub(super) fn new(memory: &'a ArrayMemory, level: &'a Level) -> Self {
        Self {
            memory: &memory.memory,
            level,
            place: level.whole(size_of::<T>()),
            // A texture may be read at the same time on another thread, as if this were a part.
            access: Access::WRITE.of_part(),
            elements: PhantomData,
        }
    }

    view!();

    /// Returns a view of a box. See [`ArraySlice::region`].
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySlice::region`] does.
    pub fn into_region(
        self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<Self> {
        Ok(Self {
            place: region::<T>(&self.place, x, y, z)?,
            ..self
        })
    }

    /// Returns a writable view of the same elements with a shorter lifetime.
    #[must_use]
    pub fn reborrow(&mut self) -> ArraySliceMut<'_, T> {
        ArraySliceMut { ..*self }
    }

    /// Returns a surface through which a kernel writes the whole array or level. See
    /// [`Array::surface_mut`](super::Array::surface_mut).
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySlice::surface`] does.
    pub fn into_surface(self) -> Result<SurfaceMut<'a>> {
        Ok(SurfaceMut {
            handle: surface_of(self.level)?,
            memory: self.memory,
            number: self.level.number,
            object: &self.level.object,
            borrow: PhantomData,
        })
    }
}

fn extent_of<T>(place: &ArrayBox) -> Extent {
    Extent {
        // An element has at least one byte.
        width: place.width / size_of::<T>().max(1),
        height: place.height,
        depth: place.depth,
    }
}

pub(super) fn part<'a>(memory: &'a Memory, access: Access, place: &ArrayBox) -> Part<'a> {
    Part {
        memory,
        access,
        address: place.number,
        bytes: 1,
    }
}

fn surface_of(level: &Level) -> Result<u64> {
    match level.surface {
        0 => Err(contradiction(
            "a surface needs an array that was created with ArrayFlags::SURFACE",
            "create the array with this flag",
        )),
        surface => Ok(surface),
    }
}

/// Returns the part of `place` that the ranges select.
fn region<T>(
    place: &ArrayBox,
    x: impl RangeBounds<usize>,
    y: impl RangeBounds<usize>,
    z: impl RangeBounds<usize>,
) -> Result<ArrayBox> {
    let extent = extent_of::<T>(place);
    let (left, width) = resolve_of("elements in a row", x, extent.width)?;
    let (top, height) = resolve_of("rows", y, extent.height)?;
    let (front, depth) = resolve_of("planes", z, extent.depth)?;
    Ok(ArrayBox {
        x: place.x + left * size_of::<T>(),
        y: place.y + top,
        z: place.z + front,
        width: width * size_of::<T>(),
        height,
        depth,
        ..*place
    })
}

impl<T: Texel> fmt::Debug for ArraySlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("ArraySlice", self.extent(), self.level, f)
    }
}

impl<T: Texel> fmt::Debug for ArraySliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("ArraySliceMut", self.extent(), self.level, f)
    }
}

fn describe(name: &str, extent: Extent, level: &Level, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{name}({extent} of {})", level.shape)
}
