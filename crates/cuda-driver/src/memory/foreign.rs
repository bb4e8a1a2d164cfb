//! Memory of other code, and when its owner is dropped.

use std::any::Any;
use std::mem;
use std::sync::Arc;

use super::allocation::{Block, Memory, Reclaim, Source};
use crate::error::DriverError;
use crate::tracking::{Access, Tracker};

impl Source {
    /// Returns the source of memory of other code, which dropping `owner` releases.
    pub(crate) fn foreign(owner: impl Any + Send + Sync) -> Self {
        Self::Other(Arc::new(Foreign(owner)))
    }

    /// Returns the source of memory of other code, which a worker thread releases after all uses,
    /// by dropping `owner`.
    #[cfg(feature = "dlpack")]
    pub(crate) fn foreign_deferred(owner: impl Any + Send + Sync) -> Self {
        Self::Other(Arc::new(Deferred(owner)))
    }
}

impl Memory {
    /// Returns `true` if the memory consists of mappings, or other code owns it and may have mapped
    /// it. A call that copies this memory needs a current context: docs/safety.md, Current contexts
    /// of other devices.
    pub(crate) fn may_be_mapped(&self) -> bool {
        match &self.source {
            Source::Mapped(_) => true,
            Source::Other(owner) => owner.may_be_mapped(),
            Source::Nothing | Source::Ordered | Source::Plain | Source::Managed(_) => false,
        }
    }
}

/// Memory of other code, which is released when the value is dropped.
struct Foreign<T>(#[allow(dead_code, reason = "only dropped")] T);

/// Memory of other code, which a worker thread releases by dropping the value.
#[cfg(feature = "dlpack")]
struct Deferred<T>(#[allow(dead_code, reason = "only dropped")] T);

/// The host waits for all uses and then drops the owner, which releases the memory.
impl<T: Any + Send + Sync> Reclaim for Foreign<T> {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        let waited = block.tracker.synchronize(Access::WRITE);
        if waited.is_err() {
            // The memory may also end with its context.
            Tracker::keep_context_while_used_elsewhere(&block.tracker);
            mem::forget(self);
        }
        waited
    }

    fn disown(self: Arc<Self>, _: &Block) {
        mem::forget(self);
    }

    fn may_be_mapped(&self) -> bool {
        true
    }
}

/// A worker thread waits for all uses and then drops the owner, which releases the memory.
#[cfg(feature = "dlpack")]
impl<T: Any + Send + Sync> Reclaim for Deferred<T> {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        let driver = block.tracker.owning_stream().driver().clone();
        driver.defer_wait(move || {
            if block.tracker.synchronize(Access::WRITE).is_err() {
                Tracker::keep_context_while_used_elsewhere(&block.tracker);
                mem::forget(self);
            }
        });
        Ok(())
    }

    fn disown(self: Arc<Self>, _: &Block) {
        mem::forget(self);
    }

    fn may_be_mapped(&self) -> bool {
        true
    }
}
