//! The one owner of raw handles, and the one `Drop` that gives them back.

use std::fmt;
use std::mem::ManuallyDrop;

use crate::driver::Driver;
use crate::error::DriverError;
use crate::pending;

/// A kind of handle, and how it is given back.
pub(crate) trait Destroy: 'static {
    /// The raw handle.
    type Raw: Copy + fmt::Debug + Send + Sync;

    /// Gives it back.
    ///
    /// # Safety
    ///
    /// `raw` is alive, and not used after this call.
    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError>;
}

/// Owns a raw handle. No destroying call of the driver needs a current context (docs/safety.md), so
/// the driver is all that it needs beside the handle.
pub(crate) struct Handle<T: Destroy> {
    raw: T::Raw,
    driver: Driver,
}

impl<T: Destroy> Handle<T> {
    /// Takes a handle that the driver has just made.
    ///
    /// # Safety
    ///
    /// `raw` is alive and of this driver, and nobody else gives it back.
    pub(crate) unsafe fn new(driver: &Driver, raw: T::Raw) -> Self {
        Self {
            raw,
            driver: driver.clone(),
        }
    }

    pub(crate) fn raw(&self) -> T::Raw {
        self.raw
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Gives the handle back and answers what the driver said.
    pub(crate) fn close(self) -> Result<(), DriverError> {
        let (raw, driver) = self.into_parts();
        let _relaxed = driver.relaxed();
        // SAFETY: the handle must be alive and not used after ← it was owned, and this is its end.
        unsafe { T::destroy(&driver, raw) }
    }

    /// Never gives the handle back: something may still use it.
    pub(crate) fn abandon(self) {
        let _ = self.into_parts();
    }

    fn into_parts(self) -> (T::Raw, Driver) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the driver must not be used again through `this` ← it is never dropped, and this
        // is its end.
        let driver = unsafe { std::ptr::read(&raw const this.driver) };
        (this.raw, driver)
    }
}

impl<T: Destroy> Drop for Handle<T> {
    fn drop(&mut self) {
        let (raw, driver) = (self.raw, self.driver.clone());
        pending::in_turn(&self.driver, move || {
            let _relaxed = driver.relaxed();
            // A drop has no caller to return an error to; `close` has. What fails here leaks in the
            // driver, and nothing else. SAFETY: the handle must be alive and not used after ← it
            // was owned, and this is its end.
            let _ = unsafe { T::destroy(&driver, raw) };
        });
    }
}

impl<T: Destroy> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
