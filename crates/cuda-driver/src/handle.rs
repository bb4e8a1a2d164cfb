//! The only owner of raw handles, and the only `Drop` that destroys them.

use std::any::Any;
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::ptr;

use crate::driver::Driver;
use crate::error::DriverError;
use crate::lock::DropOutsideLocks;

/// A kind of raw handle, and the call that destroys it.
pub(crate) trait Destroy: 'static {
    /// The raw handle.
    type Raw: Copy + fmt::Debug + Send + Sync;

    /// Whether the destroying call invalidates no capture of other code, in any mode of the thread.
    /// Otherwise it is made in relaxed mode, which takes two more calls.
    const IS_HARMLESS_TO_CAPTURES: bool = false;

    /// Destroys the object of the handle.
    ///
    /// # Safety
    ///
    /// `raw` is alive, and is not used after this call.
    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError>;
}

/// Owns a raw handle, or an owner of other code that keeps the object of the handle alive. Only the
/// driver is stored with the handle, because most destroying calls need no current context
/// (docs/safety.md). The owners of arrays, textures and surfaces make their context current.
pub(crate) struct Handle<T: Destroy> {
    raw: T::Raw,
    /// `None` if this handle owns the object.
    foreign: Option<Box<ForeignOwner>>,
    driver: Driver,
}

/// The owner of an object of other code. Dropping it runs code of the program.
struct ForeignOwner<T: ?Sized = dyn Any + Send + Sync> {
    _check: DropOutsideLocks,
    _owner: T,
}

impl<T: Destroy> Handle<T> {
    /// Takes ownership of a handle that the driver has just created.
    ///
    /// # Safety
    ///
    /// `raw` is alive and belongs to this driver, and no other owner destroys it.
    pub(crate) unsafe fn new(driver: &Driver, raw: T::Raw) -> Self {
        Self {
            raw,
            foreign: None,
            driver: driver.clone(),
        }
    }

    /// Creates a handle of an object of other code. Dropping it drops `owner`, while no mutex is
    /// held and on a thread that may wait.
    ///
    /// # Safety
    ///
    /// `raw` belongs to this driver, and is alive until `owner` is dropped.
    pub(crate) unsafe fn foreign(
        driver: &Driver,
        raw: T::Raw,
        owner: impl Any + Send + Sync,
    ) -> Self {
        let owner = ForeignOwner {
            _check: DropOutsideLocks,
            _owner: owner,
        };
        Self {
            raw,
            foreign: Some(Box::new(owner)),
            driver: driver.clone(),
        }
    }

    /// Returns whether other code owns the object.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.is_some()
    }

    pub(crate) fn raw(&self) -> T::Raw {
        self.raw
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Destroys the object and returns the result of the driver call. Drops the owner instead if
    /// other code owns the object.
    pub(crate) fn close(self) -> Result<(), DriverError> {
        let (raw, foreign, driver) = self.into_parts();
        if foreign.is_some() {
            return Ok(());
        }
        let _relaxed = (!T::IS_HARMLESS_TO_CAPTURES).then(|| driver.relaxed());
        // SAFETY: the handle must be alive and not used afterwards ← `self` owned it, and was
        // consumed.
        unsafe { T::destroy(&driver, raw) }
    }

    /// Gives up the handle without destroying the object, because it may still be in use.
    pub(crate) fn abandon(self) {
        let (_, foreign, _) = self.into_parts();
        mem::forget(foreign);
    }

    fn into_parts(self) -> (T::Raw, Option<Box<ForeignOwner>>, Driver) {
        let mut this = ManuallyDrop::new(self);
        let foreign = this.foreign.take();
        // SAFETY: the driver must not be used again through `this` ← `this` is never dropped, and
        // its scope ends here.
        let driver = unsafe { ptr::read(&raw const this.driver) };
        (this.raw, foreign, driver)
    }
}

impl<T: Destroy> Drop for Handle<T> {
    fn drop(&mut self) {
        let (raw, driver) = (self.raw, self.driver.clone());
        if let Some(foreign) = self.foreign.take() {
            return driver.run_in_order(move || drop(foreign));
        }
        self.driver.run_in_order(move || {
            let _relaxed = (!T::IS_HARMLESS_TO_CAPTURES).then(|| driver.relaxed());
            // `drop` cannot return an error; `close` can. If the call fails, the object leaks in
            // the driver, with no other effect.
            // SAFETY: the handle must be alive and not used afterwards ← `self` owned it, and is
            // being dropped.
            let _ = unsafe { T::destroy(&driver, raw) };
        });
    }
}

impl<T: Destroy> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
