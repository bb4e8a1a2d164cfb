//! Page-locked memory of a pool of the driver, which is allocated and freed in the order of a
//! stream.

use std::mem;
use std::ptr;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::PinnedBuffer;
use super::locked::{Locked, LockedPool};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::handle::Handle;
use crate::memory::allocator::sealed::{Allocate, TOKEN};
use crate::memory::{DeviceRepr, MemoryPool, PoolKind, bytes_of};
use crate::staging_pool::{PinnedBlock, RawBlock};
use crate::stream::Stream;

/// The pool and the stream of one buffer.
struct InOrder {
    pool: MemoryPool,
    stream: Stream,
}

impl LockedPool<PinnedBlock> for InOrder {
    fn context(&self) -> &Context {
        self.stream.context()
    }

    fn take_back(&self, _: usize, handle: Handle<PinnedBlock>) -> Result<(), DriverError> {
        let address = handle.raw().start().addr() as CUdeviceptr;
        // The handle would free the memory as that of `cuMemHostAlloc`.
        handle.abandon();
        // SAFETY: the memory must be allocated and must not be used afterwards ← the buffer that
        // owned it was dropped, and transfers own or borrow the buffer until they have completed.
        unsafe { self.free(address) }
    }

    fn is_in_order(&self) -> bool {
        true
    }

    fn lose(&self, _: usize) {
        // The memory stays allocated, and the pool with it.
        mem::forget(self.pool.clone());
    }
}

impl InOrder {
    /// `cuMemFreeAsync()`
    ///
    /// # Safety
    ///
    /// The memory is memory of the pool, and is not used afterwards.
    unsafe fn free(&self, address: CUdeviceptr) -> Result<(), DriverError> {
        let queueing = self.stream.queueing()?;
        let driver = self.stream.driver();
        let _relaxed = driver.relaxed();
        // SAFETY: the memory must be allocated and must not be used afterwards ← the caller
        // guarantees it.
        unsafe { call!(driver, cuMemFreeAsync(address, queueing.raw())) }
    }
}

/// Memory of a pool of the driver.
impl<T: DeviceRepr> PinnedBuffer<T> {
    /// `cuMemAllocFromPoolAsync()`, `cuStreamSynchronize()`—Allocates `len` elements of zero bits
    /// from a pool of host memory ([`MemoryPool::at`]), in the order of `stream`.
    ///
    /// Memory that the pool has already page-locked is available at once, without the half
    /// millisecond that page-locking takes. As the host uses the memory, the call waits for the
    /// work that is queued on `stream`, so choose a stream that is mostly idle. The free is queued
    /// on the same stream.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] if the pool does not consist of page-locked host memory, or if the
    ///   context of `stream` is borrowed.
    /// * [`Error::OtherContext`] if the pool is for another device than that of `stream`.
    /// * [`Error::OutOfMemory`] with the number of bytes requested.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[doc(alias = "cudaMallocFromPoolAsync")]
    pub fn zeroed_in_order(pool: &MemoryPool, stream: &Stream, len: usize) -> Result<Self> {
        Self::in_order(pool, stream, len, |start, bytes| {
            // SAFETY: `bytes` bytes must be writable at `start` ← they were allocated just now, and
            // no other code has the address.
            unsafe { start.write_bytes(0, bytes) }
        })
    }

    /// `cuMemAllocFromPoolAsync()`, `cuStreamSynchronize()`—Allocates a buffer from a pool of host
    /// memory, as [`zeroed_in_order`](Self::zeroed_in_order) does, and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed_in_order`](Self::zeroed_in_order) does.
    pub fn from_host_in_order(pool: &MemoryPool, stream: &Stream, source: &[T]) -> Result<Self> {
        Self::in_order(pool, stream, source.len(), |start, bytes| {
            let from = source.as_ptr().cast::<u8>();
            // SAFETY: both ranges must hold `bytes` bytes and must not overlap ← `bytes` is the
            // size of the source, and the destination was allocated just now.
            unsafe { ptr::copy_nonoverlapping(from, start, bytes) }
        })
    }

    /// Allocates the memory and calls `fill`, which must write every byte.
    fn in_order(
        pool: &MemoryPool,
        stream: &Stream,
        len: usize,
        fill: impl FnOnce(*mut u8, usize),
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        pool.check(stream, TOKEN)?;
        if !pool.is_on_host() || pool.kind() != PoolKind::Pinned {
            return Err(Error::Unsupported {
                what: "page-locked memory of a pool that is not a pool of host memory",
            });
        }
        if stream.context().is_borrowed() {
            return Err(Error::Unsupported {
                what: "memory of a pool for the host in a borrowed context",
            });
        }
        if bytes == 0 {
            let locked = Locked::new(stream.context(), None);
            return Ok(Self::of_parts(locked, len));
        }
        stream.expect_direct("an allocation from a memory pool")?;
        let driver = stream.driver();
        let mut address = 0;
        {
            let queueing = stream.queueing()?;
            // SAFETY: the pointer, the pool and the stream must be valid ← the pointer is to a
            // local variable, and the others are borrowed.
            unsafe {
                call!(
                    driver,
                    cuMemAllocFromPoolAsync(&raw mut address, bytes, pool.as_raw(), queueing.raw())
                )
            }
            .map_err(|error| Error::of_allocation(error, bytes))?;
        }
        let origin = InOrder {
            pool: pool.clone(),
            stream: stream.clone(),
        };
        if let Err(error) = stream.state().synchronize(stream.context()) {
            // SAFETY: the memory must be allocated and must not be used afterwards ← it was
            // allocated just now, and no other code has its address.
            let _ = unsafe { origin.free(address) };
            return Err(error.into());
        }
        let start = ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: no other code may free the block ← it was allocated just now; `take_back` gives
        // the handle up and frees the memory in order.
        let handle = unsafe { Handle::new(driver, RawBlock::of_driver(start)) };
        let locked = Locked::pooled(handle, Arc::new(origin), 0);
        fill(start.cast(), bytes);
        // SAFETY: the memory must have room for `len` initialized elements ← it has `bytes` bytes,
        // and `fill` has written all of them.
        unsafe { Self::of_locked(locked, len) }
    }
}
