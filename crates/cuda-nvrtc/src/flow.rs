//! Cancelling a compilation, and giving it a time.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, Options};

/// Cancels compilations from another thread. Clones are the same token.
///
/// A cancelled token stays so: compilations that begin with it end at once.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels every compilation that has the token in its options.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What NVRTC's flow callback looks at. NVRTC may call it from several threads, and wants it to
/// stay with a yes.
#[derive(Debug)]
pub(crate) struct Flow {
    token: Option<CancelToken>,
    limit: Option<Duration>,
    deadline: Option<Instant>,
    verdict: AtomicU8,
}

const GO_ON: u8 = 0;
const CANCELLED: u8 = 1;
const TIMED_OUT: u8 = 2;

impl Flow {
    /// The clock starts here.
    pub(crate) fn start(options: &Options) -> Self {
        Self {
            token: options.cancel.clone(),
            limit: options.timeout,
            deadline: options
                .timeout
                .and_then(|limit| Instant::now().checked_add(limit)),
            verdict: AtomicU8::new(GO_ON),
        }
    }

    /// Whether NVRTC has to ask at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.token.is_some() || self.limit.is_some()
    }

    /// Why the compilation has to end, if it has to.
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
        let verdict = self.verdict.load(Ordering::Relaxed);
        if verdict != GO_ON {
            return verdict;
        }
        let verdict = if self.token.as_ref().is_some_and(CancelToken::is_cancelled) {
            CANCELLED
        } else if self.deadline.is_some_and(|end| Instant::now() >= end) {
            TIMED_OUT
        } else {
            return GO_ON;
        };
        // The first verdict stands, so that all threads give the same reason.
        match self
            .verdict
            .compare_exchange(GO_ON, verdict, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => verdict,
            Err(earlier) => earlier,
        }
    }
}

/// `nvrtcSetFlowCallback`'s callback: 1 cancels.
///
/// # Safety
///
/// `payload` is a [`Flow`] that lives as long as the compilation.
pub(crate) unsafe extern "C" fn ask(payload: *mut c_void, _reserved: *mut c_void) -> c_int {
    // SAFETY: it must be a live Flow, shared only ← the caller says so, and nothing here takes it
    // mutably.
    let flow = unsafe { &*payload.cast::<Flow>().cast_const() };
    c_int::from(flow.decide() != GO_ON)
}
