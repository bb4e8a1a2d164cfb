//! Buffers that stay on one thread.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use cuda_sys::CUdeviceptr;

use super::{DeviceBuffer, DeviceRepr};
use crate::error::Result;
use crate::stream::ThreadStream;
use crate::tracking::Tracker;

/// Device memory that only one thread uses, on a [`ThreadStream`].
///
/// A use on that stream records no event, because no other thread can have to wait for it. The
/// first use on another stream records one, and so does each use after it; dropping the buffer, or
/// [`into_shared`](Self::into_shared), records one.
///
/// Pass it to a kernel as `&buffer` or `&mut buffer`, as a [`DeviceBuffer`]. For views, and for an
/// [`ArgList`](crate::launch::ArgList), which another thread may launch, convert it with
/// [`into_shared`](Self::into_shared).
pub struct ThreadBuffer<T> {
    /// Taken only when the buffer is consumed.
    pub(crate) buffer: ManuallyDrop<DeviceBuffer<T>>,
    /// Makes the type neither `Send` nor `Sync`.
    on_this_thread: PhantomData<*const ()>,
}

impl<T: DeviceRepr> ThreadBuffer<T> {
    /// `cuMemAllocAsync()`, `cuMemsetD8Async(0)`—Allocates `len` elements and queues a fill with
    /// zero bits.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceBuffer::zeroed`] does.
    #[doc(alias = "cuMemAllocAsync")]
    #[track_caller]
    pub fn zeroed(stream: &ThreadStream, len: usize) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← `set_zero` queues that first.
        let mut this = unsafe { Self::uninit(stream, len) }?;
        this.buffer.set_zero()?;
        Ok(this)
    }

    /// `cuMemAllocAsync()`, `cuMemsetD32Async(value)` and related calls—Allocates `len` elements
    /// and queues a fill with `value`.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceBuffer::filled`] does.
    #[track_caller]
    pub fn filled(stream: &ThreadStream, len: usize, value: T) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← `fill` queues that first.
        let mut this = unsafe { Self::uninit(stream, len) }?;
        this.buffer.fill(value)?;
        Ok(this)
    }

    /// `cuMemAllocAsync()`—Allocates a buffer and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceBuffer::from_host`] does.
    #[track_caller]
    pub fn from_host(stream: &ThreadStream, source: &[T]) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← the copy writes them first.
        let mut this = unsafe { Self::uninit(stream, source.len()) }?;
        this.buffer.copy_from_host(source)?;
        Ok(this)
    }

    /// # Safety
    ///
    /// No element may be read before it has been written.
    #[track_caller]
    unsafe fn uninit(stream: &ThreadStream, len: usize) -> Result<Self> {
        // SAFETY: the contract is the same ← the caller upholds it.
        let mut buffer = unsafe { DeviceBuffer::uninit(stream, len) }?;
        Tracker::keep_on_thread(&mut buffer.memory.tracker);
        Ok(Self {
            buffer: ManuallyDrop::new(buffer),
            on_this_thread: PhantomData,
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns whether the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns the device address of the first element. Work that uses it in another way than
    /// through this buffer is not ordered.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.buffer.as_raw()
    }

    /// Queues a fill of all elements with `value`. See [`DeviceSliceMut::fill`].
    ///
    /// [`DeviceSliceMut::fill`]: crate::DeviceSliceMut::fill
    pub fn fill(&mut self, value: T) -> Result<()> {
        self.buffer.fill(value)
    }

    /// `cuMemcpyDtoDAsync()`—Queues a copy of all elements of `source`.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) if the lengths differ.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    pub fn copy_from(&mut self, source: &Self) -> Result<()> {
        self.buffer.copy_from(&*source.buffer)
    }

    /// `cuMemcpyHtoDAsync()`—Copies `source` to the buffer. See [`DeviceBuffer::copy_from_host`].
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) if the lengths differ.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.buffer.copy_from_host(source)
    }

    /// `cuMemcpyDtoHAsync()`—Copies all elements to `destination` and waits for the copy.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) if the lengths differ.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        self.buffer.copy_to_host(destination)
    }

    /// `cuMemcpyDtoHAsync()`—Copies all elements to a new `Vec` and waits for the copy.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.buffer.to_vec()
    }

    /// `cuEventRecord()`—Returns the buffer as one that other threads can use. The event after the
    /// uses so far is recorded now, on this thread. If the driver cannot create an event, the next
    /// use that has to wait waits for all work in the context.
    ///
    /// The owning stream of the result is the per-thread stream: each later use on it records an
    /// event.
    #[doc(alias = "cuEventRecord")]
    #[must_use]
    pub fn into_shared(self) -> DeviceBuffer<T> {
        let mut this = ManuallyDrop::new(self);
        this.buffer.memory.tracker.record_uses_of_thread();
        // SAFETY: the field must not be used again ← `self` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.buffer) }
    }
}

impl<T> Drop for ThreadBuffer<T> {
    fn drop(&mut self) {
        // The memory may be freed by another thread: after a capture, for example.
        self.buffer.memory.tracker.record_uses_of_thread();
        // SAFETY: the field must not be used again ← this is the drop.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
    }
}

impl<T> fmt::Debug for ThreadBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadBuffer({:?})", *self.buffer)
    }
}
