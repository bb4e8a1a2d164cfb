//! Cancellation and time limits of compilations.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::cancel::CancelToken;
use crate::{Error, Options};

/// The cancellation token and the deadline of a compilation, which NVRTC's flow callback reads. The
/// name is that of `nvrtcSetFlowCallback`. NVRTC may call the callback from several threads. Once
/// the callback has returned 1 (cancel), NVRTC requires that it always returns 1.
#[derive(Debug)]
pub(crate) struct Flow {
    token: Option<CancelToken>,
    limit: Option<Duration>,
    deadline: Option<Instant>,
    decision: AtomicU8,
}

const GO_ON: u8 = 0;
const CANCELLED: u8 = 1;
const TIMED_OUT: u8 = 2;

impl Flow {
    /// Creates the state and starts the time limit.
    pub(crate) fn start(options: &Options) -> Self {
        Self {
            token: options.cancel.clone(),
            limit: options.timeout,
            deadline: options
                .timeout
                .and_then(|limit| Instant::now().checked_add(limit)),
            decision: AtomicU8::new(GO_ON),
        }
    }

    /// Returns whether there is a token or a time limit, so that NVRTC needs the callback.
    pub(crate) fn is_limited(&self) -> bool {
        self.token.is_some() || self.limit.is_some()
    }

    /// Returns the reason to end the compilation, if there is one.
    pub(crate) fn stopped(&self) -> Option<Error> {
        match self.decide() {
            CANCELLED => Some(Error::Cancelled),
            TIMED_OUT => Some(Error::TimedOut {
                limit: self.limit.unwrap_or_default(),
            }),
            _ => None,
        }
    }

    fn decide(&self) -> u8 {
        let decision = self.decision.load(Ordering::Relaxed);
        if decision != GO_ON {
            return decision;
        }
        let decision = if self.token.as_ref().is_some_and(CancelToken::is_cancelled) {
            CANCELLED
        } else if self.deadline.is_some_and(|end| Instant::now() >= end) {
            TIMED_OUT
        } else {
            return GO_ON;
        };
        // The first decision is kept, so that all threads report the same reason.
        match self
            .decision
            .compare_exchange(GO_ON, decision, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => decision,
            Err(earlier) => earlier,
        }
    }
}

/// The callback for `nvrtcSetFlowCallback`. Returns 1 to cancel the compilation, else 0.
///
/// # Safety
///
/// `payload` must point to a [`Flow`] that lives as long as the compilation.
pub(crate) unsafe extern "C" fn ask(payload: *mut c_void, _reserved: *mut c_void) -> c_int {
    // SAFETY: `payload` must point to a live `Flow` that is only shared ← the caller guarantees
    // that it lives, and no code takes a mutable reference to it.
    let flow = unsafe { &*payload.cast::<Flow>().cast_const() };
    c_int::from(flow.decide() != GO_ON)
}
