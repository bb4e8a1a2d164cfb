//! The owner of device memory.
//!
//! In C the program pairs `cuMemAllocAsync` with `cuMemFreeAsync` and orders the free after every
//! use. A [`DeviceBuffer`] records its uses and frees its memory after them.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::allocator::sealed::TOKEN;
use super::{
    Allocator, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, PageLocked, Source, bytes_of,
};
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
pub struct DeviceBuffer<T: DeviceRepr> {
    pub(crate) memory: Memory,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: DeviceRepr> DeviceBuffer<T> {
    /// `cuMemAllocAsync()`, `cuMemsetD8Async(0)`—Allocates `len` elements and queues a fill with
    /// zero bits. `stream` becomes the owning stream of the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the number of bytes requested, or
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if that number does not fit in an
    /// address.
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self> {
        Self::zeroed_in(stream, stream, len)
    }

    /// `cuMemAllocAsync()`, [`fill`](DeviceSliceMut::fill)—Allocates `len` elements and queues a
    /// fill with `value`.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) does.
    pub fn filled(stream: &Stream, len: usize, value: T) -> Result<Self> {
        Self::filled_in(stream, stream, len, value)
    }

    /// `cuMemAllocAsync()`—Allocates a buffer and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) and [`copy_from_host`](Self::copy_from_host) do.
    pub fn from_host(stream: &Stream, source: &[T]) -> Result<Self> {
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
    pub unsafe fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        // SAFETY: the contract of `uninit_in` must hold ← the caller upholds it.
        unsafe { Self::uninit_in(stream, stream, len) }
    }

    /// Copies the buffer to new memory with the same owning stream.
    ///
    /// # Errors
    ///
    /// Fails as [`uninit`](Self::uninit) and [`copy_from`](DeviceSliceMut::copy_from) do.
    pub fn try_clone(&self) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← they are filled below, on the
        // same stream.
        let mut clone = unsafe { Self::uninit(self.stream(), self.len) }?;
        clone.as_mut_slice().copy_from(&self.as_slice())?;
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
        self.memory.close()
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
    /// - [`Error::SizeOverflow`](crate::Error::SizeOverflow) if the size does not fit in an
    ///   address.
    /// - [`Error::OtherContext`](crate::Error::OtherContext) if `stream` belongs to another device
    ///   than a [`MemoryPool`](crate::memory::MemoryPool), or to another context than another
    ///   allocator.
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
    pub fn from_host_in(allocator: &impl Allocator, stream: &Stream, source: &[T]) -> Result<Self> {
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

/// Exchange of raw addresses with other code.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// Takes ownership of memory from `cuMemAllocAsync` or [`into_raw`](Self::into_raw). The memory
    /// is freed when the buffer is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if the size of `len` elements does not
    /// fit in an address.
    ///
    /// # Safety
    ///
    /// * `address` is aligned for `T`, and is the start of an allocation of at least `len` elements
    ///   that the context of `stream` can use.
    /// * The allocation was made by `cuMemAllocAsync`, or by `cuMemAlloc` if the device has no
    ///   memory pools.
    /// * All `len` elements have been written.
    /// * No other code frees the memory.
    /// * Every use of the memory so far is on `stream`, or `stream` has been made to wait for it.
    pub unsafe fn from_raw(stream: &Stream, address: CUdeviceptr, len: usize) -> Result<Self> {
        let source = Source::allocated(stream);
        // SAFETY: the buffer must be the only owner that frees the memory ← the caller guarantees
        // it.
        unsafe { Self::of_source(stream, address, len, source) }
    }

    /// Creates a buffer from memory that other code owns. `owner` is dropped after the buffer has
    /// been dropped and all its uses have completed.
    ///
    /// Dropping such a buffer waits for its uses. If the wait fails, because the device is lost,
    /// `owner` is leaked.
    ///
    /// # Errors
    ///
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if the size of `len` elements does not
    /// fit in an address.
    ///
    /// # Safety
    ///
    /// * `address` is aligned for `T`, and the `len` elements from there on are memory that the
    ///   context of `stream` can use and that has been written.
    /// * While `owner` is alive, the memory is not freed, no other code writes it, and no other
    ///   code reads what is written through the buffer.
    /// * Every use of the memory so far is on `stream`, or `stream` has been made to wait for it.
    pub unsafe fn from_foreign(
        stream: &Stream,
        address: CUdeviceptr,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        let source = Source::foreign(owner);
        // SAFETY: the memory must stay valid until the owner is dropped ← the caller guarantees it.
        unsafe { Self::of_source(stream, address, len, source) }
    }

    /// Creates a buffer as [`from_foreign`](Self::from_foreign) does. Dropping it does not wait: a
    /// worker thread drops `owner` after all uses.
    ///
    /// # Safety
    ///
    /// The requirements of [`from_foreign`](Self::from_foreign) apply.
    #[cfg(feature = "dlpack")]
    pub(crate) unsafe fn from_foreign_deferred(
        stream: &Stream,
        address: CUdeviceptr,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        let source = Source::foreign_deferred(owner);
        // SAFETY: the memory must stay valid until the owner is dropped ← the caller guarantees it.
        unsafe { Self::of_source(stream, address, len, source) }
    }

    /// # Safety
    ///
    /// The `len` elements from `address` on are memory that the context of `stream` can use. The
    /// memory comes from `source`, and no other code frees it.
    unsafe fn of_source(
        stream: &Stream,
        address: CUdeviceptr,
        len: usize,
        source: Source,
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        // SAFETY: the memory must be usable, from `source`, and freed by no other code ← the caller
        // guarantees it; `bytes` is the size of the `len` elements.
        let memory = unsafe { Memory::of_source(stream, address, bytes, source) };
        Ok(Self::of_memory(memory, len))
    }

    /// Releases ownership and returns the address. The caller must free the memory. Read
    /// [`len`](Self::len) before this call if it is needed.
    ///
    /// The owning stream is made to wait for all uses on other streams, so `cuMemFreeAsync` on the
    /// owning stream is the right way to free the memory. If the device has no memory pools, wait
    /// for the owning stream and call `cuMemFree`. The owner of memory from
    /// [`from_foreign`](Self::from_foreign) is leaked.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`](crate::Error::StillInUse) if a [graph](crate::Graph) uses the memory.
    /// The memory is then freed with the last graph that uses it. If a driver call fails, the
    /// memory is leaked.
    pub fn into_raw(self) -> Result<CUdeviceptr> {
        self.memory.into_raw()
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

impl<T: DeviceRepr> fmt::Debug for DeviceBuffer<T> {
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
