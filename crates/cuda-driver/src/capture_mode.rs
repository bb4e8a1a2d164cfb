//! How calls of a thread interact with captures of other code.
//!
//! While other code captures in global mode, a call that the manual names potentially unsafe, such
//! as `cuEventQuery` or `cuMemFree`, fails on every thread of the process, and the capture is
//! broken. A thread in relaxed mode breaks none. So the calls that the program does not ask for by
//! name are made in relaxed mode: those of our threads, of drops, and of what this crate keeps for
//! itself (docs/safety.md, Captures of other code).

use cuda_sys::CUstreamCaptureMode;

use crate::driver::Driver;

/// This thread's calls of one driver break no capture of other code until this is dropped; then the
/// thread has the mode that it had before.
#[must_use = "the thread is in relaxed mode as long as this value is there"]
pub(crate) struct Relaxed<'a> {
    driver: &'a Driver,
    /// The mode to go back to, if it is another one.
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
        if self.is_gone() {
            // No call is made through this handle any more.
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

/// Sets the mode of this thread; returns the one before, or `None` if the driver refuses.
fn exchange(driver: &Driver, mode: CUstreamCaptureMode) -> Option<CUstreamCaptureMode> {
    let mut mode = mode;
    // Not through the life of a borrowed context: the mode is the thread's, and must come back when
    // the context is gone.
    let table = driver.library().table();
    // SAFETY: the pointer must be readable and writable ← it is to a local.
    let status = unsafe { table.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    status.is_success().then_some(mode)
}
