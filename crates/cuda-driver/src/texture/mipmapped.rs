//! The owner of a mipmapped array.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_sys::CUmipmappedArray;

use super::array::expect_memory;
use super::copy::fill_with_zeros;
use super::format::Texel;
use super::memory::{ArrayMemory, Level, RawHandle};
use super::shape::{ArrayFlags, ArrayShape};
use super::view::{ArraySlice, ArraySliceMut};
use crate::error::{RangeError, Result};
use crate::stream::Stream;

/// An array in several levels of detail. Each level has half the size of the one before in each
/// dimension, and the same number of layers.
///
/// A level is copied, and accessed through surfaces, like an [`Array`](super::Array). A
/// [`Texture`](super::Texture) of the whole array selects levels, and interpolates between them.
///
/// ```
/// use cuda_driver::texture::{ArrayFlags, ArrayShape, MipmappedArray};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let shape = ArrayShape::two_d(4, 4);
/// let mut pyramid = MipmappedArray::<f32>::zeroed(&stream, &shape, 3, ArrayFlags::empty())?;
/// assert_eq!(pyramid.level(1)?.extent(), (2, 2).into());
/// pyramid.level_mut(2)?.copy_from_host(&[5.0])?;
/// assert_eq!(pyramid.level(2)?.to_vec()?, [5.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "CUmipmappedArray")]
#[doc(alias = "cudaMipmappedArray_t")]
pub struct MipmappedArray<T: Texel> {
    pub(super) memory: Arc<ArrayMemory>,
    pub(super) elements: PhantomData<T>,
}

impl<T: Texel> MipmappedArray<T> {
    /// `cuMipmappedArrayCreate(shape, levels, flags)`, `cuMemcpy3DAsync()`—Allocates an array with
    /// `levels` levels, and queues copies of zeros into all of them. `shape` is that of level 0.
    ///
    /// # Errors
    ///
    /// The errors of [`Array::zeroed`](super::Array::zeroed), and
    /// [`Error::Array`](crate::Error::Array) if the shape has fewer levels.
    #[track_caller]
    pub fn zeroed(
        stream: &Stream,
        shape: &ArrayShape,
        levels: u32,
        flags: ArrayFlags,
    ) -> Result<Self> {
        expect_memory(flags)?;
        // SAFETY: the elements must be written before they are read ← they are written below, or
        // the array is dropped.
        let mut this = unsafe { Self::uninit(stream, shape, levels, flags) }?;
        for level in 0..levels {
            fill_with_zeros(&mut this.level_mut(level)?)?;
        }
        Ok(this)
    }

    /// `cuMipmappedArrayCreate(shape, levels, flags)`—Allocates an array with `levels` levels. The
    /// contents are undefined.
    ///
    /// # Errors
    ///
    /// The errors of [`Array::uninit`](super::Array::uninit), and those of
    /// [`zeroed`](Self::zeroed) about the levels.
    ///
    /// # Safety
    ///
    /// The requirements of [`Array::uninit`](super::Array::uninit) apply.
    #[doc(alias = "cuMipmappedArrayCreate")]
    #[doc(alias = "cudaMallocMipmappedArray")]
    #[track_caller]
    pub unsafe fn uninit(
        stream: &Stream,
        shape: &ArrayShape,
        levels: u32,
        flags: ArrayFlags,
    ) -> Result<Self> {
        Ok(Self {
            memory: ArrayMemory::mipmapped::<T>(stream, shape, levels, flags)?,
            elements: PhantomData,
        })
    }

    /// Returns the number of levels.
    #[must_use]
    pub fn levels(&self) -> u32 {
        // The number was given as a `u32`.
        self.memory.levels.len() as u32
    }

    /// Returns the shape of level 0.
    #[must_use]
    pub fn shape(&self) -> ArrayShape {
        self.memory.first().shape
    }

    /// Returns the owning stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.memory.memory.owning_stream()
    }

    /// Returns the raw handle.
    ///
    /// The crate does not track uses of the raw handle. The caller must order them with the tracked
    /// uses, and must not destroy the array.
    #[must_use]
    pub fn as_raw(&self) -> CUmipmappedArray {
        match self.memory.handle {
            RawHandle::Mipmapped(array) => array.0,
            RawHandle::Array(_) => std::ptr::null_mut(),
        }
    }

    /// `cuMipmappedArrayGetLevel(level)`—Returns a read-only view of a level.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if there is no such level.
    #[doc(alias = "cuMipmappedArrayGetLevel")]
    #[doc(alias = "cudaGetMipmappedArrayLevel")]
    pub fn level(&self, level: u32) -> Result<ArraySlice<'_, T>> {
        Ok(ArraySlice::new(&self.memory, self.find(level)?))
    }

    /// `cuMipmappedArrayGetLevel(level)`—Returns a writable view of a level.
    ///
    /// # Errors
    ///
    /// Fails as [`level`](Self::level) does.
    pub fn level_mut(&mut self, level: u32) -> Result<ArraySliceMut<'_, T>> {
        Ok(ArraySliceMut::new(&self.memory, self.find(level)?))
    }

    fn find(&self, level: u32) -> Result<&Level> {
        let (index, len) = (level as usize, self.memory.levels.len());
        let found = self.memory.levels.get(index);
        found.ok_or_else(|| {
            RangeError::Range {
                range: (
                    std::ops::Bound::Included(index),
                    std::ops::Bound::Included(index),
                ),
                len,
                what: "levels",
            }
            .into()
        })
    }
}

impl<T: Texel> fmt::Debug for MipmappedArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, levels) = (self.shape(), self.levels());
        write!(f, "MipmappedArray({levels} levels of {shape})")
    }
}
