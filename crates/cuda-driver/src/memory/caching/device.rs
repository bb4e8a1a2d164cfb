//! The caching pool of device memory.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::cache::Cache;
use super::classes::{bytes_of_class, class_of};
use super::statistics::Statistics;
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::memory::allocation::{Block, Memory, Reclaim, Source};
use crate::memory::allocator::{Allocator, sealed};
use crate::memory_ledger::MemoryKind;
use crate::stream::Stream;
use crate::tracking::Tracker;

/// A pool that reuses device memory. Its buffers are ordinary buffers, and dropping a buffer
/// returns its memory to the pool. Cloning a pool returns another handle to the same pool.
///
/// Taking cached memory and returning memory do not call the driver. Memory is returned together
/// with the record of its uses, and the stream of the next owner waits on the device for uses that
/// still run. No wait is needed if that is the stream of the last owner. The pool therefore tries
/// in turn:
///
/// * cached memory that was last used on the same stream,
/// * cached memory of other streams that is no longer in use,
/// * new memory,
/// * if new memory cannot be allocated, cached memory that is still in use on another stream. The
///   new owner's stream then waits for everything that is queued on the other stream at that
///   moment.
///
/// Sizes are rounded up by at most an eighth, and to at least 256 bytes. When the last handle of
/// the pool is dropped, its cached memory is freed. Its buffers stay valid and free their memory
/// themselves.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::CachingPool;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let pool = CachingPool::new(&context);
/// let buffer = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 1000)?;
/// let address = buffer.as_raw();
/// drop(buffer);
///
/// // The same memory again, without a driver call for the allocation.
/// let again = DeviceBuffer::filled_in(&pool, &stream, 1000, 7_u32)?;
/// assert_eq!(again.as_raw(), address);
/// assert_eq!(again.to_vec()?, [7; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CachingPool(Arc<Owner>);

/// The part of a pool that its buffers do not keep alive. Dropping it closes the pool.
struct Owner(Arc<Blocks>);

/// The blocks of a pool.
pub(crate) struct Blocks {
    cache: Cache<Block>,
    context: Context,
}

impl CachingPool {
    /// Creates a pool of memory in `context` that keeps all memory that is returned to it.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self::with_limit(context, usize::MAX)
    }

    /// Creates a pool of memory in `context` that reserves at most `limit` bytes from the driver,
    /// in use and cached.
    #[must_use]
    pub fn with_limit(context: &Context, limit: usize) -> Self {
        let blocks = Blocks {
            cache: Cache::new(limit),
            context: context.clone(),
        };
        Self(Arc::new(Owner(Arc::new(blocks))))
    }

    /// Returns the context of the memory.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.blocks().context
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
        let beyond = self.blocks().cache.reserved_beyond(bytes);
        self.blocks().free(beyond);
    }

    /// Frees cached memory, the largest blocks first, until at most `bytes` bytes are cached.
    pub fn trim_to(&self, bytes: usize) {
        let waiting = self.statistics().bytes_cached;
        self.blocks().free(waiting.saturating_sub(bytes));
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

impl Allocator for CachingPool {}

impl sealed::Allocate for CachingPool {
    fn check(&self, owner: &Stream, _: sealed::Token) -> Result<()> {
        owner.expect_context(self.context(), "the pool")
    }

    #[track_caller]
    fn allocate(
        &self,
        owner: &Stream,
        bytes: usize,
        _: sealed::Token,
    ) -> Result<sealed::Allocated> {
        owner.expect_direct("an allocation from a caching pool")?;
        let block = self.blocks().allocate(owner, class_of(bytes))?;
        let source = Source::Other(Arc::clone(self.blocks()) as Arc<dyn Reclaim>);
        // SAFETY: the block must belong to the pool, no other code may return it, and the tracker
        // must know all its uses ← the block was taken out of the pool just now, together with its
        // tracker.
        let memory = unsafe { Memory::of_block(block, source) };
        memory.record();
        Ok(sealed::Allocated(memory))
    }
}

impl Blocks {
    /// Returns a block of this class whose owning stream is `stream`.
    fn allocate(&self, stream: &Stream, class: usize) -> Result<Block> {
        let kept = self.cache.take(class, stream.state().id());
        match kept {
            Some(block) => self.hand_over(block, class, stream),
            None => self.find(stream, class),
        }
    }

    /// Returns a block of this class if none is cached for `stream`.
    #[cold]
    fn find(&self, stream: &Stream, class: usize) -> Result<Block> {
        // `take_if` holds the lock of the class. `former` receives the record of uses that the
        // block gives up, and drops it after the lock is released.
        let mut former = None;
        let idle = |block: &mut Block| {
            former = Tracker::hand_over_if_idle(&mut block.tracker, stream);
            former.is_some()
        };
        if let Some(block) = self.cache.take_if(class, idle) {
            return Ok(block);
        }
        let refused = match self.make(stream, class) {
            Ok(block) => return Ok(block),
            Err(error @ (Error::PoolLimit { .. } | Error::OutOfMemory { .. })) => error,
            Err(error) => return Err(error),
        };
        // New memory cannot be allocated. Either a block that is in use on another stream is taken,
        // or cached memory is freed.
        if let Some(block) = self.cache.take_if(class, |_| true) {
            return self.hand_over(block, class, stream);
        }
        if let Error::PoolLimit { limit, .. } = refused {
            let room = limit.saturating_sub(bytes_of_class(class));
            self.free(self.cache.reserved_beyond(room));
            return self.make(stream, class);
        }
        let owners = self.free(usize::MAX);
        self.make(stream, class).or_else(|_| {
            // The memory is free only after its streams have reached the frees.
            for stream in owners {
                stream.state().synchronize(stream.context())?;
            }
            self.make(stream, class)
        })
    }

    /// Allocates a block from the driver.
    fn make(&self, stream: &Stream, class: usize) -> Result<Block> {
        self.cache.reserve(class)?;
        let bytes = bytes_of_class(class);
        // Whether the driver is called depends on the blocks in the pool, which the program cannot
        // know. So the call must not invalidate a stream capture.
        let _relaxed = self.context.driver().relaxed();
        match Memory::allocate(stream, bytes) {
            Ok(memory) => Ok(memory.into_block()),
            Err(error) => {
                self.cache.lost(class);
                Err(error)
            }
        }
    }

    /// Makes `stream` the owning stream of a block that was taken from the cache. If that fails,
    /// the block is returned to the cache.
    fn hand_over(&self, mut block: Block, class: usize, stream: &Stream) -> Result<Block> {
        match Tracker::hand_over(&mut block.tracker, stream) {
            Ok(()) => Ok(block),
            Err(error) => {
                self.put(class, block)?;
                Err(error.into())
            }
        }
    }

    fn put(&self, class: usize, block: Block) -> Result<(), DriverError> {
        let owner = block.tracker.owning_stream().state().id();
        match self.cache.put(class, owner, block) {
            None => Ok(()),
            Some(block) => block.free(),
        }
    }

    /// Frees at least `bytes` bytes of cached memory, or all of it. Returns the streams on which
    /// the frees were queued.
    fn free(&self, bytes: usize) -> Vec<Stream> {
        let swept = self.cache.sweep(bytes);
        let mut owners: Vec<Stream> = Vec::new();
        for block in swept {
            let owner = block.tracker.owning_stream();
            if !owners.contains(owner) {
                owners.push(owner.clone());
            }
            // The error cannot be reported to a caller. Memory that cannot be freed leaks in the
            // driver and has no other effect.
            let _ = block.free();
        }
        owners
    }
}

/// A block goes back to the pool with the record of its uses.
impl Reclaim for Blocks {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        self.put(class_of(block.bytes), block)
    }

    fn disown(self: Arc<Self>, block: &Block) {
        self.cache.lost(class_of(block.bytes));
    }

    fn origin(&self) -> (MemoryKind, u64) {
        (MemoryKind::CachingPool, ptr::from_ref(self).addr() as u64)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let blocks = self.0.cache.close();
        self.0.context.driver().run_or_defer(move || {
            for block in blocks {
                // As in `Blocks::free`, the error cannot be reported to a caller.
                let _ = block.free();
            }
        });
    }
}

impl fmt::Debug for CachingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.statistics();
        write!(
            f,
            "CachingPool({} bytes in use, {} cached)",
            now.bytes_in_use, now.bytes_cached
        )
    }
}
