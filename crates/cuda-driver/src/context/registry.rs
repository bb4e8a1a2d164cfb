//! The live contexts of the process, so that all handles of a context share its streams and its
//! dependency tracking.

use std::sync::{Arc, Weak};

use super::inner::ContextInner;
use super::owner::Identity;
use crate::driver::Driver;
use crate::error::Result;
use crate::lock::{Mutex, MutexGuard, rank};

/// A context that was alive when it was added.
struct Known {
    /// The address of its driver, which the context keeps alive.
    driver: usize,
    identity: Identity,
    context: Weak<ContextInner>,
}

static CONTEXTS: Mutex<Vec<Known>, { rank::CONTEXTS }> = Mutex::new(Vec::new());

fn contexts() -> MutexGuard<'static, Vec<Known>> {
    CONTEXTS.lock()
}

/// Returns the live context of `driver` for which `is_it` holds, or else adds the one that `make`
/// creates.
pub(super) fn find_or_add(
    driver: &Driver,
    is_it: impl Fn(&Identity) -> bool,
    make: impl FnOnce() -> Result<(Identity, Arc<ContextInner>)>,
) -> Result<Arc<ContextInner>> {
    // Declared before the lock, so that these handles are dropped after it is released: one of them
    // may be the last handle of its context by then. It allocates only if a context is gone.
    let mut gone: Vec<Arc<ContextInner>> = Vec::new();
    let mut contexts = contexts();
    for context in live(&contexts, driver, is_it) {
        if !context.is_found_gone() {
            return Ok(context);
        }
        gone.push(context);
    }
    contexts.retain(|known| known.context.strong_count() > 0);
    let (identity, made) = make()?;
    contexts.push(Known {
        driver: driver.address(),
        identity,
        context: Arc::downgrade(&made),
    });
    Ok(made)
}

/// Returns the live context of `driver` for which `is_it` holds.
pub(super) fn find(
    driver: &Driver,
    is_it: impl Fn(&Identity) -> bool,
) -> Option<Arc<ContextInner>> {
    let found: Vec<_> = live(&contexts(), driver, is_it).collect();
    found.into_iter().find(|context| !context.is_gone())
}

/// Returns all live contexts of `driver` for which `is_it` holds.
pub(super) fn find_all(
    driver: &Driver,
    is_it: impl Fn(&Identity) -> bool,
) -> Vec<Arc<ContextInner>> {
    let mut found: Vec<_> = live(&contexts(), driver, is_it).collect();
    found.retain(|context| !context.is_gone());
    found
}

/// Returns whether `driver` has a live context for which `is_it` holds.
pub(super) fn has(driver: &Driver, is_it: impl Fn(&Identity) -> bool) -> bool {
    let driver = driver.address();
    contexts().iter().any(|known| {
        known.driver == driver && known.context.strong_count() > 0 && is_it(&known.identity)
    })
}

/// Returns the live contexts of `driver` for which `is_it` holds. The others are not upgraded,
/// because a temporary handle may turn out to be the last one when it is dropped.
fn live(
    contexts: &[Known],
    driver: &Driver,
    is_it: impl Fn(&Identity) -> bool,
) -> impl Iterator<Item = Arc<ContextInner>> {
    let driver = driver.address();
    let matching = contexts
        .iter()
        .filter(move |known| known.driver == driver && is_it(&known.identity));
    matching.filter_map(|known| known.context.upgrade())
}
