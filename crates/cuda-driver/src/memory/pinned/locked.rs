//! The part that the owners of page-locked memory share: the lock, and the handling of memory that
//! a failed transfer may still use.

use std::ffi::c_void;
use std::mem;
use std::sync::{Arc, OnceLock};

use cuda_sys::CUdeviceptr;

use crate::context::Context;
use crate::deferred::must_not_wait;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::Memory;

/// The part of [`PageLocked`](crate::memory::PageLocked) that only this crate may call.
pub(crate) mod sealed {
    use super::{DriverError, c_void};

    /// A value that only this crate can create.
    ///
    /// Functions of a supertrait can be called through a public bound (`P: PageLocked<T>`) even if
    /// the supertrait has no public path. So the functions with an effect take a token, which no
    /// other crate can obtain.
    #[derive(Clone, Copy, Debug)]
    pub struct Token(());

    /// The token of this crate.
    pub(crate) const TOKEN: Token = Token(());

    /// The private supertrait of [`PageLocked`](crate::memory::PageLocked).
    pub trait Lock {
        /// Returns the address of the first byte. The pointer is dangling, but not null, if the
        /// memory has 0 bytes.
        fn start(&self) -> *mut c_void;

        /// Keeps the memory allocated for ever, because a transfer that reads it failed with
        /// `error` and may still be running.
        fn poison(&self, error: DriverError, token: Token);

        /// Keeps the memory allocated for ever and leaves the owner with no elements, because a
        /// transfer that writes the memory failed with `error` and may still be running.
        fn abandon(&mut self, error: DriverError, token: Token);
    }
}

/// A pool to which page-locked memory is returned.
pub(crate) trait LockedPool<K: Destroy>: Send + Sync {
    /// Returns the context of the memory.
    fn context(&self) -> &Context;

    /// Takes back memory that is no longer used.
    fn take_back(&self, class: usize, handle: Handle<K>) -> Result<(), DriverError>;

    /// Records that one block of this size class will never be returned.
    fn lose(&self, class: usize);
}

/// A way in which memory is page-locked: allocated by the driver, or registered.
pub(crate) trait Lockable: Destroy {
    /// Returns the address of the first page-locked byte.
    fn start(raw: Self::Raw) -> *mut c_void;
}

/// Page-locked memory that is unlocked, or returned to its pool, when it is dropped. It may be
/// empty.
pub(crate) struct Locked<K: Lockable> {
    /// Declared before `origin`, so that it is dropped first.
    handle: Option<Handle<K>>,
    /// The error of a failed transfer that may still use the memory. If set, the memory is never
    /// freed.
    poisoned_by: OnceLock<DriverError>,
    origin: Origin<K>,
}

/// The place to which page-locked memory is returned.
enum Origin<K: Lockable> {
    /// The driver frees or unregisters the memory.
    Context(Context),
    /// A pool, and the size class of the memory in it.
    Pool(Arc<dyn LockedPool<K>>, usize),
    /// Memory of a pool of the driver. Dropping the `Memory` frees it in stream order, so the
    /// handle must not free it.
    Ordered(Option<Memory>, Context),
}

impl<K: Lockable> Locked<K> {
    pub(crate) fn new(context: &Context, handle: Option<Handle<K>>) -> Self {
        Self {
            handle,
            poisoned_by: OnceLock::new(),
            origin: Origin::Context(context.clone()),
        }
    }

    /// Creates page-locked memory that is returned to `pool` when it is dropped.
    pub(crate) fn pooled(handle: Handle<K>, pool: Arc<dyn LockedPool<K>>, class: usize) -> Self {
        Self {
            handle: Some(handle),
            poisoned_by: OnceLock::new(),
            origin: Origin::Pool(pool, class),
        }
    }

    /// Creates page-locked memory that is freed in the order of the stream that owns `memory`. The
    /// handle has the address of `memory`.
    pub(super) fn ordered(handle: Handle<K>, memory: Memory) -> Self {
        let context = memory.owning_stream().context().clone();
        Self {
            handle: Some(handle),
            poisoned_by: OnceLock::new(),
            origin: Origin::Ordered(Some(memory), context),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        match &self.origin {
            Origin::Context(context) | Origin::Ordered(_, context) => context,
            Origin::Pool(pool, _) => pool.context(),
        }
    }

    /// Returns the address of the first byte, or `None` if the memory has 0 bytes.
    pub(crate) fn start(&self) -> Option<*mut c_void> {
        self.handle.as_ref().map(|handle| K::start(handle.raw()))
    }

    /// `cuMemHostGetDevicePointer_v2()`—Returns the device address, or 0 if the memory has 0 bytes.
    pub(crate) fn device_address(&self) -> Result<CUdeviceptr> {
        let mut address = 0;
        if let Some(start) = self.start() {
            if let Origin::Ordered(Some(memory), _) = &self.origin {
                return Ok(memory.address);
            }
            let _current = self.context().enter()?;
            // SAFETY: `address` must be writable and `start` must be page-locked memory ← `address`
            // is a local variable, and `self` owns the lock.
            unsafe {
                call!(
                    self.context().driver(),
                    cuMemHostGetDevicePointer_v2(&raw mut address, start, 0)
                )
            }?;
        }
        Ok(address)
    }

    /// Moves the lock out and leaves `self` empty.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            handle: self.handle.take(),
            poisoned_by: mem::take(&mut self.poisoned_by),
            origin: match &mut self.origin {
                Origin::Context(context) => Origin::Context(context.clone()),
                Origin::Pool(pool, class) => Origin::Pool(Arc::clone(pool), *class),
                Origin::Ordered(memory, context) => Origin::Ordered(memory.take(), context.clone()),
            },
        }
    }

    /// Records that the memory must never be freed, because a transfer failed with `error`.
    pub(crate) fn poison(&self, error: DriverError) {
        // If there were several errors, the first one is kept.
        let _ = self.poisoned_by.set(error);
    }

    /// Unlocks the memory or returns it to its pool. After an error the memory may still be
    /// page-locked or in use.
    pub(crate) fn unlock(&mut self) -> Result<(), DriverError> {
        if let Some(error) = self.poisoned_by.get().copied()
            && self.handle.is_some()
        {
            self.leak();
            return Err(error);
        }
        let Some(handle) = self.handle.take() else {
            return Ok(());
        };
        match &mut self.origin {
            Origin::Context(_) => handle.close(),
            Origin::Pool(pool, class) => pool.take_back(*class, handle),
            Origin::Ordered(memory, _) => {
                handle.abandon();
                memory.take().map_or(Ok(()), Memory::close)
            }
        }
    }

    /// Never unlocks or frees the memory, and leaves `self` empty. The memory stays page-locked
    /// until its context is destroyed.
    pub(crate) fn leak(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        handle.abandon();
        match &mut self.origin {
            Origin::Context(_) => {}
            Origin::Pool(pool, class) => pool.lose(*class),
            // A block is not freed when it is dropped, and its pool stays.
            Origin::Ordered(memory, _) => drop(memory.take().map(Memory::into_block)),
        }
    }
}

impl<K: Lockable> Drop for Locked<K> {
    fn drop(&mut self) {
        if must_not_wait() && self.handle.is_some() {
            let moved = self.take();
            return self.context().driver().defer(move || drop(moved));
        }
        // A drop cannot report an error. `close` does.
        let _ = self.unlock();
    }
}
