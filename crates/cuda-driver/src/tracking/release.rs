//! The end of memory and code: waits for the uses that must be complete before a resource is
//! released.

use std::mem;
use std::sync::Arc;

use super::{Access, Tracker};
use crate::context::KeptContext;
use crate::error::DriverError;

impl Tracker {
    /// Waits for every use that a wait for the context of the owning stream would not cover, such
    /// as a copy that a stream of another context makes.
    ///
    /// The caller has waited for the [contexts of unfenced uses](Self::unfenced_context), and holds
    /// no lock.
    pub(crate) fn wait_for_uses_elsewhere(&self) -> Result<(), DriverError> {
        if self.shared.get() {
            self.synchronize(Access::WRITE)
        } else {
            // All uses are on the owning stream.
            Ok(())
        }
    }

    /// Returns whether other code now captures a stream that may have uses of this memory: no event
    /// can be recorded there before the capture ends.
    pub(crate) fn is_in_capture(&self) -> bool {
        if self.owner.state().is_captured() {
            return true;
        }
        if !self.shared.get() {
            return false;
        }
        let uses = self.lock();
        uses.list.iter().any(|it| it.stream.is_captured())
    }

    /// Returns the context of an incomplete unfenced use of this memory, if there is one.
    pub(crate) fn unfenced_context(&self) -> Option<KeptContext> {
        let owner = self.owner.context();
        let uses = self.lock();
        let own = uses.list.iter().find_map(|it| it.unfenced_in(owner));
        own.or_else(|| {
            uses.graph_users(Access::WRITE)
                .find_map(|user| user.record.unfenced_in(owner))
        })
    }

    /// Keeps the context of the owning stream alive as long as a stream of another context may use
    /// this memory. Used for memory that is never freed because waiting for its uses failed: it
    /// disappears with its context.
    ///
    /// A worker thread waits for the uses. If that fails, the context is leaked.
    pub(crate) fn keep_context_while_used_elsewhere(this: &Arc<Self>) {
        if !this.is_used_elsewhere() {
            return;
        }
        let this = Arc::clone(this);
        let driver = this.owner.driver().clone();
        driver.defer_wait(move || {
            if this.synchronize(Access::WRITE).is_err() {
                mem::forget(this);
            }
        });
    }

    /// Returns whether a stream of another context may use this memory.
    pub(crate) fn is_used_elsewhere(&self) -> bool {
        let owner = self.owner.context();
        let uses = self.lock();
        let mut uses = uses.list.iter();
        uses.any(|it| it.elsewhere.is_some() && !it.is_complete(owner))
    }
}
