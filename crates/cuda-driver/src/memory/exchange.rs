//! Exchange of raw addresses of buffers with other code.

use std::any::Any;

use cuda_sys::CUdeviceptr;

use super::{DeviceBuffer, DeviceRepr, Memory, Source, bytes_of};
use crate::error::Result;
use crate::stream::Stream;

/// Exchange of raw addresses with other code.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// Takes ownership of memory from `cuMemAllocAsync` or [`into_raw`](Self::into_raw). The memory
    /// is freed when the buffer is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if the size of `len` elements does not
    /// fit in a `usize`.
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
    #[track_caller]
    pub unsafe fn from_raw(stream: &Stream, address: CUdeviceptr, len: usize) -> Result<Self> {
        let source = Source::allocated(stream);
        // SAFETY: the buffer must be the only owner that frees the memory ← the caller guarantees
        // it.
        unsafe { Self::of_source(stream, address, len, source) }
    }

    /// Creates a buffer from memory that other code owns. `owner` is dropped after the buffer has
    /// been dropped and all its uses have completed.
    ///
    /// Dropping the buffer waits for its uses. If the wait fails, because the device is lost,
    /// `owner` is leaked.
    ///
    /// # Errors
    ///
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow) if the size of `len` elements does not
    /// fit in a `usize`.
    ///
    /// # Safety
    ///
    /// * `address` is aligned for `T`, and the `len` elements from there on are memory that the
    ///   context of `stream` can use and that has been written.
    /// * While `owner` is alive, the memory is not freed, no other code writes it, and no other
    ///   code reads what is written through the buffer.
    /// * Every use of the memory so far is on `stream`, or `stream` has been made to wait for it.
    #[track_caller]
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
    #[track_caller]
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
    /// [`from_foreign`](Self::from_foreign), and a [`Mapping`](crate::memory::Mapping), are leaked.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`](crate::Error::StillInUse) if a [graph](crate::Graph) uses the memory.
    /// The memory is then freed with the last graph that uses it. If a driver call fails, the
    /// memory is leaked.
    pub fn into_raw(self) -> Result<CUdeviceptr> {
        self.memory.into_raw()
    }
}
