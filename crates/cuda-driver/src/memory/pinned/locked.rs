//! What owners of page-locked memory have in common: the lock, and what becomes of it after a transfer that failed.

use std::ffi::c_void;
use std::mem;
use std::sync::{Arc, OnceLock};

use cuda_sys::CUdeviceptr;

use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::pending;

/// What copies need of page-locked memory, and nobody else.
pub(crate) mod sealed {
    use super::{DriverError, c_void};

    /// See [`PageLocked`](crate::memory::PageLocked).
    pub trait Lock {
        /// The first byte; dangling, but not null, if there is none.
        fn start(&self) -> *mut c_void;

        /// A transfer that reads the memory failed with `error`, and may be under way: the memory is never given back.
        fn suspect(&self, error: DriverError);

        /// A transfer that writes the memory failed with `error`, and may be under way: the memory is never given back,
        /// and the owner is left with no elements.
        fn abandon(&mut self, error: DriverError);
    }
}

/// A pool that locked memory goes back to.
pub(crate) trait Keep<K: Destroy>: Send + Sync {
    /// The context of the memory.
    fn context(&self) -> &Context;

    /// Takes back memory that nothing uses any more.
    fn take_back(&self, class: usize, handle: Handle<K>) -> Result<(), DriverError>;

    /// Notes that memory of this class never comes back.
    fn lose(&self, class: usize);
}

/// A kind of lock.
pub(crate) trait Lockable: Destroy {
    /// The first byte that is locked.
    fn start(raw: Self::Raw) -> *mut c_void;
}

/// Locked memory, unlocked when it goes; nothing if there are no bytes.
pub(crate) struct Locked<K: Lockable> {
    /// Before `home`: it goes first.
    handle: Option<Handle<K>>,
    /// Why the memory must not be given back, if so.
    suspect: OnceLock<DriverError>,
    home: Home<K>,
}

/// What locked memory is given back to.
enum Home<K: Lockable> {
    /// The driver.
    Context(Context),
    /// A pool, in which it has a class.
    Pool(Arc<dyn Keep<K>>, usize),
}

impl<K: Lockable> Locked<K> {
    pub(crate) fn new(context: &Context, handle: Option<Handle<K>>) -> Self {
        Self {
            handle,
            suspect: OnceLock::new(),
            home: Home::Context(context.clone()),
        }
    }

    /// Memory of a pool, to which it goes back.
    pub(crate) fn kept(handle: Handle<K>, pool: Arc<dyn Keep<K>>, class: usize) -> Self {
        Self {
            handle: Some(handle),
            suspect: OnceLock::new(),
            home: Home::Pool(pool, class),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        match &self.home {
            Home::Context(context) => context,
            Home::Pool(pool, _) => pool.context(),
        }
    }

    /// The first byte, if there is one.
    pub(crate) fn start(&self) -> Option<*mut c_void> {
        self.handle.as_ref().map(|handle| K::start(handle.raw()))
    }

    /// `cuMemHostGetDevicePointer_v2()`; 0 where there are no bytes.
    pub(crate) fn device_address(&self) -> Result<CUdeviceptr> {
        let mut address = 0;
        if let Some(start) = self.start() {
            let _current = self.context().enter()?;
            // SAFETY: the pointers must be writable, and of memory that is locked ← a local, and `self` owns the lock.
            unsafe {
                call!(
                    self.context().driver(),
                    cuMemHostGetDevicePointer_v2(&raw mut address, start, 0)
                )
            }?;
        }
        Ok(address)
    }

    /// Moves the lock out.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            handle: self.handle.take(),
            suspect: mem::take(&mut self.suspect),
            home: match &self.home {
                Home::Context(context) => Home::Context(context.clone()),
                Home::Pool(pool, class) => Home::Pool(Arc::clone(pool), *class),
            },
        }
    }

    /// Remembers that the memory must not be given back.
    pub(crate) fn suspect(&self, error: DriverError) {
        // The first reason stays.
        let _ = self.suspect.set(error);
    }

    /// Unlocks the memory, and answers what the driver says. On an error it may still be locked, or in use.
    pub(crate) fn unlock(&mut self) -> Result<(), DriverError> {
        let Some(handle) = self.handle.take() else {
            return Ok(());
        };
        match self.suspect.get() {
            None => match &self.home {
                Home::Context(_) => handle.close(),
                Home::Pool(pool, class) => pool.take_back(*class, handle),
            },
            Some(error) => {
                handle.abandon();
                if let Home::Pool(pool, class) = &self.home {
                    pool.lose(*class);
                }
                Err(*error)
            }
        }
    }
}

impl<K: Lockable> Drop for Locked<K> {
    fn drop(&mut self) {
        if pending::must_not_wait() && self.handle.is_some() {
            let moved = self.take();
            return pending::defer(self.context().driver(), move || drop(moved));
        }
        // A drop has nobody to tell; `close` does.
        let _ = self.unlock();
    }
}
