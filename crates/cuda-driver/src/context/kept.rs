//! Context handles that the crate keeps on behalf of pending work.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use super::Context;
use crate::pending;

/// A context handle that a use of memory keeps, so that the context outlives the work of that use.
///
/// Dropping it never waits and makes no driver call, so it may be dropped at any place. If it is
/// the last handle, the worker thread of the context waits for the work in it and ends it.
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
        // SAFETY: the context must not be used or dropped again ← this is the end of `self`, and a
        // `ManuallyDrop` drops nothing.
        let Context(inner, check) = unsafe { ManuallyDrop::take(&mut self.0) };
        // The check that a context handle is not dropped under a lock is for drops that may wait.
        let _check = ManuallyDrop::new(check);
        let driver = inner.driver.clone();
        // Of two threads that drop the last two handles, exactly one gets the context.
        if let Some(inner) = Arc::into_inner(inner) {
            pending::defer(&driver, move || drop(inner));
        }
    }
}
