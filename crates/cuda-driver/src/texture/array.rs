//! The owner of an array.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use cuda_sys::CUarray;

use super::copy::{ArraySource, ArrayTarget, fill_with_zeros};
use super::format::Texel;
use super::memory::ArrayMemory;
use super::shape::{ArrayFlags, ArrayShape, WITH_MEMORY};
use super::surface::{Surface, SurfaceMut};
use super::view::{ArraySlice, ArraySliceMut};
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::types::Extent;

/// Device memory for elements of `T`, in a layout that textures read fast (`CUarray`). It has no
/// address.
///
/// A copy reads or writes the whole array, or a box of elements that [`region`](Self::region) or
/// [`region_mut`](Self::region_mut) selects. As with a
/// [`PitchedBuffer`](crate::memory::PitchedBuffer), a copy runs on the owning stream, or on the one
/// that a method with `_on` names. Kernels read the array through a [`Texture`](super::Texture),
/// and read or write it through a [surface](Self::surface_mut).
///
/// The memory is freed when the array and all its textures are dropped, and no graph uses it.
///
/// ```
/// use cuda_driver::memory::PitchedBuffer;
/// use cuda_driver::texture::{Array, ArrayShape};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // Two rows of three elements.
/// let shape = ArrayShape::two_d(3, 2);
/// let mut array = Array::from_host(&stream, &shape, &[1_u32, 2, 3, 4, 5, 6])?;
/// assert_eq!(array.region(1..2, .., ..)?.to_vec()?, [2, 5]);
///
/// // A copy of device memory to a part of the array, queued on the stream.
/// let row = PitchedBuffer::from_host(&stream, (2, 1), &[8_u32, 9])?;
/// array.region_mut(1.., 1.., ..)?.copy_from(row.as_slice())?;
/// assert_eq!(array.to_vec()?, [1, 2, 3, 4, 8, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "CUarray")]
#[doc(alias = "cudaArray_t")]
pub struct Array<T: Texel> {
    pub(super) memory: Arc<ArrayMemory>,
    pub(super) elements: PhantomData<T>,
}

impl<T: Texel> Array<T> {
    /// `cuArray3DCreate(shape)`—Allocates an array and copies `source` into it. The rows of
    /// `source` are contiguous.
    ///
    /// # Errors
    ///
    /// [`Error::Array`](crate::Error::Array) with the limit of the device for this shape,
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), and the errors of
    /// [`ArraySliceMut::copy_from_host`].
    #[track_caller]
    pub fn from_host(stream: &Stream, shape: &ArrayShape, source: &[T]) -> Result<Self> {
        Self::from_host_with(stream, shape, ArrayFlags::empty(), source)
    }

    /// `cuArray3DCreate(shape, flags)`—Allocates an array for the uses in `flags`, and copies
    /// `source` into it.
    ///
    /// # Errors
    ///
    /// The errors of [`from_host`](Self::from_host), and
    /// [`Error::UnsafeFlags`](crate::Error::UnsafeFlags) if `flags` has others than
    /// [`ArrayFlags::SURFACE`] and [`ArrayFlags::GATHER`]: with [`ArrayFlags::SPARSE`], for
    /// example, the array would have no memory.
    #[track_caller]
    pub fn from_host_with(
        stream: &Stream,
        shape: &ArrayShape,
        flags: ArrayFlags,
        source: &[T],
    ) -> Result<Self> {
        expect_memory(flags)?;
        // SAFETY: the elements must be written before they are read ← they are written below, or
        // the array is dropped.
        let mut array = unsafe { Self::uninit(stream, shape, flags) }?;
        array.as_mut_slice().copy_from_host(source)?;
        Ok(array)
    }

    /// `cuArray3DCreate(shape, flags)`, `cuMemcpy3DAsync()`—Allocates an array for the uses in
    /// `flags`, and queues copies of zeros into it: CUDA has no fill of arrays.
    ///
    /// # Errors
    ///
    /// The errors of [`from_host_with`](Self::from_host_with).
    #[track_caller]
    pub fn zeroed(stream: &Stream, shape: &ArrayShape, flags: ArrayFlags) -> Result<Self> {
        expect_memory(flags)?;
        // SAFETY: the elements must be written before they are read ← they are written below, or
        // the array is dropped.
        let mut array = unsafe { Self::uninit(stream, shape, flags) }?;
        fill_with_zeros(&mut array.as_mut_slice())?;
        Ok(array)
    }

    /// `cuArray3DCreate(shape, flags)`—Allocates an array. The contents are undefined.
    ///
    /// # Errors
    ///
    /// The errors of [`from_host`](Self::from_host) that do not concern the copy, and
    /// [`ArrayError::NotSupported`](crate::error::ArrayError::NotSupported) if the device does not
    /// have sparse arrays.
    ///
    /// # Safety
    ///
    /// No element may be read before it has been written. With [`ArrayFlags::SPARSE`] or
    /// [`ArrayFlags::DEFERRED_MAPPING`], the array is used only while other code has mapped memory
    /// to the elements.
    #[doc(alias = "cuArray3DCreate")]
    #[doc(alias = "cuArrayCreate")]
    #[doc(alias = "cudaMallocArray")]
    #[doc(alias = "cudaMalloc3DArray")]
    #[track_caller]
    pub unsafe fn uninit(stream: &Stream, shape: &ArrayShape, flags: ArrayFlags) -> Result<Self> {
        Ok(Self {
            memory: ArrayMemory::array::<T>(stream, shape, flags)?,
            elements: PhantomData,
        })
    }

    /// Returns the shape.
    #[must_use]
    #[doc(alias = "cuArray3DGetDescriptor")]
    #[doc(alias = "cudaArrayGetInfo")]
    pub fn shape(&self) -> ArrayShape {
        self.memory.first().shape
    }

    /// Returns the uses that the array was made for.
    #[must_use]
    pub fn flags(&self) -> ArrayFlags {
        self.memory.flags
    }

    /// Returns the number of elements per row, the number of rows, and the number of planes or
    /// layers.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.shape().extent()
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
    pub fn as_raw(&self) -> CUarray {
        self.memory.first().array.0
    }

    /// Returns a read-only view of all elements.
    #[must_use]
    pub fn as_slice(&self) -> ArraySlice<'_, T> {
        ArraySlice::new(&self.memory, self.memory.first())
    }

    /// Returns a writable view of all elements.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> ArraySliceMut<'_, T> {
        ArraySliceMut::new(&self.memory, self.memory.first())
    }

    /// Returns a read-only view of a box of elements.
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySlice::region`] does.
    pub fn region(
        &self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<ArraySlice<'_, T>> {
        self.as_slice().region(x, y, z)
    }

    /// Returns a writable view of a box of elements.
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySlice::region`] does.
    pub fn region_mut(
        &mut self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<ArraySliceMut<'_, T>> {
        self.as_mut_slice().into_region(x, y, z)
    }

    /// Copies all elements to a new `Vec`. Returns when the copy has completed.
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySlice::to_vec`] does.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// Copies `source`, whose rows are contiguous, over all elements. Returns when `source` may be
    /// reused.
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySliceMut::copy_from_host`] does.
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.as_mut_slice().copy_from_host(source)
    }

    /// Queues a copy of other device memory over all elements, on the owning stream.
    ///
    /// # Errors
    ///
    /// Fails as [`ArraySliceMut::copy_from`] does.
    pub fn copy_from<'s>(&mut self, source: impl Into<ArraySource<'s, T>>) -> Result<()> {
        self.as_mut_slice().copy_from(source)
    }

    /// Returns a surface through which a kernel reads the array.
    ///
    /// # Errors
    ///
    /// [`Error::Array`](crate::Error::Array) unless the array was created with
    /// [`ArrayFlags::SURFACE`].
    #[doc(alias = "cuSurfObjectCreate")]
    #[doc(alias = "cudaCreateSurfaceObject")]
    pub fn surface(&self) -> Result<Surface<'_>> {
        self.as_slice().surface()
    }

    /// Returns a surface through which a kernel reads and writes the array. A launch that also
    /// receives a texture of this array fails, because CUDA does not define what the texture would
    /// read.
    ///
    /// # Errors
    ///
    /// Fails as [`surface`](Self::surface) does.
    pub fn surface_mut(&mut self) -> Result<SurfaceMut<'_>> {
        self.as_mut_slice().into_surface()
    }
}

impl<'a, T: Texel> From<&'a Array<T>> for ArraySource<'a, T> {
    fn from(array: &'a Array<T>) -> Self {
        array.as_slice().into()
    }
}

impl<'a, T: Texel> From<&'a mut Array<T>> for ArrayTarget<'a, T> {
    fn from(array: &'a mut Array<T>) -> Self {
        array.as_mut_slice().into()
    }
}

impl<T: Texel> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Array({}, {} x {:?})",
            self.shape(),
            T::CHANNELS,
            T::FORMAT
        )
    }
}

/// Fails if an array with these flags would have no memory.
pub(super) fn expect_memory(flags: ArrayFlags) -> Result<()> {
    let others = flags.difference(WITH_MEMORY);
    if others.is_empty() {
        return Ok(());
    }
    Err(Error::UnsafeFlags {
        call: cuda_sys::calls::cuArray3DCreate_v2,
        bits: others.bits(),
    })
}
