//! Threads that belong to a context.
//!
//! In C, `cuCtxSetCurrent` leaves it to the program to keep the context alive while it is current.
//! Here the thread owns a handle of its context.

use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{CUcontext, CUresult, calls};

use super::Context;
use super::current::{current, has_guards};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};

thread_local! {
    /// The contexts that this thread belongs to, at most one for each driver.
    static BOUND: RefCell<Vec<Context>> = const { RefCell::new(Vec::new()) };
}

/// Threads that belong to a context.
impl Context {
    /// `cuCtxSetCurrent()`—Makes this context current on the calling thread from now on, in place
    /// of the current one.
    ///
    /// This crate does not need it, but saves calls on such a thread. A call that needs a current
    /// context, such as an allocation of page-locked memory or a copy by
    /// [`Stream::copy_raw`](crate::Stream::copy_raw), otherwise pushes its context and pops it
    /// again. Here it only asks which context is current. If other code has changed that in the
    /// meantime, the call pushes and pops, and leaves the change of the other code in place.
    ///
    /// Unlike the guard of [`make_current`](Self::make_current), the state belongs to the thread
    /// and not to a value, so objects that move between threads, such as a server that must be
    /// `Send`, can call this at the start of their work. Calling it again is cheap.
    ///
    /// The thread keeps the context alive until the thread ends, belongs to another context of the
    /// same driver, or calls [`unbind_thread`](Self::unbind_thread).
    ///
    /// ```
    /// use cuda_driver::{Context, PinnedBuffer};
    /// use cuda_driver::memory::PinnedFlags;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// context.bind_thread()?;
    /// assert_eq!(Context::current(&driver)?, Some(context.clone()));
    /// let pinned = PinnedBuffer::<u8>::zeroed(&context, 100, PinnedFlags::DEFAULT)?;
    /// # drop(pinned);
    /// context.unbind_thread()?;
    /// assert_eq!(Context::current(&driver)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::StillInUse`] while a guard of [`make_current`](Self::make_current) exists on this
    ///   thread: dropping the guard would end the binding.
    /// - `CUDA_ERROR_NOT_PERMITTED` in the destructor of a thread-local variable.
    #[doc(alias = "cuCtxSetCurrent")]
    #[doc(alias = "cudaSetDevice")]
    #[doc(alias = "bind_to_thread")]
    pub fn bind_thread(&self) -> Result<()> {
        let driver = self.driver();
        expect_no_guards(driver)?;
        if current(driver)? != self.as_raw() {
            // SAFETY: the context must be alive while it is current ← `self` is a handle of it now,
            // and below the thread keeps another one.
            unsafe { set_current(driver, self.as_raw()) }?;
        }
        let before = replace(driver, Some(self.clone()))?;
        // Dropping a handle can end its context, so no variable is borrowed at this point.
        drop(before);
        Ok(())
    }

    /// `cuCtxSetCurrent(NULL)`—Ends what [`bind_thread`](Self::bind_thread) began on the calling
    /// thread. Afterwards no context is current, unless other code has made another one current.
    /// Does nothing if the thread does not belong to this context.
    ///
    /// # Errors
    ///
    /// Fails as [`bind_thread`](Self::bind_thread) does.
    #[doc(alias = "cuCtxSetCurrent")]
    pub fn unbind_thread(&self) -> Result<()> {
        let driver = self.driver();
        if !is_bound(self) {
            return Ok(());
        }
        expect_no_guards(driver)?;
        if current(driver)? == self.as_raw() {
            // SAFETY: the context must be alive while it is current ← there is none.
            unsafe { set_current(driver, ptr::null_mut()) }?;
        }
        drop(replace(driver, None)?);
        Ok(())
    }
}

/// Fails while a guard of [`Context::make_current`] exists on this thread.
fn expect_no_guards(driver: &Driver) -> Result<()> {
    if has_guards(driver) {
        return Err(Error::StillInUse {
            what: "the current context of this thread",
            by: "a guard of `Context::make_current`; drop the guard first",
        });
    }
    Ok(())
}

/// Returns whether this thread belongs to the context.
fn is_bound(context: &Context) -> bool {
    let find = |bound: &RefCell<Vec<Context>>| bound.borrow().contains(context);
    BOUND.try_with(find).unwrap_or(false)
}

/// Sets the context of this thread for the library of `driver`, and returns the previous one.
fn replace(driver: &Driver, context: Option<Context>) -> Result<Option<Context>, DriverError> {
    let replaced = BOUND.try_with(|bound| {
        let mut bound = bound.borrow_mut();
        // Each driver has its own stack of contexts.
        let is_of_driver = |it: &Context| Arc::ptr_eq(it.driver().library(), driver.library());
        let at = bound.iter().position(is_of_driver);
        let before = at.map(|at| bound.swap_remove(at));
        bound.extend(context);
        before
    });
    replaced.map_err(|_| {
        let status = CUresult::CUDA_ERROR_NOT_PERMITTED;
        DriverError::new(status, calls::cuCtxSetCurrent, driver.version())
    })
}

/// # Safety
///
/// The context is alive as long as it is current, or null.
unsafe fn set_current(driver: &Driver, raw: CUcontext) -> Result<(), DriverError> {
    // SAFETY: the context must be alive ← the caller guarantees it.
    unsafe { call!(driver, cuCtxSetCurrent(raw)) }
}
