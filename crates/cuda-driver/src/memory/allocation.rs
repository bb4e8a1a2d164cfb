//! One kind of allocation behind every owner and every view: where it lies, whose order its uses
//! keep, and how it is given back.

use std::any::Any;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::caching::Blocks;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::module::ModuleInner;
use crate::order::{Access, Scope, Tracker};
use crate::pending;
use crate::planted::Fault;
use crate::stream::Stream;

/// An allocation with the order of its uses. What it goes back to when it is dropped, its source
/// says.
pub(crate) struct Memory {
    pub(crate) address: CUdeviceptr,
    bytes: usize,
    source: Source,
    /// Taken when the memory is given back, and by nothing else.
    pub(crate) tracker: ManuallyDrop<Arc<Tracker>>,
}

/// Where memory came from, and so how it is given back.
pub(crate) enum Source {
    /// There is none.
    Nothing,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`: freed where the home stream comes to it.
    Ordered,
    /// `cuMemAlloc`: freed by the host, after it has waited.
    Plain,
    /// `cuMemAllocManaged`: freed in the same way. The host may have slices of it.
    Managed,
    /// Of a caching pool, to which it goes back with the order of its uses.
    Cached(Arc<Blocks>),
    /// A variable of a module, which lets one owner have it at a time.
    Global(Arc<ModuleInner>),
    /// Of other code: released by dropping this, after the host has waited.
    Foreign(Box<dyn Any + Send + Sync>),
}

/// What is left of an allocation that its owner has given up.
pub(crate) struct Block {
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
    /// Nobody else's, but for those that look at it for a moment.
    pub(crate) tracker: Arc<Tracker>,
}

impl Memory {
    /// `bytes` bytes of whatever was in that memory.
    pub(crate) fn allocate(home: &Stream, bytes: usize) -> Result<Self> {
        let source = Source::allocated(home);
        // Where there are no pools this is `cuMemAlloc`, which the program does not name.
        let _relaxed = matches!(source, Source::Plain).then(|| home.driver().relaxed());
        Self::allocate_of(home, bytes, source)
    }

    /// The same, of no memory pool.
    pub(crate) fn allocate_plain(home: &Stream, bytes: usize) -> Result<Self> {
        Self::allocate_of(home, bytes, Source::Plain)
    }

    fn allocate_of(home: &Stream, bytes: usize, source: Source) -> Result<Self> {
        let mut address = 0;
        if bytes == 0 {
            return Ok(Self::nothing(home));
        }
        let driver = home.driver();
        let status = if matches!(source, Source::Ordered) {
            let queueing = home.queueing()?;
            // SAFETY: pointer and stream must be valid ← a local, and borrowed.
            unsafe {
                call!(
                    driver,
                    cuMemAllocAsync(&raw mut address, bytes, queueing.raw())
                )
            }
        } else {
            let _current = home.context().enter()?;
            // SAFETY: the pointer must be writable ← it is to a local.
            unsafe { call!(driver, cuMemAlloc_v2(&raw mut address, bytes)) }
        };
        status.map_err(|error| Error::of_allocation(error, bytes))?;
        // SAFETY: the memory must be of that source and nobody else's ← it was allocated just now.
        Ok(unsafe { Self::of_source(home, address, bytes, source) })
    }

    /// No bytes; nothing is allocated.
    pub(crate) fn nothing(home: &Stream) -> Self {
        // SAFETY: the memory must be of that source ← there is none.
        unsafe { Self::of_source(home, 0, 0, Source::Nothing) }
    }

    /// Takes memory that no stream uses but `home`.
    ///
    /// # Safety
    ///
    /// `bytes` bytes from `address` on are memory that the context of `home` can use, are of this
    /// source, and nobody else gives them back.
    pub(crate) unsafe fn of_source(
        home: &Stream,
        address: CUdeviceptr,
        bytes: usize,
        source: Source,
    ) -> Self {
        let block = Block {
            address,
            bytes,
            tracker: Arc::new(Tracker::new(home)),
        };
        // SAFETY: as the caller says; all uses are on `home`.
        unsafe { Self::of_block(block, source) }
    }

    /// Takes a block with the order of its uses so far.
    ///
    /// # Safety
    ///
    /// As [`of_source`](Self::of_source), and the tracker knows all uses.
    pub(crate) unsafe fn of_block(block: Block, source: Source) -> Self {
        let Block {
            address,
            bytes,
            tracker,
        } = block;
        Self {
            address,
            bytes,
            source,
            tracker: ManuallyDrop::new(tracker),
        }
    }

    /// Whether the host may have slices of it.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self.source, Source::Managed)
    }

    /// The stream on which it is copied and freed.
    pub(crate) fn home(&self) -> &Stream {
        self.tracker.home()
    }

    /// [`use_on`](Self::use_on) the home stream.
    pub(crate) fn use_at_home<E>(
        &self,
        access: Access,
        queue: impl FnOnce() -> Result<(), E>,
    ) -> Result<()>
    where
        Error: From<E>,
    {
        self.use_on(self.home(), access, queue)
    }

    /// Queues something on `stream` that uses this memory: waits for what matters, then notes the
    /// use. What fails may have queued a part, so that is noted too.
    pub(crate) fn use_on<E>(
        &self,
        stream: &Stream,
        access: Access,
        queue: impl FnOnce() -> Result<(), E>,
    ) -> Result<()>
    where
        Error: From<E>,
    {
        let mut scope = Scope::new(stream);
        self.tracker.before(&scope, access)?;
        let queued = queue();
        self.tracker.after(&mut scope, access);
        Ok(queued?)
    }

    /// Gives the memory back behind all uses, unless a graph holds it: then it goes with the last
    /// that does.
    pub(crate) fn close(self) -> Result<()> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: nothing of it must be used after ← it is not dropped, and this is its end.
        let (block, source) = unsafe { this.take() };
        match block.leave(source) {
            Some(source) => Ok(source.take_back(block)?),
            None => Ok(()),
        }
    }

    /// The address, for others to free. The home stream waits for every use.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if a graph holds it, with which it then goes.
    pub(crate) fn into_raw(self) -> Result<CUdeviceptr> {
        if self.tracker.is_held() && self.tracker.has_holders() {
            return Err(Error::StillInUse { what: "the memory" });
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: nothing of it must be used after ← it is not dropped, and this is its end.
        let (block, source) = unsafe { this.take() };
        match source {
            Source::Foreign(owner) => mem::forget(owner),
            Source::Cached(pool) => pool.lose(&block),
            // It stays out for good, and its module loaded.
            Source::Global(module) => mem::forget(module),
            Source::Nothing | Source::Ordered | Source::Plain | Source::Managed => {}
        }
        block.behind_all()?;
        Ok(block.address)
    }

    /// The block on its own, for a pool that knows what it is of.
    pub(crate) fn into_block(self) -> Block {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: nothing of it must be used after ← it is not dropped, and this is its end.
        let (block, _) = unsafe { this.take() };
        block
    }

    /// # Safety
    ///
    /// `self` is neither used nor dropped after.
    unsafe fn take(&mut self) -> (Block, Source) {
        // SAFETY: it must not be used again ← the caller says so.
        let tracker = unsafe { ManuallyDrop::take(&mut self.tracker) };
        let block = Block {
            address: self.address,
            bytes: self.bytes,
            tracker,
        };
        (block, mem::replace(&mut self.source, Source::Nothing))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nothing of it must be used after ← this is its end.
        let (block, source) = unsafe { self.take() };
        // A drop has nobody to tell; `close` does. What fails here leaks in the driver, and nothing
        // else. Inside a host function not even the tracker is locked: who has it may wait for that
        // function.
        let take_back = move |block: Block| {
            if let Some(source) = block.leave(source) {
                let _ = source.take_back(block);
            }
        };
        if pending::must_not_wait() {
            let driver = block.tracker.home().driver().clone();
            pending::defer(&driver, move || take_back(block));
        } else {
            take_back(block);
        }
    }
}

impl Source {
    /// What a plain allocation on `home` is of.
    pub(crate) fn allocated(home: &Stream) -> Self {
        if home.context().limits().pools {
            Self::Ordered
        } else {
            Self::Plain
        }
    }

    /// Gives a block back behind all uses. If those cannot be waited for the memory stays: one may
    /// be under way.
    pub(crate) fn take_back(self, block: Block) -> Result<(), DriverError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Ordered => {
                let home = block.behind_all()?;
                let queueing = home.queueing()?;
                // SAFETY: the memory must be allocated and no longer used ← it is owned, and the
                // stream has just been made to wait for every use on another stream.
                unsafe { call!(home.driver(), cuMemFreeAsync(block.address, queueing.raw())) }
            }
            Self::Plain | Self::Managed => {
                let home = block.behind_all()?;
                home.state().synchronize(home.context())?;
                let _relaxed = home.driver().relaxed();
                // SAFETY: as above, and the host has waited for the stream.
                unsafe { call!(home.driver(), cuMemFree_v2(block.address)) }
            }
            Self::Cached(pool) => pool.take_back(block),
            Self::Global(module) => {
                module.take_back(block);
                Ok(())
            }
            Self::Foreign(owner) => {
                let waited = block.tracker.synchronize(Access::WRITE);
                if waited.is_err() {
                    mem::forget(owner);
                }
                waited
            }
        }
    }
}

impl Block {
    /// Leaves the memory to the graphs that hold it; answers the source if there is none.
    fn leave(&self, source: Source) -> Option<Source> {
        if self.tracker.is_held() {
            self.tracker.leave(self.address, self.bytes, source)
        } else {
            Some(source)
        }
    }

    /// Frees memory that is of no pool, behind all uses.
    pub(crate) fn free(self) -> Result<(), DriverError> {
        Source::allocated(self.tracker.home()).take_back(self)
    }

    /// The home stream, made to wait for every use on another stream.
    fn behind_all(&self) -> Result<Stream, DriverError> {
        if let Err(error) = self.tracker.before_free() {
            // The memory is never freed, and ends with its context.
            Tracker::keep_context_while_used_elsewhere(&self.tracker);
            return Err(error);
        }
        let home = self.tracker.home().clone();
        if Fault::FreedOnOtherStream.is_planted() {
            return Ok(home.context().default_stream().unwrap_or(home));
        }
        Ok(home)
    }
}
