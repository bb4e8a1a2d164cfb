//! Cancellation of compilations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A token that cancels compilations from another thread. Clones share one state.
///
/// A token cannot be reset: a compilation that starts with a cancelled token ends at once.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels every compilation that has this token in its options.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the token is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
