//! Host memory of graphs while it is mapped by the host.

use super::{Access, Tracker};
use crate::error::{Error, Result};

impl Tracker {
    /// Maps the memory for the host until [`take_back`](Self::take_back): blocks new conflicting
    /// launches, then waits for those in progress.
    ///
    /// # Errors
    ///
    /// [`Error::Borrowed`] if the host already has a conflicting mapping, or an error of the wait.
    /// The memory is not mapped then.
    pub(crate) fn lend(&self, access: Access) -> Result<()> {
        let entered = self.home().context().replay_lock().lock();
        let mut uses = self.lock();
        let estate = uses.estate.get_or_insert_default();
        if estate.lent_against(access) > 0 {
            return Err(Error::Borrowed {
                what: "a host buffer of a graph",
            });
        }
        *estate.guards(access) += 1;
        for user in estate.users_against(access) {
            user.record.lend(1);
        }
        drop(uses);
        drop(entered);
        // No new conflicting launch can start, so all of them are known here.
        self.synchronize(access).map_err(|error| {
            self.take_back(access);
            error.into()
        })
    }

    /// Ends a mapping by the host.
    pub(crate) fn take_back(&self, access: Access) {
        let _entered = self.home().context().replay_lock().lock();
        let mut uses = self.lock();
        if let Some(estate) = &mut uses.estate {
            *estate.guards(access) -= 1;
            for user in estate.users_against(access) {
                user.record.unlend(1);
            }
        }
    }
}
