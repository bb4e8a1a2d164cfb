//! The caching pool of device memory.

use std::fmt;
use std::sync::Arc;

use super::cache::Cache;
use super::classes::{bytes_of_class, class_of};
use super::statistics::Statistics;
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::memory::allocation::{Block, Memory, Source};
use crate::memory::{DeviceBuffer, DeviceRepr, bytes_of};
use crate::order::Tracker;
use crate::pending;
use crate::stream::Stream;

/// Device memory that is used again: its buffers are ordinary ones, and dropping them gives their
/// memory back to the pool. Cloning it gives another handle of the same pool.
///
/// Allocating from what is there and giving back call no driver. Memory comes back with the order
/// of its uses: what still reads or writes it is waited for, on the device, by the next owner's
/// stream. Nothing needs to be waited for if that is the stream of the last owner, so each stream
/// is served with its own memory first, then with memory of other streams that nothing uses any
/// more, then with new memory. Only where there is no room for that does a stream get memory that
/// is still in use on another one, and waits for all that is queued there at that moment.
///
/// Lengths are rounded up by at most an eighth, and to 256 bytes. When the last handle of the pool
/// goes what it keeps is freed; its buffers live on, and free their memory themselves.
#[derive(Clone)]
pub struct CachingPool(Arc<Owner>);

/// The pool without its buffers: when it goes, the pool is closed.
struct Owner(Arc<Blocks>);

/// The blocks of a pool.
pub(crate) struct Blocks {
    cache: Cache<Block>,
    context: Context,
}

impl CachingPool {
    /// A pool of memory in `context` that keeps all that comes back.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self::with_limit(context, usize::MAX)
    }

    /// A pool of memory in `context` that never has more than `limit` bytes from the driver, in use
    /// and waiting.
    #[must_use]
    pub fn with_limit(context: &Context, limit: usize) -> Self {
        let blocks = Blocks {
            cache: Cache::new(limit),
            context: context.clone(),
        };
        Self(Arc::new(Owner(Arc::new(blocks))))
    }

    /// The context of the memory.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.blocks().context
    }

    /// `len` elements with whatever was in that memory.
    ///
    /// # Errors
    ///
    /// [`Error::PoolLimit`] if that would be more than the limit, [`Error::OutOfMemory`] with the
    /// bytes asked for if there is no room though all that waited was given back,
    /// [`Error::SizeOverflow`] if they do not fit in an address, [`Error::OtherContext`] if
    /// `stream` is of another context than the pool.
    ///
    /// # Safety
    ///
    /// Nothing reads an element before something has written it, as for [`DeviceBuffer::uninit`].
    pub unsafe fn uninit<T: DeviceRepr>(
        &self,
        stream: &Stream,
        len: usize,
    ) -> Result<DeviceBuffer<T>> {
        let bytes = bytes_of::<T>(len)?;
        stream.expect_context(&self.blocks().context, "the pool")?;
        if bytes == 0 {
            return Ok(DeviceBuffer::of_memory(Memory::nothing(stream), len));
        }
        let block = self.blocks().allocate(stream, class_of(bytes))?;
        let source = Source::Cached(Arc::clone(self.blocks()));
        // SAFETY: the memory must be the pool's, nobody else's, and all uses known ← it was taken
        // out of it just now, with its tracker.
        let memory = unsafe { Memory::of_block(block, source) };
        Ok(DeviceBuffer::of_memory(memory, len))
    }

    /// `cuMemsetD8Async(0)`—`len` elements of zero bits.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit).
    pub fn zeroed<T: DeviceRepr>(&self, stream: &Stream, len: usize) -> Result<DeviceBuffer<T>> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let mut buffer = unsafe { self.uninit(stream, len) }?;
        buffer.set_zero()?;
        Ok(buffer)
    }

    /// A copy of `source`.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit) and [`DeviceBuffer::copy_from_host`].
    pub fn copy_of<T: DeviceRepr>(&self, stream: &Stream, source: &[T]) -> Result<DeviceBuffer<T>> {
        // SAFETY: it must be written before it is read ← it is filled below.
        let mut buffer = unsafe { self.uninit(stream, source.len()) }?;
        buffer.copy_from_host(source)?;
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
        let beyond = self.blocks().cache.reserved_beyond(bytes);
        self.blocks().free(beyond);
    }

    /// Frees what waits, the largest blocks first, until at most `bytes` bytes wait.
    pub fn trim_to(&self, bytes: usize) {
        let waiting = self.statistics().bytes_cached;
        self.blocks().free(waiting.saturating_sub(bytes));
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
    /// A block of this class, at home on `stream`.
    fn allocate(&self, stream: &Stream, class: usize) -> Result<Block> {
        let kept = self.cache.take(class, stream.state().id());
        match kept {
            Some(block) => self.hand_over(block, class, stream),
            None => self.find(stream, class),
        }
    }

    /// A block of this class that is not of `stream` yet.
    #[cold]
    fn find(&self, stream: &Stream, class: usize) -> Result<Block> {
        // The cache is locked while it looks for a block; what the block forgets is dropped after
        // that.
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
        // There is no room. What is in use on another stream must do, or what waits must go.
        if let Some(block) = self.cache.take_if(class, |_| true) {
            return self.hand_over(block, class, stream);
        }
        if let Error::PoolLimit { limit, .. } = refused {
            let room = limit.saturating_sub(bytes_of_class(class));
            self.free(self.cache.reserved_beyond(room));
            return self.make(stream, class);
        }
        let homes = self.free(usize::MAX);
        self.make(stream, class).or_else(|_| {
            // The memory is free when its streams have come to it.
            for home in homes {
                home.state().synchronize(home.context())?;
            }
            self.make(stream, class)
        })
    }

    /// A block from the driver.
    fn make(&self, stream: &Stream, class: usize) -> Result<Block> {
        self.cache.reserve(class)?;
        let bytes = bytes_of_class(class);
        // Whether this is called at all depends on what waits in the pool.
        let _relaxed = self.context.driver().relaxed();
        match Memory::allocate(stream, bytes) {
            Ok(memory) => Ok(memory.into_block()),
            Err(error) => {
                self.cache.lost(class);
                Err(error)
            }
        }
    }

    /// Makes `stream` the home of a block that was taken out.
    fn hand_over(&self, mut block: Block, class: usize, stream: &Stream) -> Result<Block> {
        match Tracker::hand_over(&mut block.tracker, stream) {
            Ok(()) => Ok(block),
            Err(error) => {
                self.put(class, block)?;
                Err(error.into())
            }
        }
    }

    /// Takes a block back.
    pub(crate) fn take_back(&self, block: Block) -> Result<(), DriverError> {
        self.put(class_of(block.bytes), block)
    }

    fn put(&self, class: usize, block: Block) -> Result<(), DriverError> {
        let home = block.tracker.home().state().id();
        match self.cache.put(class, home, block) {
            None => Ok(()),
            Some(block) => block.free(),
        }
    }

    /// Counts a block that is out as gone for good.
    pub(crate) fn lose(&self, block: &Block) {
        self.cache.lost(class_of(block.bytes));
    }

    /// Frees so many bytes of what waits, or all; answers the streams on which that was queued.
    fn free(&self, bytes: usize) -> Vec<Stream> {
        let swept = self.cache.sweep(bytes);
        let mut homes: Vec<Stream> = Vec::new();
        for block in swept {
            let home = block.tracker.home();
            if !homes.contains(home) {
                homes.push(home.clone());
            }
            // Nobody is there to tell. What cannot be freed leaks in the driver, and nothing else.
            let _ = block.free();
        }
        homes
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let blocks = self.0.cache.close();
        pending::outside(self.0.context.driver(), move || {
            for block in blocks {
                // As above.
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
            "CachingPool({} bytes in use, {} waiting)",
            now.bytes_in_use, now.bytes_cached
        )
    }
}
