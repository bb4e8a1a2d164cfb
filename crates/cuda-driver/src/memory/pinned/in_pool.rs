//! Page-locked memory of a pool of the driver, which is allocated and freed in the order of a
//! stream.

use std::ptr;

use super::locked::Locked;
use super::{PinnedBuffer, UninitPinned};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::memory::{DeviceRepr, MemoryPool, bytes_of};
use crate::staging_pool::RawBlock;
use crate::stream::Stream;

/// Memory of a pool of the driver.
impl<T: DeviceRepr> PinnedBuffer<T> {
    /// `cuMemAllocFromPoolAsync()`, `cuStreamSynchronize()`—Allocates `len` elements of zero bits
    /// from a pool of host memory ([`MemoryPool::at`]), in the order of `stream`.
    ///
    /// Memory that the pool has already page-locked is available at once, without the half
    /// millisecond that page-locking takes. As the host uses the memory, the call waits for the
    /// work that is queued on `stream`, so choose a stream that is mostly idle. The free is queued
    /// on the same stream. [`zeroed_in`](Self::zeroed_in) is another constructor because it takes a
    /// [`PinnedCachingPool`](crate::memory::PinnedCachingPool) of this crate, which needs neither a
    /// stream nor CUDA 13.0.
    ///
    /// Only the device of the pool can access the memory. Give access to other devices with
    /// [`MemoryPool::set_access`] before they copy from or to it. The memory has the same address
    /// on the host and on devices.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] if the pool does not consist of page-locked host memory, or if the
    ///   context of `stream` is borrowed.
    /// * [`Error::OtherContext`] if the pool is for another device than that of `stream`.
    /// * [`Error::OutOfMemory`] with the number of bytes requested.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[doc(alias = "cudaMallocFromPoolAsync")]
    #[track_caller]
    pub fn zeroed_in_pool(pool: &MemoryPool, stream: &Stream, len: usize) -> Result<Self> {
        let mut memory = Self::uninit_in_pool(pool, stream, len)?;
        let elements = memory.as_uninit_mut();
        let (start, bytes) = (elements.as_mut_ptr().cast::<u8>(), size_of_val(elements));
        // SAFETY: `bytes` bytes must be writable at `start` ← both describe `elements`.
        unsafe { start.write_bytes(0, bytes) };
        // SAFETY: all elements must be initialized ← they were written just now, and zero bits are
        // a valid `T`.
        Ok(unsafe { memory.assume_init() })
    }

    /// `cuMemAllocFromPoolAsync()`, `cuStreamSynchronize()`—Allocates a buffer from a pool of host
    /// memory, as [`zeroed_in_pool`](Self::zeroed_in_pool) does, and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed_in_pool`](Self::zeroed_in_pool) does.
    #[track_caller]
    pub fn from_host_in_pool(pool: &MemoryPool, stream: &Stream, source: &[T]) -> Result<Self> {
        Self::uninit_in_pool(pool, stream, source.len())?.init_from(source)
    }

    /// `cuMemAllocFromPoolAsync()`, `cuStreamSynchronize()`—Allocates `len` elements from a pool of
    /// host memory, as [`zeroed_in_pool`](Self::zeroed_in_pool) does. The contents are undefined.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed_in_pool`](Self::zeroed_in_pool) does.
    #[track_caller]
    pub fn uninit_in_pool(
        pool: &MemoryPool,
        stream: &Stream,
        len: usize,
    ) -> Result<UninitPinned<T>> {
        let bytes = bytes_of::<T>(len)?;
        pool.expect_device_of(stream)?;
        if !pool.has_pinned_host_memory() {
            return Err(Error::Unsupported {
                what: "page-locked memory from a pool without page-locked memory of the host; \
                       create the pool with `MemoryPool::at`, `MemoryLocation::Host` and \
                       `PoolKind::Pinned`",
            });
        }
        if stream.context().is_borrowed() {
            return Err(Error::Unsupported {
                what: "page-locked memory from a `MemoryPool` in a borrowed context; use \
                       `PinnedBuffer::zeroed`",
            });
        }
        if bytes == 0 {
            return UninitPinned::of_locked(Locked::new(stream.context(), None), len);
        }
        let memory = pool.allocate_pinned(stream, bytes)?;
        stream.state().synchronize(stream.context())?;
        let start = ptr::with_exposed_provenance_mut(memory.address as usize);
        // SAFETY: no other owner may destroy the block ← the handle is only given up, and `memory`
        // frees the block.
        let handle = unsafe { Handle::new(stream.driver(), RawBlock::of_driver(start)) };
        UninitPinned::of_locked(Locked::ordered(handle, memory), len)
    }
}
