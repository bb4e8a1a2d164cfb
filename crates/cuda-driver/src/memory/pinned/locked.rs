//! What owners of page-locked memory have in common: the lock, and what becomes of it after a
//! transfer that failed.

use std::ffi::c_void;
use std::mem;
use std::sync::{Arc, OnceLock};

use cuda_sys::CUdeviceptr;

use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::pending;

/// The part of [`PageLocked`](crate::memory::PageLocked) that only this crate may call.
pub(crate) mod sealed {
    use super::{DriverError, c_void};

    /// A value that only this crate can make.
    ///
    /// Functions of a supertrait can be called through a public bound (`P: PageLocked<T>`) even
    /// where the supertrait has no public path. So those with an effect take a token, which no
    /// other crate has.
    #[derive(Clone, Copy, Debug)]
    pub struct Token(());

    /// The token of this crate.
    pub(crate) const TOKEN: Token = Token(());

    /// See [`PageLocked`](crate::memory::PageLocked).
    pub trait Lock {
        /// Returns the address of the first byte; dangling, but not null, if there is none.
        fn start(&self) -> *mut c_void;

        /// Keeps the memory allocated for ever: a transfer that reads it failed with `error` and
        /// may still be running.
        fn suspect(&self, error: DriverError, token: Token);

        /// Keeps the memory allocated for ever and leaves the owner with no elements: a transfer
        /// that writes the memory failed with `error` and may still be running.
        fn abandon(&mut self, error: DriverError, token: Token);
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
            // SAFETY: the pointers must be writable, and of memory that is locked ← a local, and
            // `self` owns the lock.
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

    /// Unlocks the memory, and answers what the driver says. On an error it may still be locked, or
    /// in use.
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
