//! The caching pool of page-locked host memory.

use std::fmt;
use std::sync::Arc;

use cuda_sys::calls;

use super::cache::Cache;
use super::classes::{bytes_of_class, class_of};
use super::statistics::Statistics;
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::handle::Handle;
use crate::memory::pinned::{Locked, LockedPool};
use crate::memory::{DeviceRepr, PinnedBuffer, PinnedFlags, bytes_of};
use crate::staging_pool::PinnedBlock;

/// A pool that reuses page-locked memory. Its buffers are ordinary buffers, and dropping a buffer
/// returns its memory to the pool. Cloning a pool returns another handle to the same pool.
///
/// Page-locking is slow. Taking cached memory and returning memory do not call the driver. A buffer
/// owns its memory until the transfers that use it have completed, so returned memory is never in
/// use. Memory that a failed transfer may still use is never returned.
///
/// Sizes are rounded up by at most an eighth, and to at least 256 bytes. When the last handle of
/// the pool is dropped, its cached memory is freed. Its buffers stay valid and free their memory
/// themselves.
///
/// ```
/// use cuda_driver::{DeviceBuffer, PinnedBuffer};
/// use cuda_driver::memory::{PinnedCachingPool, PinnedFlags};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let pool = PinnedCachingPool::new(&context, PinnedFlags::DEFAULT);
/// let staged = PinnedBuffer::from_host_in(&pool, &[1_u32, 2, 3])?;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
/// buffer.copy_from_pinned(&staged)?;
/// drop(staged);
/// assert!(pool.statistics().bytes_cached >= 12);
/// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PinnedCachingPool(Arc<Owner>);

/// The part of a pool that its buffers do not keep alive. Dropping it closes the pool.
struct Owner(Arc<Blocks>);

struct Blocks {
    cache: Cache<Handle<PinnedBlock>>,
    context: Context,
    flags: PinnedFlags,
}

/// The stream id under which all blocks are cached. Host memory has no stream.
const NO_STREAM: u64 = 0;

impl PinnedCachingPool {
    /// Creates a pool of memory with these flags in `context` that keeps all memory that is
    /// returned to it.
    #[must_use]
    pub fn new(context: &Context, flags: PinnedFlags) -> Self {
        Self::with_limit(context, flags, usize::MAX)
    }

    /// Creates a pool of memory with these flags in `context` that reserves at most `limit` bytes
    /// from the driver, in use and cached.
    #[must_use]
    pub fn with_limit(context: &Context, flags: PinnedFlags, limit: usize) -> Self {
        let blocks = Blocks {
            cache: Cache::new(limit),
            context: context.clone(),
            flags,
        };
        Self(Arc::new(Owner(Arc::new(blocks))))
    }

    /// Returns the context of the memory.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.blocks().context
    }

    /// Allocates `len` elements. They contain zero bits or the data of an earlier buffer of the
    /// pool.
    ///
    /// # Errors
    ///
    /// * [`Error::PoolLimit`] if the allocation would exceed the limit of the pool.
    /// * [`Error::OutOfMemory`] with the number of bytes requested, if memory runs out even after
    ///   all cached memory was freed.
    /// * [`Error::SizeOverflow`] if the size does not fit in a `usize`.
    pub fn take<T: DeviceRepr>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let (bytes, blocks) = (bytes_of::<T>(len)?, self.blocks());
        let locked = if bytes == 0 {
            Locked::new(&blocks.context, None)
        } else {
            let class = class_of(bytes);
            let handle = blocks.allocate(class)?;
            let pool: Arc<Blocks> = Arc::clone(blocks);
            Locked::pooled(handle, pool, class)
        };
        // SAFETY: the memory must be initialized and hold `len` elements ← it was zeroed when it
        // was allocated, and the blocks of its class hold at least `bytes` bytes.
        unsafe { PinnedBuffer::of_locked(locked, len) }
    }

    /// Returns the maximum number of bytes that the pool may reserve from the driver, or
    /// `usize::MAX` without a limit.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.blocks().cache.limit()
    }

    /// Sets the limit and frees cached memory that exceeds it. Memory in use is not affected.
    pub fn set_limit(&self, bytes: usize) {
        self.blocks().cache.set_limit(bytes);
        let cache = &self.blocks().cache;
        cache.sweep(cache.reserved_beyond(bytes));
    }

    /// Frees cached memory, the largest blocks first, until at most `bytes` bytes are cached.
    pub fn trim_to(&self, bytes: usize) {
        let waiting = self.statistics().bytes_cached;
        self.blocks().cache.sweep(waiting.saturating_sub(bytes));
    }

    /// Returns the statistics of the pool.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.blocks().cache.statistics()
    }

    fn blocks(&self) -> &Arc<Blocks> {
        &self.0.0
    }
}

impl Blocks {
    fn allocate(&self, class: usize) -> Result<Handle<PinnedBlock>> {
        // This fails if other code has ended the context: then no cached block may be handed out.
        self.context.driver().table_for(calls::cuMemHostAlloc)?;
        match self.cache.take(class, NO_STREAM) {
            Some(handle) => Ok(handle),
            None => self.find(class),
        }
    }

    #[cold]
    fn find(&self, class: usize) -> Result<Handle<PinnedBlock>> {
        match self.make(class) {
            Err(Error::PoolLimit { limit, .. }) => {
                let room = limit.saturating_sub(bytes_of_class(class));
                self.cache.sweep(self.cache.reserved_beyond(room));
                self.make(class)
            }
            Err(Error::OutOfMemory { .. }) => {
                self.cache.sweep(usize::MAX);
                self.make(class)
            }
            made => made,
        }
    }

    /// Allocates a block of zeros from the driver.
    fn make(&self, class: usize) -> Result<Handle<PinnedBlock>> {
        self.cache.reserve(class)?;
        let bytes = bytes_of_class(class);
        // Whether the driver is called depends on the blocks in the pool, which the program cannot
        // know. So the call must not invalidate a stream capture.
        let _relaxed = self.context.driver().relaxed();
        let made = PinnedBlock::allocate(&self.context, bytes, self.flags);
        match made {
            Ok(handle) => {
                let start = handle.raw().start().cast::<u8>();
                // SAFETY: `bytes` bytes must be writable at `start` ← they were allocated just now,
                // and no other code has the address.
                unsafe { start.write_bytes(0, bytes) };
                Ok(handle)
            }
            Err(error) => {
                self.cache.lost(class);
                Err(error)
            }
        }
    }
}

impl LockedPool<PinnedBlock> for Blocks {
    fn context(&self) -> &Context {
        &self.context
    }

    fn take_back(&self, class: usize, handle: Handle<PinnedBlock>) -> Result<(), DriverError> {
        match self.cache.put(class, NO_STREAM, handle) {
            None => Ok(()),
            Some(handle) => handle.close(),
        }
    }

    fn lose(&self, class: usize) {
        self.cache.lost(class);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.cache.close();
    }
}

impl fmt::Debug for PinnedCachingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.statistics();
        write!(
            f,
            "PinnedCachingPool({} bytes in use, {} cached)",
            now.bytes_in_use, now.bytes_cached
        )
    }
}
