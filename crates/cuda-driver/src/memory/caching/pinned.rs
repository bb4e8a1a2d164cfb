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
use crate::memory::pinned::{Keep, Locked, PinnedBlock};
use crate::memory::{DeviceRepr, PinnedBuffer, PinnedFlags, bytes_of};

/// Page-locked memory that is used again: its buffers are ordinary ones, and dropping them gives
/// their memory back to the pool. Cloning it gives another handle of the same pool.
///
/// Locking memory is slow, taking from the pool and giving back calls no driver. A buffer owns its
/// memory until the transfers that use it are done, so what comes back is free. Memory that a
/// failed transfer may still use never does.
///
/// Lengths are rounded up by at most an eighth, and to 256 bytes. When the last handle of the pool
/// goes what it keeps is freed; its buffers live on, and free their memory themselves.
#[derive(Clone)]
pub struct PinnedCachingPool(Arc<Owner>);

/// The pool without its buffers: when it goes, the pool is closed.
struct Owner(Arc<Blocks>);

struct Blocks {
    cache: Cache<Handle<PinnedBlock>>,
    context: Context,
    flags: PinnedFlags,
}

/// Blocks of the host have no stream.
const SHELF: u64 = 0;

impl PinnedCachingPool {
    /// A pool of memory with these flags in `context`, that keeps all that comes back.
    #[must_use]
    pub fn new(context: &Context, flags: PinnedFlags) -> Self {
        Self::with_limit(context, flags, usize::MAX)
    }

    /// A pool of memory with these flags in `context`, that never has more than `limit` bytes from
    /// the driver, in use and waiting.
    #[must_use]
    pub fn with_limit(context: &Context, flags: PinnedFlags, limit: usize) -> Self {
        let blocks = Blocks {
            cache: Cache::new(limit),
            context: context.clone(),
            flags,
        };
        Self(Arc::new(Owner(Arc::new(blocks))))
    }

    /// The context of the memory.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.blocks().context
    }

    /// `len` elements of zero bits, or of what an earlier buffer of the pool left there.
    ///
    /// # Errors
    ///
    /// [`Error::PoolLimit`] if that would be more than the limit, [`Error::OutOfMemory`] with the
    /// bytes asked for if there is no room though all that waited was given back,
    /// [`Error::SizeOverflow`] if they do not fit in an address.
    pub fn take<T: DeviceRepr>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let (bytes, blocks) = (bytes_of::<T>(len)?, self.blocks());
        let locked = if bytes == 0 {
            Locked::new(&blocks.context, None)
        } else {
            let class = class_of(bytes);
            let handle = blocks.allocate(class)?;
            let pool: Arc<Blocks> = Arc::clone(blocks);
            Locked::kept(handle, pool, class)
        };
        // SAFETY: the memory must be initialised and hold `len` elements ← it was zeroed when it
        // was allocated, and its class is that of the bytes.
        unsafe { PinnedBuffer::of_locked(locked, len) }
    }

    /// `len` elements of zero bits.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn zeroed<T: DeviceRepr>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        let mut buffer = self.take(len)?;
        bytemuck::fill_zeroes(&mut buffer);
        Ok(buffer)
    }

    /// A copy of `source`.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn copy_of<T: DeviceRepr>(&self, source: &[T]) -> Result<PinnedBuffer<T>> {
        let mut buffer = self.take(source.len())?;
        buffer.copy_from_slice(source);
        Ok(buffer)
    }

    /// The most bytes that the pool may have from the driver; `usize::MAX` without a limit.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.blocks().cache.limit()
    }

    /// Changes the limit, and frees what waits beyond it. What is in use stays.
    pub fn set_limit(&self, bytes: usize) {
        self.blocks().cache.set_limit(bytes);
        let cache = &self.blocks().cache;
        cache.sweep(cache.reserved_beyond(bytes));
    }

    /// Frees what waits, the largest blocks first, until at most `bytes` bytes wait.
    pub fn trim_to(&self, bytes: usize) {
        let waiting = self.statistics().bytes_cached;
        self.blocks().cache.sweep(waiting.saturating_sub(bytes));
    }

    /// What the pool has done so far and has now.
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
        // What waits of a context that other code has ended is gone with it.
        self.context.driver().table_for(calls::cuMemHostAlloc)?;
        match self.cache.take(class, SHELF) {
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

    /// A block of zeros from the driver.
    fn make(&self, class: usize) -> Result<Handle<PinnedBlock>> {
        self.cache.reserve(class)?;
        let bytes = bytes_of_class(class);
        // Whether this is called at all depends on what waits in the pool.
        let _relaxed = self.context.driver().relaxed();
        let made = PinnedBlock::allocate(&self.context, bytes, self.flags);
        match made {
            Ok(handle) => {
                let start = handle.raw().start().cast::<u8>();
                // SAFETY: `bytes` must be writable at `start` ← they were allocated just now, and
                // nobody else has them.
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

impl Keep<PinnedBlock> for Blocks {
    fn context(&self) -> &Context {
        &self.context
    }

    fn take_back(&self, class: usize, handle: Handle<PinnedBlock>) -> Result<(), DriverError> {
        match self.cache.put(class, SHELF, handle) {
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
            "PinnedCachingPool({} bytes in use, {} waiting)",
            now.bytes_in_use, now.bytes_cached
        )
    }
}
