//! The interaction of calls of this crate with captures of other code.
//!
//! While other code captures in global mode, a call that the manual names potentially unsafe, such
//! as `cuEventQuery` or `cuMemFree`, fails on every thread of the process and invalidates the
//! capture. A thread in relaxed mode invalidates no capture. Therefore the crate makes all calls
//! that the program does not explicitly request in relaxed mode: those of its own threads, of
//! drops, and of its internal bookkeeping (docs/safety.md, Captures of other code).

use cuda_sys::CUstreamCaptureMode;

use super::Driver;

/// A guard: while it exists, calls of this thread to one driver invalidate no capture of other
/// code. Dropping it restores the previous mode of the thread.
#[must_use = "the thread is in relaxed mode only while this guard exists"]
pub(crate) struct Relaxed<'a> {
    driver: &'a Driver,
    /// The mode to restore, if it differs.
    before: Option<CUstreamCaptureMode>,
}

impl Driver {
    /// `cuThreadExchangeStreamCaptureMode(RELAXED)`—Puts this thread into relaxed mode until the
    /// guard is dropped.
    ///
    /// The mode belongs to the thread and the driver, and the call needs no current context. A
    /// driver that cannot change the mode leaves the thread as it is.
    pub(crate) fn relaxed(&self) -> Relaxed<'_> {
        let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        if self.is_gone() || !self.expects_foreign_captures() {
            // No calls are made through this handle any more, or there is no capture to protect.
            return Relaxed {
                driver: self,
                before: None,
            };
        }
        let before = exchange(self, relaxed).filter(|before| *before != relaxed);
        Relaxed {
            driver: self,
            before,
        }
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            exchange(self.driver, before);
        }
    }
}

/// Sets the mode of this thread. Returns the previous mode, or `None` if the driver refuses.
fn exchange(driver: &Driver, mode: CUstreamCaptureMode) -> Option<CUstreamCaptureMode> {
    if driver.is_forked() {
        return None;
    }
    let mut mode = mode;
    // This bypasses the liveness check of a borrowed context: the mode belongs to the thread, and
    // must be restored even if the context is dead.
    let table = driver.library().table();
    // SAFETY: the pointer must be readable and writable ← it points to a local.
    let status = unsafe { table.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    status.is_success().then_some(mode)
}
