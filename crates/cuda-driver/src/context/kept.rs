//! Context handles that the crate keeps on behalf of pending work.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use super::Context;

/// A context handle that a tracked use of memory holds, so that the context outlives the work of
/// that use.
///
/// Dropping it never waits and makes no driver call, so it may be dropped anywhere. If it is the
/// last handle, the worker thread of the context waits for the work in the context and ends it.
#[derive(Clone)]
pub(crate) struct KeptContext(ManuallyDrop<Context>);

impl KeptContext {
    pub(crate) fn new(context: &Context) -> Self {
        Self(ManuallyDrop::new(context.clone()))
    }
}

impl Deref for KeptContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0
    }
}

impl Drop for KeptContext {
    fn drop(&mut self) {
        // SAFETY: the context must not be used or dropped again ← `self` is being dropped, and
        // dropping a `ManuallyDrop` has no effect.
        let Context(inner, check) = unsafe { ManuallyDrop::take(&mut self.0) };
        // The check that no context handle is dropped under a lock concerns drops that may wait.
        // This one does not wait.
        let _check = ManuallyDrop::new(check);
        let driver = inner.driver.clone();
        // Of two threads that drop the last two handles, exactly one gets the context.
        if let Some(inner) = Arc::into_inner(inner) {
            driver.defer(move || drop(inner));
        }
    }
}
