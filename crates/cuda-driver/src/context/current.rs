//! Which context is current on a thread.

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

/// A context that is current on this thread for the time of a call; what was before comes back when
/// it goes.
///
/// It goes onto the driver's stack and off it again: what was current is never named, so it matters
/// to nobody if it has been destroyed meanwhile.
pub(crate) struct Current<'a> {
    /// The driver, if there is something to pop.
    pushed: Option<&'a Driver>,
}

impl Context {
    /// Makes this context current on this thread until the guard goes.
    ///
    /// The driver is asked each time what is current (8 ns): other code may have changed it.
    pub(crate) fn enter(&self) -> Result<Current<'_>, DriverError> {
        if current(self.driver())? == self.as_raw() {
            return Ok(Current { pushed: None });
        }
        self.push()?;
        // Not the driver of the context, which refuses calls once the context is declared dead: it
        // must come off all the same.
        Ok(Current {
            pushed: Some(self.device().driver()),
        })
    }

    fn push(&self) -> Result<(), DriverError> {
        // SAFETY: the context must be alive ← `self` is a handle of it.
        unsafe { call!(self.driver(), cuCtxPushCurrent_v2(self.as_raw())) }
    }

    /// `cuCtxGetCurrent()`—The context that is current on this thread, if one is.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignContext`](crate::Error::ForeignContext) if it is neither a primary context
    /// nor one of this crate, or what the calls answer.
    #[doc(alias = "cuCtxGetCurrent")]
    pub fn current(driver: &Driver) -> Result<Option<Self>> {
        let driver = driver.of_all();
        let raw = current(&driver)?;
        if raw.is_null() {
            return Ok(None);
        }
        Self::known(&driver, raw).map(Some)
    }

    /// `cuCtxPushCurrent()`—Makes this context current on this thread until the guard goes: for
    /// other code that works in whatever context is current, such as the CUDA runtime. This crate
    /// needs it for nothing.
    ///
    /// The guard keeps the context alive, and stays on its thread. When it goes, what was current
    /// before comes back. Guards may go in any order: one that is not the last made takes effect
    /// when those behind it are gone.
    ///
    /// # Errors
    ///
    /// What the call answers, and `CUDA_ERROR_NOT_PERMITTED` in the destructor of a thread-local
    /// variable, when the thread has nowhere left to remember what is current.
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
            // A drop has nobody to tell.
            let _ = pop(driver);
        }
    }
}

thread_local! {
    /// What guards have made current on this thread, of all drivers; the last is the top.
    static PUSHED: RefCell<Vec<Pushed>> = const { RefCell::new(Vec::new()) };
}

struct Pushed {
    id: u64,
    /// Kept alive as long as it may be on the driver's stack.
    context: Context,
    /// What was current before, to compare.
    before: usize,
    /// Whether its guard is there.
    is_open: bool,
}

/// A context that is current on this thread: see [`Context::make_current`].
#[must_use = "the context is current as long as this value is there"]
pub struct CurrentContext {
    id: u64,
    /// A thread's stack is its own.
    of_thread: PhantomData<*const ()>,
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        // Contexts go behind the borrow: one may be the last handle, and its token run code that
        // comes back here.
        let mut gone = Vec::new();
        // At the end of a thread its stack goes, and `PUSHED` with it.
        let _ = PUSHED.try_with(|pushed| {
            let mut pushed = pushed.borrow_mut();
            let Some(at) = pushed.iter().position(|entry| entry.id == self.id) else {
                return;
            };
            pushed[at].is_open = false;
            let driver = pushed[at].context.device().driver().clone();
            // Each driver has a stack of its own.
            let is_of_stack =
                |entry: &Pushed| Arc::ptr_eq(entry.context.driver().library(), driver.library());
            while let Some(top) = pushed.iter().rposition(is_of_stack) {
                if pushed[top].is_open {
                    break;
                }
                let entry = pushed.remove(top);
                entry.take_off(&driver);
                gone.push(entry);
            }
        });
    }
}

impl Pushed {
    /// Brings back what was current before, unless other code has done so.
    fn take_off(&self, driver: &Driver) {
        let own = self.context.as_raw() as usize;
        let is_back = current(driver).is_ok_and(|now| {
            let now = now as usize;
            now == self.before && now != own
        });
        if !is_back {
            // A drop has nobody to tell.
            let _ = pop(driver);
        }
    }
}

impl fmt::Debug for CurrentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CurrentContext")
    }
}

/// What is current on this thread.
pub(super) fn current(driver: &Driver) -> Result<CUcontext, DriverError> {
    let mut current = ptr::null_mut();
    // SAFETY: the pointer must be writable ← it is to a local.
    unsafe { call!(driver, cuCtxGetCurrent(&raw mut current)) }?;
    Ok(current)
}

/// Takes what is current off this thread's stack.
pub(super) fn pop(driver: &Driver) -> Result<(), DriverError> {
    let mut popped = ptr::null_mut();
    // SAFETY: the pointer must be writable ← it is to a local.
    unsafe { call!(driver, cuCtxPopCurrent_v2(&raw mut popped)) }
}
