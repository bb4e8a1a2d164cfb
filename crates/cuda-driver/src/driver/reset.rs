//! Detection of a primary context that other code has reset.
//!
//! After `cuDevicePrimaryCtxReset`, every object of the context is gone, although the context is
//! still retained. Until it is retained again, the driver reports `CUDA_ERROR_CONTEXT_IS_DESTROYED`
//! to each call; after that, a call on an old stream crashes the process (docs/safety.md). So once
//! a reset was seen, no call is made with any handle of the old context.

use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{CUcontext, CUctx_st, CUdevice, CUresult, DriverTable};
use once_cell::sync::OnceCell;

use super::{Driver, fork};
use crate::deferred::Jobs;
use crate::types::SendPtr;

/// The state that all handles of one context share.
#[derive(Default)]
pub(super) struct ContextState {
    pub(super) jobs: Jobs,
    /// The primary context that owns the objects of this context, if one does.
    primary: OnceCell<Primary>,
    /// Whether that context was reset. Never unset.
    is_reset: AtomicBool,
}

struct Primary {
    device: CUdevice,
    context: SendPtr<CUctx_st>,
    /// The number that the driver gives to each context. A context that is retained after a reset
    /// has the same handle, but another number (measured on an H200, driver 580).
    id: Option<u64>,
}

impl ContextState {
    pub(super) fn is_reset(&self) -> bool {
        self.is_reset.load(Ordering::Acquire)
    }

    fn note_reset(&self) {
        if !self.is_reset.swap(true, Ordering::AcqRel) {
            fork::note_change();
        }
    }
}

impl Driver {
    /// Sets the primary context that owns the objects of the context of this handle.
    pub(crate) fn set_primary(&self, device: CUdevice, context: CUcontext) {
        let Some(state) = &self.context else { return };
        let id = id_of(self.inner.library.table(), context);
        let context = SendPtr(context);
        // It is set once, by the creator of the context.
        let _ = state.primary.set(Primary {
            device,
            context,
            id,
        });
    }

    /// Whether the context of this handle was found to be reset.
    pub(crate) fn is_reset(&self) -> bool {
        self.inner.changes != fork::changes()
            && self.context.as_ref().is_some_and(|it| it.is_reset())
    }

    /// Records that the program has reset the primary context of this handle.
    pub(crate) fn note_reset(&self) {
        if let Some(state) = &self.context
            && state.primary.get().is_some()
        {
            state.note_reset();
        }
    }

    /// Asks the driver whether the primary context of this handle was reset: two calls. Returns
    /// false if the driver does not say.
    pub(crate) fn look_for_reset(&self) -> bool {
        let Some(state) = &self.context else {
            return false;
        };
        let Some(primary) = state.primary.get() else {
            return false;
        };
        if state.is_reset() || self.is_forked() {
            return state.is_reset();
        }
        let table = self.inner.library.table();
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the pointers must be writable ← they are to locals.
        let asked = unsafe {
            table.cuDevicePrimaryCtxGetState(primary.device, &raw mut flags, &raw mut active)
        };
        // The context is retained, so only a reset makes it inactive.
        let is_other = || match (primary.id, id_of(table, primary.context.0)) {
            (Some(before), Some(now)) => before != now,
            _ => false,
        };
        if asked.is_success() && (active == 0 || is_other()) {
            state.note_reset();
        }
        state.is_reset()
    }

    /// Returns whether `CUDA_ERROR_CONTEXT_IS_DESTROYED`, which a call through this handle has
    /// returned, means that its context was reset. Otherwise a context of other code is current,
    /// and was destroyed.
    pub(super) fn is_reset_by(&self, status: CUresult) -> bool {
        status == CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            && self.life.is_none()
            && self.look_for_reset()
    }
}

/// `cuCtxGetId()`—Returns the number of a context, if the driver has one for it.
fn id_of(table: &DriverTable, context: CUcontext) -> Option<u64> {
    let mut id = 0;
    // SAFETY: the pointer must be writable, and the context must be retained or reset ← the pointer
    // is to a local; the caller retains the context. (A reset context returns
    // `CUDA_ERROR_CONTEXT_IS_DESTROYED`.)
    let asked = unsafe { table.cuCtxGetId(context, &raw mut id) };
    asked.is_success().then_some(id)
}
