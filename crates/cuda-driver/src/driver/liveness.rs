//! The liveness of a context that other code owns.

use std::mem;
use std::process;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::{Mutex, rank};

/// Reports whether a context that other code owns is still alive: see
/// [`Context::borrow_raw`](crate::Context::borrow_raw).
///
/// The token is queried before each call that concerns the context, and is dropped with the last
/// object of the context. If the token owns the resource that keeps the context alive, the default
/// method is sufficient. Before the owner ends the context, it must wait for the work queued in the
/// context; work in other contexts does not use the memory of this one. The method must neither
/// block nor use this crate. A panic in it aborts the process.
pub trait LivenessToken: Send + Sync + 'static {
    /// Whether the context is alive. After it has returned `false`, it must always return `false`.
    fn is_alive(&self) -> bool {
        true
    }
}

/// A flag that the owner sets to `false` before it destroys the context.
impl LivenessToken for AtomicBool {
    fn is_alive(&self) -> bool {
        self.load(Ordering::Acquire)
    }
}

/// The liveness of a borrowed context, as its tokens report it.
pub(crate) struct LivenessState {
    tokens: Mutex<Vec<Arc<dyn LivenessToken>>, { rank::TOKENS }>,
    /// Set once a token has reported that the context is dead. Never reset.
    is_dead: AtomicBool,
}

impl LivenessState {
    pub(crate) fn new(token: Arc<dyn LivenessToken>) -> Arc<Self> {
        Arc::new(Self {
            tokens: Mutex::new(vec![token]),
            is_dead: AtomicBool::new(false),
        })
    }

    /// Adds the token of another borrow of the same context.
    pub(crate) fn add(&self, token: Arc<dyn LivenessToken>) {
        let mut tokens = self.tokens.lock();
        let same = |known: &Arc<_>| ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&token));
        if !tokens.iter().any(same) {
            tokens.push(token);
        }
    }

    /// Whether all tokens report that the context is alive.
    pub(crate) fn is_alive(&self) -> bool {
        if self.is_dead.load(Ordering::Acquire) {
            return false;
        }
        let tokens = self.tokens.lock();
        // The caller may have queued a copy of memory that it only borrows. It must not unwind
        // before it has waited for that copy.
        let ends = AbortOnUnwind;
        let is_alive = tokens.iter().all(|token| token.is_alive());
        mem::forget(ends);
        if !is_alive {
            self.is_dead.store(true, Ordering::Release);
        }
        is_alive
    }
}

/// Aborts the process when a panic drops it.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        process::abort();
    }
}
