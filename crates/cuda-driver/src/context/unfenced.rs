//! Unfenced uses: uses of memory whose completion event could not be recorded.
//!
//! A use on the per-thread stream records its event at once, because no other thread can do that
//! later. If the record fails, only a wait for the whole context shows that the use is complete.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::{CUresult, calls};

use super::Context;
use crate::driver::call;
use crate::error::DriverError;

/// The unfenced uses of a context, numbered from 1.
#[derive(Default)]
pub(crate) struct UnfencedUses {
    registered: AtomicU64,
    /// All unfenced uses up to this number are complete.
    complete: AtomicU64,
}

impl UnfencedUses {
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        number != 0 && self.complete.load(Ordering::Acquire) >= number
    }
}

impl Context {
    /// Registers an unfenced use, which is already queued, and returns its number.
    pub(crate) fn register_unfenced_use(&self) -> u64 {
        self.unfenced().registered.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Waits until the unfenced uses that were registered so far are complete. The caller must not
    /// hold a lock.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` if there is a capture, which the wait would
    /// invalidate; or an error of `cuCtxSynchronize`.
    pub(crate) fn wait_for_unfenced(&self) -> Result<(), DriverError> {
        let unfenced = self.unfenced();
        let registered = unfenced.registered.load(Ordering::Acquire);
        if unfenced.complete.load(Ordering::Acquire) >= registered || self.driver().is_gone() {
            return Ok(());
        }
        let Some(_quiet) = self.captures().quiet() else {
            let status = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            let version = self.driver().version();
            return Err(DriverError::new(status, calls::cuCtxSynchronize, version));
        };
        let _current = self.enter()?;
        let _relaxed = self.driver().relaxed();
        // SAFETY: the call takes no pointers.
        unsafe { call!(self.driver(), cuCtxSynchronize()) }?;
        unfenced.complete.fetch_max(registered, Ordering::AcqRel);
        Ok(())
    }
}
