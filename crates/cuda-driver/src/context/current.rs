//! The current context of a thread.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::{CUcontext, CUresult, calls};

use super::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};

/// Makes a context current on this thread for the time of a call. Dropping it restores the previous
/// context.
///
/// It pushes the context onto the stack of the driver and pops it again. The previous context is
/// never named, so it does not matter whether that context has been destroyed meanwhile.
pub(crate) struct Current<'a> {
    /// The driver, if a context was pushed and must be popped.
    pushed: Option<&'a Driver>,
}

/// The current context of a thread.
impl Context {
    /// Makes this context current on this thread until the guard is dropped.
    ///
    /// Queries the current context every time (8 ns), because other code may have changed it.
    pub(crate) fn enter(&self) -> Result<Current<'_>, DriverError> {
        self.enter_from(current(self.driver())?)
    }

    /// Makes this context current in place of `before`, which is current.
    fn enter_from(&self, before: CUcontext) -> Result<Current<'_>, DriverError> {
        if before == self.as_raw() {
            return Ok(Current { pushed: None });
        }
        self.push()?;
        // This is not the driver of the context, which refuses calls once the context is declared
        // dead: the context must be popped in that case too.
        Ok(Current {
            pushed: Some(self.device().driver()),
        })
    }

    /// Makes this context current, as [`enter`](Self::enter) does, for a copy that fails if a
    /// context of another device is current. Does nothing if the driver has only one device, or if
    /// no context is current.
    #[inline]
    pub(crate) fn enter_for_copy(&self) -> Result<Option<Current<'_>>, DriverError> {
        if !self.limits().has_other_devices {
            return Ok(None);
        }
        let before = current(self.driver())?;
        if before.is_null() {
            return Ok(None);
        }
        self.enter_from(before).map(Some)
    }

    fn push(&self) -> Result<(), DriverError> {
        // SAFETY: the context must be alive ← `self` is a handle of it.
        unsafe { call!(self.driver(), cuCtxPushCurrent_v2(self.as_raw())) }
    }

    /// `cuCtxGetCurrent()`—Returns the context that is current on this thread, if any.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignContext`](crate::Error::ForeignContext) if the current context is neither a
    /// primary context nor known to this crate.
    #[doc(alias = "cuCtxGetCurrent")]
    pub fn current(driver: &Driver) -> Result<Option<Self>> {
        let driver = driver.without_context();
        let raw = current(&driver)?;
        if raw.is_null() {
            return Ok(None);
        }
        Self::known(&driver, raw).map(Some)
    }

    /// `cuCtxPushCurrent()`—Makes this context current on this thread until the guard is dropped.
    /// This is for other code that uses the current context, such as the CUDA runtime. This crate
    /// does not need it.
    ///
    /// The guard keeps the context alive and cannot move to another thread. Dropping it restores
    /// the previous context. Guards may be dropped in any order: dropping a guard that is not the
    /// most recent one takes effect when all guards made after it are dropped.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_PERMITTED` in the destructor of a thread-local variable, after the list of
    /// guards of this thread has been destroyed.
    #[doc(alias = "cuCtxPushCurrent")]
    #[doc(alias = "cuCtxSetCurrent")]
    pub fn make_current(&self) -> Result<CurrentContext> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let driver = self.driver();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let pushed = PUSHED.try_with(|pushed| -> Result<(), DriverError> {
            let before = current(driver)? as usize;
            self.push()?;
            pushed.borrow_mut().push(Pushed {
                id,
                context: self.clone(),
                before,
                is_open: true,
            });
            Ok(())
        });
        match pushed {
            Ok(result) => result?,
            Err(_) => Err(DriverError::new(
                CUresult::CUDA_ERROR_NOT_PERMITTED,
                calls::cuCtxPushCurrent_v2,
                driver.version(),
            ))?,
        }
        Ok(CurrentContext {
            id,
            of_thread: PhantomData,
        })
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if let Some(driver) = self.pushed {
            // `drop` cannot return an error.
            let _ = pop(driver);
        }
    }
}

thread_local! {
    /// The contexts that guards have made current on this thread, of all drivers; the last is the
    /// top.
    static PUSHED: RefCell<Vec<Pushed>> = const { RefCell::new(Vec::new()) };
}

struct Pushed {
    id: u64,
    /// Kept alive as long as it may be on the stack of the driver.
    context: Context,
    /// The address of the previous context, for comparison only.
    before: usize,
    /// Whether its guard still exists.
    is_open: bool,
}

/// A context that is current on this thread: see [`Context::make_current`].
#[must_use = "the context is current only while this guard exists"]
pub struct CurrentContext {
    id: u64,
    /// Not `Send`: each thread has its own stack.
    of_thread: PhantomData<*const ()>,
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        // Handles of contexts are dropped only after `PUSHED` is no longer borrowed: dropping the
        // last handle drops the liveness token, whose code may use this module again.
        let mut gone = Vec::new();
        // At the end of a thread, its stack is destroyed together with `PUSHED`.
        let _ = PUSHED.try_with(|pushed| {
            let mut pushed = pushed.borrow_mut();
            let Some(at) = pushed.iter().position(|entry| entry.id == self.id) else {
                return;
            };
            pushed[at].is_open = false;
            let driver = pushed[at].context.device().driver().clone();
            // Each driver has its own stack.
            let is_of_stack =
                |entry: &Pushed| Arc::ptr_eq(entry.context.driver().library(), driver.library());
            while let Some(top) = pushed.iter().rposition(is_of_stack) {
                if pushed[top].is_open {
                    break;
                }
                let entry = pushed.remove(top);
                entry.pop(&driver);
                gone.push(entry);
            }
        });
    }
}

impl Pushed {
    /// Restores the previous context, unless other code has already done so.
    fn pop(&self, driver: &Driver) {
        let own = self.context.as_raw() as usize;
        let is_back = current(driver).is_ok_and(|now| {
            let now = now as usize;
            now == self.before && now != own
        });
        if !is_back {
            // `drop` cannot return an error.
            let _ = pop(driver);
        }
    }
}

impl fmt::Debug for CurrentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CurrentContext")
    }
}

/// Returns whether a guard of [`Context::make_current`] exists on this thread for a context of
/// this driver.
pub(super) fn has_guards(driver: &Driver) -> bool {
    let is_of_stack =
        |entry: &Pushed| Arc::ptr_eq(entry.context.device().driver().library(), driver.library());
    let any = |pushed: &RefCell<Vec<Pushed>>| pushed.borrow().iter().any(is_of_stack);
    PUSHED.try_with(any).unwrap_or(false)
}

/// Returns the context that is current on this thread.
pub(super) fn current(driver: &Driver) -> Result<CUcontext, DriverError> {
    let mut current = ptr::null_mut();
    // SAFETY: the pointer must be writable ← it points to a local.
    unsafe { call!(driver, cuCtxGetCurrent(&raw mut current)) }?;
    Ok(current)
}

/// Pops the current context from the stack of this thread.
pub(super) fn pop(driver: &Driver) -> Result<(), DriverError> {
    let mut popped = ptr::null_mut();
    // SAFETY: the pointer must be writable ← it points to a local.
    unsafe { call!(driver, cuCtxPopCurrent_v2(&raw mut popped)) }
}
