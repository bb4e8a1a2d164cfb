//! The owner of device memory.
//!
//! In C the program pairs `cuMemAllocAsync` with `cuMemFreeAsync` and orders the free after every
//! use. A [`DeviceBuffer`] records its uses and frees its memory after them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::allocator::sealed::TOKEN;
use super::{Allocator, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, PageLocked, bytes_of};
use crate::error::Result;
use crate::stream::Stream;

/// An array of `len` elements of `T` in device memory. The memory is freed when the buffer is
/// dropped.
///
/// A buffer has an owning stream: the stream that it was created on. Copies, fills and the free run
/// on the owning stream, unless a method such as [`fill_on`](Self::fill_on) names another stream of
/// the context. A kernel on any stream of the same context can take the buffer as an
/// argument, as `&buffer` if the kernel only reads it and as `&mut buffer` if it writes it. Where
/// consecutive uses are on different streams, the crate orders them with events; uses on one stream
/// cost nothing extra. Dropping the buffer queues the free after all uses and does not wait for
/// them.
///
/// A buffer may have a length of 0. It then has no memory, and creating it, copying it and filling
/// it do not call the driver.
///
/// ```
/// use cuda_driver::DeviceBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut buffer = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0])?;
/// assert_eq!(buffer.to_vec()?, [1.0, 2.0, 3.0]);
/// buffer.copy_from_host(&[4.0, 5.0, 6.0])?;
/// buffer.slice_mut(1..)?.fill(0.5)?;
/// assert_eq!(buffer.to_vec()?, [4.0, 0.5, 0.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DeviceBuffer<T> {
    pub(crate) memory: Memory,
    len: usize,
    elements: PhantomData<T>,
}

impl<T> DeviceBuffer<T> {
    /// `cuMemAllocAsync()`, `cuMemsetD8Async(0)`—Allocates `len` elements and queues a fill with
    /// zero bits. `stream` becomes the owning stream of the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the number of bytes requested, or
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if that number does not fit in a
    /// `usize`.
    #[track_caller]
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self>
    where
        T: DeviceRepr,
    {
        Self::zeroed_in(stream, stream, len)
    }

    /// `cuMemAllocAsync()`, [`fill`](DeviceSliceMut::fill)—Allocates `len` elements and queues a
    /// fill with `value`.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) does.
    #[track_caller]
    pub fn filled(stream: &Stream, len: usize, value: T) -> Result<Self>
    where
        T: DeviceRepr,
    {
        Self::filled_in(stream, stream, len, value)
    }

    /// `cuMemAllocAsync()`—Allocates a buffer and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) and [`copy_from_host`](Self::copy_from_host) do.
    #[track_caller]
    pub fn from_host(stream: &Stream, source: &[T]) -> Result<Self>
    where
        T: DeviceRepr,
    {
        Self::from_host_in(stream, stream, source)
    }

    /// `cuMemAllocAsync()`—Allocates `len` elements. The contents are undefined.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) does.
    ///
    /// # Safety
    ///
    /// No element may be read before it has been written. (Every bit pattern is a valid `T`, but
    /// the data that another process or an earlier buffer left in the memory must not leak.)
    #[doc(alias = "cuMemAllocAsync")]
    #[doc(alias = "cudaMallocAsync")]
    #[track_caller]
    pub unsafe fn uninit(stream: &Stream, len: usize) -> Result<Self>
    where
        T: DeviceRepr,
    {
        // SAFETY: the contract of `uninit_in` must hold ← the caller upholds it.
        unsafe { Self::uninit_in(stream, stream, len) }
    }

    /// Copies the buffer to new memory with the same owning stream.
    ///
    /// # Errors
    ///
    /// Fails as [`uninit`](Self::uninit) and [`copy_from`](DeviceSliceMut::copy_from) do.
    #[track_caller]
    pub fn try_clone(&self) -> Result<Self>
    where
        T: DeviceRepr,
    {
        // SAFETY: the elements must be written before they are read ← they are filled below, on the
        // same stream.
        let mut clone = unsafe { Self::uninit(self.stream(), self.len) }?;
        clone.copy_from(self)?;
        Ok(clone)
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device address, or 0 for a length of 0.
    ///
    /// The crate does not track uses of the raw address. The caller must order them with the
    /// tracked uses.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.memory.address
    }

    /// Returns the size of the elements in bytes.
    pub(crate) fn span_bytes(&self) -> usize {
        // This cannot overflow: the elements lie in one allocation.
        self.len * size_of::<T>()
    }

    /// Returns the owning stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.memory.owning_stream()
    }
}

/// Views, copies and fills.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// Returns a read-only view of all elements.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(&self.memory, self.memory.address, self.len)
    }

    /// Returns a writable view of all elements.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(&self.memory, self.memory.address, self.len)
    }

    /// Returns a read-only view of the elements in `range`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) with the range and the length.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// Returns a writable view of the elements in `range`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) with the range and the length.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.as_mut_slice().into_slice(range)
    }

    /// Returns read-only views of consecutive chunks of `size` elements. The last chunk may be
    /// shorter.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if `size` is 0.
    pub fn chunks(&self, size: usize) -> Result<impl ExactSizeIterator<Item = DeviceSlice<'_, T>>> {
        self.as_slice().chunks(size)
    }

    /// Returns writable views of consecutive chunks of `size` elements. The last chunk may be
    /// shorter.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if `size` is 0.
    pub fn chunks_mut(
        &mut self,
        size: usize,
    ) -> Result<impl ExactSizeIterator<Item = DeviceSliceMut<'_, T>>> {
        self.as_mut_slice().chunks_mut(size)
    }

    /// `cuMemsetD8Async(0)`—Queues a fill of all elements with zero bits, on the owning stream.
    pub fn set_zero(&mut self) -> Result<()> {
        self.as_mut_slice().set_zero()
    }

    /// `cuMemsetD8Async(value)` and related calls—Queues a fill of all elements with `value`, on
    /// the owning stream. See [`DeviceSliceMut::fill`].
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.as_mut_slice().fill(value)
    }

    /// `cuMemcpyDtoDAsync()`—Queues a copy from another buffer or a view, on the owning stream of
    /// this buffer. See [`DeviceSliceMut::copy_from`].
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let x = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
    /// let mut y = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
    /// y.copy_from(&x)?;
    /// y.slice_mut(..2)?.copy_from(x.slice(1..)?)?;
    /// assert_eq!(y.to_vec()?, [2, 3, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from`] does.
    #[doc(alias = "cuMemcpyDtoD")]
    pub fn copy_from<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> Result<()> {
        self.as_mut_slice().copy_from(source)
    }

    /// `cuMemcpyHtoDAsync()`—Copies `source` into the buffer. Returns when `source` may be reused.
    /// See [`DeviceSliceMut::copy_from_host`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_host`] does.
    #[doc(alias = "cuMemcpyHtoD")]
    #[doc(alias = "cudaMemcpy")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.as_mut_slice().copy_from_host(source)
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the buffer to `destination`. Returns
    /// when the copy has completed. See [`DeviceSlice::copy_to_host`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_host`] does.
    #[doc(alias = "cuMemcpyDtoH")]
    #[doc(alias = "cudaMemcpy")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        self.as_slice().copy_to_host(destination)
    }

    /// `cuMemcpyHtoDAsync()`, `cuStreamSynchronize()`—Copies page-locked memory into the buffer,
    /// without an intermediate copy. See [`DeviceSliceMut::copy_from_pinned`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_pinned`] does.
    pub fn copy_from_pinned(&mut self, source: &impl PageLocked<T>) -> Result<()> {
        self.as_mut_slice().copy_from_pinned(source)
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the buffer to page-locked memory,
    /// without an intermediate copy. See [`DeviceSlice::copy_to_pinned`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_pinned`] does.
    pub fn copy_to_pinned(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        self.as_slice().copy_to_pinned(destination)
    }

    /// Copies all elements to a new `Vec`.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::to_vec`] does.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// `cuMemFreeAsync()`—Queues the free after all uses, as dropping the buffer does, and returns
    /// the error if that fails.
    #[doc(alias = "cuMemFreeAsync")]
    #[doc(alias = "cudaFreeAsync")]
    pub fn close(self) -> Result<()> {
        Ok(self.memory.close()?)
    }
}

/// Constructors with another [`Allocator`] than the current pool of the device.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// Allocates `len` elements with `allocator` and queues a fill with zero bits. `stream` becomes
    /// the owning stream of the buffer.
    ///
    /// # Errors
    ///
    /// - [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the number of bytes requested. A
    ///   [`CachingPool`](crate::memory::CachingPool) first frees all memory that it has cached.
    /// - [`Error::PoolLimit`](crate::Error::PoolLimit) if the allocation would exceed the limit of
    ///   a [`CachingPool`](crate::memory::CachingPool).
    /// - [`Error::SizeOverflow`](crate::Error::SizeOverflow) if the size does not fit in a
    ///   `usize`.
    /// - [`Error::OtherContext`](crate::Error::OtherContext) if `stream` belongs to another device
    ///   than a [`MemoryPool`](crate::memory::MemoryPool), or to another context than another
    ///   allocator.
    #[track_caller]
    pub fn zeroed_in(allocator: &impl Allocator, stream: &Stream, len: usize) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← they are filled below, on the
        // same stream.
        let mut buffer = unsafe { Self::uninit_in(allocator, stream, len) }?;
        buffer.set_zero()?;
        Ok(buffer)
    }

    /// Allocates `len` elements with `allocator` and queues a fill with `value`.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed_in`](Self::zeroed_in) does.
    #[track_caller]
    pub fn filled_in(
        allocator: &impl Allocator,
        stream: &Stream,
        len: usize,
        value: T,
    ) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← they are filled below, on the
        // same stream.
        let mut buffer = unsafe { Self::uninit_in(allocator, stream, len) }?;
        buffer.fill(value)?;
        Ok(buffer)
    }

    /// Allocates a buffer with `allocator` and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed_in`](Self::zeroed_in) and [`copy_from_host`](Self::copy_from_host) do.
    #[track_caller]
    pub fn from_host_in(allocator: &impl Allocator, stream: &Stream, source: &[T]) -> Result<Self> {
        stream.expect_direct("DeviceBuffer::from_host")?;
        // SAFETY: the elements must be written before they are read ← they are filled below.
        let mut buffer = unsafe { Self::uninit_in(allocator, stream, source.len()) }?;
        buffer.copy_from_host(source)?;
        Ok(buffer)
    }

    /// Allocates `len` elements with `allocator`. The contents are undefined.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed_in`](Self::zeroed_in) does.
    ///
    /// # Safety
    ///
    /// No element may be read before it has been written, as for [`uninit`](Self::uninit).
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[doc(alias = "cudaMallocFromPoolAsync")]
    #[track_caller]
    pub unsafe fn uninit_in(
        allocator: &impl Allocator,
        stream: &Stream,
        len: usize,
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        allocator.check(stream, TOKEN)?;
        let memory = if bytes == 0 {
            Memory::nothing(stream)
        } else {
            allocator.allocate(stream, bytes, TOKEN)?.0
        };
        Ok(Self::of_memory(memory, len))
    }
}

/// Parts.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// Changes the number of elements. The memory must hold at least that many.
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len;
    }

    /// Creates a buffer of `len` elements. `memory` must hold at least that many.
    pub(crate) fn of_memory(memory: Memory, len: usize) -> Self {
        Self {
            memory,
            len,
            elements: PhantomData,
        }
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceBuffer({:#x}, {} x {})",
            self.memory.address,
            self.len,
            size_of::<T>()
        )
    }
}
