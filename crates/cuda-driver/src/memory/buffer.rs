//! The owner of device memory.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, PageLocked, Source, bytes_of};
use crate::error::Result;
use crate::stream::Stream;

/// `len` elements of `T` on the device, freed when it goes.
///
/// A buffer has a home stream, the one it was made on. Copies and frees run there. Kernels on any
/// stream of the same context may take it as an argument, as `&buffer` if they only read it and as
/// `&mut buffer` if they write it; uses on different streams are ordered by events where the stream
/// changes, at no cost where it does not. Dropping it frees the memory behind all uses, without
/// waiting.
///
/// A length of 0 is fine, and calls nothing.
pub struct DeviceBuffer<T: DeviceRepr> {
    pub(crate) memory: Memory,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: DeviceRepr> DeviceBuffer<T> {
    /// `cuMemAllocAsync()`—`len` elements with whatever was in that memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the bytes asked for,
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if they do not fit in an address.
    ///
    /// # Safety
    ///
    /// Nothing reads an element before something has written it. (Any bits are a `T`; but what
    /// another process or an earlier buffer left there must not leak out.)
    #[doc(alias = "cuMemAllocAsync")]
    pub unsafe fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        let memory = Memory::allocate(stream, bytes_of::<T>(len)?)?;
        Ok(Self::of_memory(memory, len))
    }

    /// `cuMemAllocAsync()`, `cuMemsetD8Async(0)`—`len` elements of zero bits.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit).
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let mut buffer = unsafe { Self::uninit(stream, len) }?;
        buffer.set_zero()?;
        Ok(buffer)
    }

    /// `cuMemAlloc()`, `cuMemsetD8Async(0)`—`len` elements of zero bits, in memory that is of no
    /// pool.
    ///
    /// [`Stream::wait_value`] and its like take no other. Making it needs the context to be
    /// current; dropping it waits for everything that runs in the context (`cuMemFree`).
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit).
    #[doc(alias = "cuMemAlloc")]
    pub fn zeroed_plain(stream: &Stream, len: usize) -> Result<Self> {
        let memory = Memory::allocate_plain(stream, bytes_of::<T>(len)?)?;
        let mut buffer = Self::of_memory(memory, len);
        buffer.set_zero()?;
        Ok(buffer)
    }

    /// `cuMemAllocAsync()`, [`fill`](DeviceSliceMut::fill)—`len` elements that all are `value`.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit).
    pub fn filled(stream: &Stream, len: usize, value: T) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let mut buffer = unsafe { Self::uninit(stream, len) }?;
        buffer.fill(value)?;
        Ok(buffer)
    }

    /// A copy of `source`.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit) and [`copy_from_host`](Self::copy_from_host).
    pub fn from_host(stream: &Stream, source: &[T]) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below.
        let mut buffer = unsafe { Self::uninit(stream, source.len()) }?;
        buffer.copy_from_host(source)?;
        Ok(buffer)
    }

    /// Takes memory of `cuMemAllocAsync`, or of [`into_raw`](Self::into_raw), which is then freed
    /// with the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if so many elements do not fit in an
    /// address.
    ///
    /// # Safety
    ///
    /// `address` is aligned for `T` and the start of an allocation of at least `len` elements that
    /// the context of `stream` can use, from `cuMemAllocAsync` (from `cuMemAlloc` if the device has
    /// no memory pools). All of it was written. Nobody else frees it, and what still uses it is on
    /// `stream` or has been waited for by it.
    pub unsafe fn from_raw(stream: &Stream, address: CUdeviceptr, len: usize) -> Result<Self> {
        let source = Source::allocated(stream);
        // SAFETY: the memory must be ours to free ← the caller says so.
        unsafe { Self::of_source(stream, address, len, source) }
    }

    /// Uses memory of other code, and drops `owner` when the buffer is gone and all its uses are
    /// done.
    ///
    /// The drop of such a buffer waits for its uses. If that fails, because the device is lost,
    /// `owner` stays.
    ///
    /// # Errors
    ///
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if so many elements do not fit in an
    /// address.
    ///
    /// # Safety
    ///
    /// `address` is aligned for `T`, and `len` elements from there on are memory that the context
    /// of `stream` can use and that was written. As long as `owner` lives it is not freed, and
    /// nobody else writes it, nor reads what the buffer is written with. What still uses it is on
    /// `stream` or has been waited for by it.
    pub unsafe fn from_foreign(
        stream: &Stream,
        address: CUdeviceptr,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        let source = Source::Foreign(Box::new(owner));
        // SAFETY: the memory must stay until the owner is dropped ← the caller says so.
        unsafe { Self::of_source(stream, address, len, source) }
    }

    /// # Safety
    ///
    /// `len` elements from `address` on are memory that the context of `stream` can use, are of
    /// this source, and nobody else gives them back.
    unsafe fn of_source(
        stream: &Stream,
        address: CUdeviceptr,
        len: usize,
        source: Source,
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        // SAFETY: as the caller says.
        let memory = unsafe { Memory::of_source(stream, address, bytes, source) };
        Ok(Self::of_memory(memory, len))
    }

    /// Memory that holds at least `len` elements.
    pub(crate) fn of_memory(memory: Memory, len: usize) -> Self {
        Self {
            memory,
            len,
            elements: PhantomData,
        }
    }

    /// A copy of the buffer in new memory of the same home stream.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit) and [`copy_from`](DeviceSliceMut::copy_from).
    pub fn try_clone(&self) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let mut clone = unsafe { Self::uninit(self.stream(), self.len) }?;
        clone.as_mut_slice().copy_from(&self.as_slice())?;
        Ok(clone)
    }

    /// The address, which the caller has to free now; the number of elements is to be asked for
    /// before.
    ///
    /// The home stream is made to wait for what other streams still do with the memory:
    /// `cuMemFreeAsync` on it is how to free it (`cuMemFree` once the stream is done, if the device
    /// has no memory pools). The owner of memory from [`from_foreign`](Self::from_foreign) is never
    /// dropped.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`](crate::Error::StillInUse) if a [graph](crate::Graph) holds the memory,
    /// which then goes with the graph; what the calls answer, and the memory then stays allocated.
    pub fn into_raw(self) -> Result<CUdeviceptr> {
        self.memory.into_raw()
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address on the device; 0 for a length of 0.
    ///
    /// What is done with it is not ordered with the uses that this crate sees.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.memory.address
    }

    /// The bytes of its elements.
    pub(crate) fn reach(&self) -> usize {
        // No overflow: the buffer is of memory.
        self.len * size_of::<T>()
    }

    /// The home stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.memory.home()
    }

    /// All elements, to read.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(&self.memory, self.memory.address, self.len)
    }

    /// All elements, to write.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(&self.memory, self.memory.address, self.len)
    }

    /// The elements of `range`, to read; `None` if it is out of bounds.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Option<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// The elements of `range`, to write; `None` if it is out of bounds.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<DeviceSliceMut<'_, T>> {
        self.as_mut_slice().into_slice(range)
    }

    /// Pieces of `size` elements, the last of which may be shorter, to read; `None` if `size` is 0.
    #[must_use]
    pub fn chunks(&self, size: usize) -> Option<impl ExactSizeIterator<Item = DeviceSlice<'_, T>>> {
        self.as_slice().chunks(size)
    }

    /// Pieces of `size` elements, the last of which may be shorter, all to write; `None` if `size`
    /// is 0.
    #[must_use]
    pub fn chunks_mut(
        &mut self,
        size: usize,
    ) -> Option<impl ExactSizeIterator<Item = DeviceSliceMut<'_, T>>> {
        self.as_mut_slice().chunks_mut(size)
    }

    /// `cuMemsetD8Async(0)`—Queues zero bits for all elements, on the home stream.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn set_zero(&mut self) -> Result<()> {
        self.as_mut_slice().set_zero()
    }

    /// `cuMemsetD8Async(value)` and its like—Queues `value` for all elements, on the home stream;
    /// see [`DeviceSliceMut::fill`].
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.as_mut_slice().fill(value)
    }

    /// `cuMemcpyHtoDAsync()`—Overwrites the buffer; returns when `source` is free again. See
    /// [`DeviceSliceMut::copy_from_host`].
    ///
    /// # Errors
    ///
    /// As there.
    #[doc(alias = "cuMemcpyHtoD")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.as_mut_slice().copy_from_host(source)
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the buffer; returns when `destination`
    /// is filled. See [`DeviceSlice::copy_to_host`].
    ///
    /// # Errors
    ///
    /// As there.
    #[doc(alias = "cuMemcpyDtoH")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        self.as_slice().copy_to_host(destination)
    }

    /// `cuMemcpyHtoDAsync()`, `cuStreamSynchronize()`—Overwrites the buffer from page-locked
    /// memory, directly. See [`DeviceSliceMut::copy_from_pinned`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn copy_from_pinned(&mut self, source: &impl PageLocked<T>) -> Result<()> {
        self.as_mut_slice().copy_from_pinned(source)
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the buffer to page-locked memory,
    /// directly. See [`DeviceSlice::copy_to_pinned`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn copy_to_pinned(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        self.as_slice().copy_to_pinned(destination)
    }

    /// A copy of the buffer on the host.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// `cuMemFreeAsync()`—Frees the memory behind all uses, and answers what the driver says.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn close(self) -> Result<()> {
        self.memory.close()
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
