//! Unfenced uses, called strays: uses whose completion event could not be recorded.
//!
//! A use on the per-thread stream records its event at once, because no other thread can do that
//! later. If the record fails, only a wait for the whole context shows that the use is complete.
//! Such a wait can last as long as the program likes, so it is made without holding a lock: before
//! the gate is entered, and before a tracker is inspected.

use cuda_sys::{CUresult, calls};
use smallvec::SmallVec;

use super::uses::Use;
use super::{Access, Record, Scope, Tracker};
use crate::context::{Context, KeptContext};
use crate::error::DriverError;

/// An internal signal for a stray at a point where the thread must not wait. The driver itself
/// never returns this combination of status and call.
pub(super) fn error(context: &Context) -> DriverError {
    let version = context.driver().version();
    DriverError::new(
        CUresult::CUDA_ERROR_NOT_READY,
        calls::cuEventRecord,
        version,
    )
}

/// Returns whether `error` comes from [`error`].
pub(super) fn is_told_by(error: &DriverError) -> bool {
    error.status() == CUresult::CUDA_ERROR_NOT_READY && error.call() == calls::cuEventRecord
}

impl Use {
    /// Returns the context to wait for if this is an incomplete stray: its own context, or `home`.
    fn stray_in(&self, home: &Context) -> Option<KeptContext> {
        let context = self.elsewhere.as_deref().unwrap_or(home);
        let is_open = self.is_stray() && !self.is_done_on(home);
        is_open.then(|| KeptContext::new(context))
    }
}

impl Record {
    /// Waits for the last replay if it is a stray. The caller must not hold a lock. `context` is
    /// the context of the executable.
    pub(crate) fn settle(&self, context: &Context) -> Result<(), DriverError> {
        if !context.driver().has_unfenced_uses() {
            return Ok(());
        }
        self.stray_in(context)
            .map_or(Ok(()), |it| it.wait_for_unfenced())
    }

    fn stray_in(&self, context: &Context) -> Option<KeptContext> {
        self.with_last(|last| last.stray_in(context)).flatten()
    }

    /// Prepares a replay on a stream of `context`: waits for the strays among its dependencies.
    #[cold]
    pub(super) fn settle_before(&self, context: &Context) -> Result<(), DriverError> {
        let (dirty, peers) = self.to_wait_for();
        for tracker in dirty {
            tracker.settle_strays(Access::WRITE, None)?;
        }
        peers.iter().try_for_each(|peer| peer.settle(context))
    }
}

impl Tracker {
    /// Waits for the strays among the uses that conflict with `access`. The caller must neither
    /// hold a lock nor have entered the gate.
    #[inline]
    pub(super) fn settle(&self, access: Access) -> Result<(), DriverError> {
        if self.home.driver().has_unfenced_uses() {
            self.settle_strays(access, None)
        } else {
            Ok(())
        }
    }

    /// Waits for strays before a use in `scope`. Does nothing if the thread is inside the gate.
    #[inline]
    pub(crate) fn settle_before(
        &self,
        scope: &Scope<'_>,
        access: Access,
    ) -> Result<(), DriverError> {
        if !self.home.driver().has_unfenced_uses() || scope.is_inside() {
            return Ok(());
        }
        if self.is_held() {
            // Inside the gate the scope can no longer wait, and the other memory that it will use
            // is not known yet. So this waits for all strays of the context.
            scope.stream.context().wait_for_unfenced()?;
        }
        self.settle_strays(access, Some(scope.id))
    }

    #[cold]
    fn settle_strays(&self, access: Access, own: Option<u64>) -> Result<(), DriverError> {
        let strays = self.strays(access, own);
        strays
            .iter()
            .try_for_each(|context| context.wait_for_unfenced())
    }

    /// Returns the contexts of the strays among the uses that conflict with `access`, except those
    /// of the stream `own`.
    pub(super) fn strays(&self, access: Access, own: Option<u64>) -> SmallVec<[KeptContext; 2]> {
        let home = self.home.context();
        let uses = self.lock();
        let matter = uses.list.iter().filter(|it| it.matters_to(access));
        let others = matter.filter(|it| Some(it.id) != own);
        let users = uses
            .estate
            .iter()
            .flat_map(|estate| estate.users_against(access));
        let replays = users.filter_map(|user| user.record.stray_in(home));
        others
            .filter_map(|it| it.stray_in(home))
            .chain(replays)
            .collect()
    }
}
