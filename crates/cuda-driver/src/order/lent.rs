//! Host memory of graphs in the hands of the host.

use super::{Access, Tracker};
use crate::error::{Error, Result};

impl Tracker {
    /// Gives the memory to the host until it is [taken back](Self::take_back): no launch that is in
    /// the way begins any more, and those under way are waited for.
    ///
    /// # Errors
    ///
    /// [`Error::Borrowed`] if the host has it in a way that matters, or what waiting answers. Then
    /// it is not given.
    pub(crate) fn lend(&self, access: Access) -> Result<()> {
        let entered = self.home().context().gate().enter();
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
        // No launch that matters comes any more, so that all are known.
        self.synchronize(access).map_err(|error| {
            self.take_back(access);
            error.into()
        })
    }

    /// The host has it no more.
    pub(crate) fn take_back(&self, access: Access) {
        let _entered = self.home().context().gate().enter();
        let mut uses = self.lock();
        if let Some(estate) = &mut uses.estate {
            *estate.guards(access) -= 1;
            for user in estate.users_against(access) {
                user.record.unlend(1);
            }
        }
    }
}
