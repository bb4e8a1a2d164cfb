//! Uses by other code that are in progress, as seen by other uses of the same memory.

use std::ptr;
use std::sync::Arc;

use super::{Access, Blocked, ReplayRecord, Scope, Tracker};
use crate::context::{Conflict, Context, ForeignUse, KeptContext};
use crate::error::Error;

/// The uses of memory by a closure of other code. They end when this is dropped.
pub(crate) struct ForeignScope<'a> {
    context: &'a Context,
    uses: Vec<ForeignUse>,
}

impl<'a> ForeignScope<'a> {
    pub(crate) fn new(context: &'a Context) -> Self {
        Self {
            context,
            uses: Vec::new(),
        }
    }

    /// Begins a use of the memory, if uses of this memory take the replay lock. The caller has
    /// acquired the memory in a scope that still holds that lock.
    pub(crate) fn begin(&mut self, tracker: &Tracker, access: Access) {
        if tracker.needs_replay_lock() {
            let lock = self.context.replay_lock();
            let begun = lock.begin_foreign(tracker.identity(), access.is_write());
            self.uses.push(begun);
        }
    }
}

impl Drop for ForeignScope<'_> {
    fn drop(&mut self) {
        for ended in &self.uses {
            self.context.replay_lock().end_foreign(*ended);
        }
    }
}

impl Tracker {
    /// A number that identifies the tracker while it lives.
    fn identity(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Takes the replay lock if the memory is in the locked state. Fails
    ///
    /// - if a use by other code is in progress and conflicts,
    /// - if a graph allocates the memory,
    /// - if the first launch of a graph, which is still to come, writes it.
    pub(super) fn expect_no_foreign_use(
        &self,
        scope: &Scope<'_>,
        access: Access,
    ) -> Result<(), Blocked<Error>> {
        if !self.needs_replay_lock() {
            return Ok(());
        }
        if self.graph() != 0 {
            return Err(Blocked::Failed(Error::MemoryOfCapture));
        }
        if self.unwritten_by() != 0 {
            return Err(Blocked::Failed(Error::NotYetWritten));
        }
        scope.lock_replays();
        expect_none(
            self.owning_stream().context(),
            self.identity(),
            access.is_write(),
        )
    }
}

impl ReplayRecord {
    /// Fails if a use by other code that is in progress conflicts with a replay. The caller holds
    /// the replay lock of `context`.
    #[cold]
    pub(crate) fn expect_no_foreign_use(&self, context: &Context) -> Result<(), Blocked<Error>> {
        for begun in context.replay_lock().foreign().all() {
            // The guard of the record is dropped before the tracker is locked.
            let tracker = self.lock().find(begun.memory);
            let Some(tracker) = tracker else { continue };
            let access = tracker.access_of(self);
            if let Some(access) = access {
                expect_none(context, begun.memory, access.is_write())?;
            }
        }
        Ok(())
    }
}

impl Tracker {
    /// Returns the combined access of the nodes of an executable to this memory.
    fn access_of(self: &Arc<Self>, record: &ReplayRecord) -> Option<Access> {
        let uses = self.lock();
        let mut users = uses.graphs.iter().flat_map(|graphs| &graphs.users);
        let user = users.find(|user| ptr::eq(&raw const *user.record, record))?;
        Some(user.access)
    }
}

fn expect_none(context: &Context, memory: usize, is_write: bool) -> Result<(), Blocked<Error>> {
    match context.replay_lock().foreign_conflict(memory, is_write) {
        None => Ok(()),
        Some(Conflict::Inside) => Err(Blocked::Failed(Error::UsedByOtherCode)),
        Some(Conflict::Elsewhere) => Err(Blocked::ForeignUse {
            context: KeptContext::new(context),
            memory,
            is_write,
        }),
    }
}
