//! The end of memory and code: waits for the uses that must be complete before a resource is
//! released.

use std::mem;
use std::sync::Arc;

use super::{Access, Tracker};
use crate::context::KeptContext;
use crate::error::DriverError;

impl Tracker {
    /// Waits for every use that a wait for the home context would not cover, such as a copy that a
    /// stream of another context makes.
    ///
    /// The caller has waited for the [unsettled contexts](Self::unsettled), and holds no lock.
    pub(crate) fn wait_for_uses_elsewhere(&self) -> Result<(), DriverError> {
        if self.crossed.get() {
            self.synchronize(Access::WRITE)
        } else {
            // All uses are on the home stream.
            Ok(())
        }
    }

    /// Returns a context with an incomplete use of this memory that has no event, if there is one.
    /// Only a wait for the whole context shows when such a use is complete.
    pub(crate) fn unsettled(&self) -> Option<KeptContext> {
        if self.home.driver().has_unfenced_uses() {
            self.strays(Access::WRITE, None).into_iter().next()
        } else {
            None
        }
    }

    /// Keeps the home context alive as long as a stream of another context may use this memory: for
    /// memory that is never freed because its uses could not be waited for, and that ends with its
    /// context.
    ///
    /// A worker thread waits for the uses. If that fails, the context is leaked.
    pub(crate) fn keep_context_while_used_elsewhere(this: &Arc<Self>) {
        if !this.is_used_elsewhere() {
            return;
        }
        let this = Arc::clone(this);
        let driver = this.home.driver().clone();
        driver.defer_wait(move || {
            if this.synchronize(Access::WRITE).is_err() {
                mem::forget(this);
            }
        });
    }

    /// Returns whether a stream of another context may use this memory.
    fn is_used_elsewhere(&self) -> bool {
        let home = self.home.context();
        let uses = self.lock();
        let mut uses = uses.list.iter();
        uses.any(|it| it.elsewhere.is_some() && !it.is_done_on(home))
    }
}
