//! Captured calls that may add any number of nodes.

use std::sync::Arc;

use cuda_sys::CUstream;

use super::{CaptureScope, seen};
use crate::error::{DriverError, Result};
use crate::graph::Owners;
use crate::graph::parts::Parts;
use crate::stream::Stream;

impl CaptureScope<'_> {
    /// Captures the nodes that `call` makes. They use what `owners` lists.
    pub(super) fn capture_nodes(
        &self,
        owners: Owners,
        call: impl FnOnce(&Stream) -> Result<(), DriverError>,
    ) -> Result<()> {
        let accesses = owners.accesses();
        // Declared before the lock, so that unused owners are dropped after the unlock.
        let mut owners = Some(owners);
        let _current = self.context().enter()?;
        let mut all = self.session.root.lock();
        self.order(&mut all, &accesses)?;
        let called = call(&self.stream);
        // A call that failed may still have captured nodes.
        let noted = self.note(&mut all[self.session.at], &mut owners);
        called?;
        noted
    }

    /// Captures the nodes that other code makes in `queue`, which is called without a lock. They
    /// use what `owners` lists. If `queue` panics, its nodes are noted as well.
    pub(super) fn capture_foreign(
        &self,
        owners: Owners,
        queue: impl FnOnce(CUstream),
    ) -> Result<()> {
        let accesses = owners.accesses();
        let current = self.context().enter()?;
        let mut all = self.session.root.lock();
        self.order(&mut all, &accesses)?;
        drop(all);
        drop(current);
        let mut noting = NoteOnDrop {
            scope: self,
            owners: Some(owners),
        };
        queue(self.stream.as_raw());
        noting.note()
    }

    /// Adds the nodes that a call has just added to the tracked state of the graph, and gives all
    /// of them `owners`. Takes `owners` if there are any nodes.
    fn note(&self, parts: &mut Parts, owners: &mut Option<Owners>) -> Result<()> {
        let first = parts.nodes.len();
        let seen = seen::look(&self.stream);
        let last = seen
            .map_err(Into::into)
            .and_then(|seen| seen.learn(parts, self.stream.driver(), owners));
        if let Ok(last) = &last
            && last.is_empty()
        {
            return Ok(());
        }
        // There are several nodes, or learning failed.
        if let Some(owners) = owners.take() {
            let owners = Arc::new(owners);
            let accesses = owners.accesses();
            // Later nodes depend on the last ones, which depend on the others.
            for node in last.iter().flatten() {
                parts.conflicts.note(*node, &accesses, |_| true);
            }
            for info in parts.nodes.iter_mut().skip(first) {
                info.owners = Arc::clone(&owners);
            }
            if last.is_err() {
                // The graph may have nodes that are not tracked.
                parts.others.push(owners);
            }
        }
        last.map(drop)
    }
}

/// Notes the nodes of other code when it is dropped, if that was not done before.
struct NoteOnDrop<'a, 'c> {
    scope: &'a CaptureScope<'c>,
    /// `None` once the nodes were noted.
    owners: Option<Owners>,
}

impl NoteOnDrop<'_, '_> {
    fn note(&mut self) -> Result<()> {
        // Declared before the lock, so that unused owners are dropped after the unlock.
        let mut owners = self.owners.take();
        if owners.is_none() {
            return Ok(());
        }
        let session = self.scope.session;
        // The context need not be current to keep the owners.
        let _current = self.scope.context().enter();
        let mut all = session.root.lock();
        self.scope.note(&mut all[session.at], &mut owners)
    }
}

impl Drop for NoteOnDrop<'_, '_> {
    fn drop(&mut self) {
        // An error means that the capture is invalid, which its end reports.
        let _ = self.note();
    }
}
