//! A use of a buffer, and how a stream is made to wait for it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Access, Blocked, Scope, conflict};
use crate::context::{Context, KeptContext};
use crate::fence::Fence;
use crate::stream::Stream;
use crate::stream_state::{Kind, StreamState};

/// Uses that were removed from the list of a tracker or record. Dropping a use can call the driver,
/// so they have to be dropped after the lock is released.
pub(super) type Removed = SmallVec<[Use; 1]>;

/// A use of a buffer on a stream.
pub(crate) struct Use {
    pub(super) stream: Arc<StreamState>,
    /// The id of the queue.
    pub(crate) id: u64,
    pub(super) access: Access,
    /// Whether this is a placeholder for all unrecorded uses on the owning stream. The tracker
    /// knows the epoch of the last one.
    pub(super) is_placeholder: bool,
    /// The epoch of the stream, read after the use was queued. For a placeholder, a lower bound,
    /// which [`drop_stale_fence`](Self::drop_stale_fence) raises.
    pub(super) epoch: u64,
    /// The fence after the use. `None` if it is not recorded yet.
    pub(crate) fence: Option<Fence>,
    /// The number of this use among the unfenced uses of its context, or 0 if it is none of them.
    unfenced: u64,
    /// The last epoch that `fence` covers. It is `u64::MAX` if the fence was recorded at the tail
    /// of the stream: then it covers everything that was queued before. Otherwise the fence is an
    /// earlier checkpoint.
    covers: u64,
    /// The ids of the streams that have waited for `fence`.
    pub(super) waited: Vec<u64>,
    /// The context of `stream`, if it is not the context of the buffer. Declared after `stream` and
    /// `fence`, so that it is dropped after them.
    pub(super) elsewhere: Option<KeptContext>,
}

impl Use {
    /// Creates a use that was just queued in `scope`, without a fence.
    pub(crate) fn queued(scope: &Scope<'_>, access: Access) -> Self {
        let stream = Arc::clone(scope.stream.state());
        Self {
            id: scope.id,
            access,
            is_placeholder: false,
            epoch: stream.epoch(),
            fence: None,
            unfenced: 0,
            covers: u64::MAX,
            waited: Vec::new(),
            elsewhere: None,
            stream,
        }
    }

    /// Creates a placeholder for all unrecorded uses on the owning stream.
    pub(super) fn placeholder(owner: &Stream, access: Access) -> Self {
        let stream = Arc::clone(owner.state());
        Self {
            id: stream.id(),
            access,
            is_placeholder: true,
            epoch: 0,
            fence: None,
            unfenced: 0,
            covers: u64::MAX,
            waited: Vec::new(),
            elsewhere: None,
            stream,
        }
    }

    /// Returns a use of one buffer by this replay: `self` is the last replay in the record of an
    /// executable.
    pub(crate) fn for_buffer(&self, access: Access) -> Self {
        Self {
            stream: Arc::clone(&self.stream),
            id: self.id,
            access,
            is_placeholder: false,
            epoch: self.epoch,
            fence: self.fence.clone(),
            unfenced: self.unfenced,
            covers: self.covers,
            waited: self.waited.clone(),
            elsewhere: self.elsewhere.clone(),
        }
    }

    /// Replaces this by a later use on the same stream that was just queued and has no fence yet.
    /// Returns the former fence, which has to be dropped without a lock.
    pub(crate) fn renew(&mut self) -> Option<Fence> {
        self.epoch = self.stream.epoch();
        self.unfenced = 0;
        self.covers = u64::MAX;
        self.waited.clear();
        self.fence.take()
    }

    /// If this use is unfenced, registers it with `context`, in which it was queued.
    pub(crate) fn register_if_unfenced(&mut self, context: &Context) {
        if self.is_unfenced() && self.unfenced == 0 {
            self.unfenced = context.register_unfenced_use();
        }
    }

    /// Returns whether this use is unfenced: only a wait for its whole context shows that it is
    /// complete, because no other thread can record an event on a per-thread stream later.
    fn is_unfenced(&self) -> bool {
        self.fence.is_none() && self.stream.kind() == Kind::PerThread
    }

    /// Returns the context to wait for if this is an incomplete unfenced use: its own context, or
    /// `owner`.
    pub(super) fn unfenced_in(&self, owner: &Context) -> Option<KeptContext> {
        let context = self.elsewhere.as_deref().unwrap_or(owner);
        // A dead context has no work to wait for.
        let is_pending =
            self.is_unfenced() && !context.driver().is_gone() && !self.is_complete(owner);
        is_pending.then(|| KeptContext::new(context))
    }

    /// Returns whether `access` conflicts with this use and has to wait for it.
    pub(super) fn conflicts_with(&self, access: Access) -> bool {
        conflict(self.access, access)
    }

    /// Returns whether the fence of this use has passed, so that nothing needs to wait for it.
    pub(super) fn has_passed(&self) -> bool {
        !self.may_have_later_uses() && self.fence.as_ref().is_some_and(Fence::is_done)
    }

    /// Returns whether this placeholder may also represent uses that were queued after its fence.
    /// That is so if the fence is a checkpoint in the past: a thread that has queued a use after
    /// that checkpoint may not have recorded it yet.
    pub(super) fn may_have_later_uses(&self) -> bool {
        self.is_placeholder && self.fence.is_some() && self.covers != u64::MAX
    }

    /// Makes the stream of `scope` wait for this use, unless the use is on that stream, or the
    /// stream has already waited for it. `owner` is the context of the buffer, and `owner_epoch`
    /// the epoch of the last unrecorded use on the owning stream.
    pub(crate) fn make_wait(
        &mut self,
        scope: &Scope<'_>,
        owner: &Context,
        owner_epoch: u64,
    ) -> Result<(), Blocked> {
        if self.id == scope.id {
            return Ok(());
        }
        self.drop_stale_fence(owner_epoch);
        if self.waited.contains(&scope.id) {
            return Ok(());
        }
        let Some(fence) = self.fence_after(owner)? else {
            return Ok(());
        };
        let stream = scope.stream;
        stream.state().wait(stream.context(), fence.raw())?;
        self.waited.push(scope.id);
        Ok(())
    }

    /// Drops a fence that does not cover all uses on the owning stream.
    pub(super) fn drop_stale_fence(&mut self, owner_epoch: u64) {
        if !self.is_placeholder {
            return;
        }
        self.epoch = self.epoch.max(owner_epoch);
        if self.covers < self.epoch {
            self.fence = None;
            self.waited.clear();
        }
    }

    /// Returns whether the use is known to be complete, without recording a fence.
    pub(crate) fn is_complete(&self, owner: &Context) -> bool {
        let context = self.elsewhere.as_deref().unwrap_or(owner);
        match &self.fence {
            Some(fence) => fence.is_done(),
            None if self.is_unfenced() => context.unfenced().is_complete(self.unfenced),
            None => self.stream.is_done(context),
        }
    }

    /// Returns the fence to wait for, or `None` if the use is complete.
    pub(super) fn fence_after(&mut self, owner: &Context) -> Result<Option<Fence>, Blocked> {
        let context = self.elsewhere.as_deref().unwrap_or(owner);
        if context.driver().is_gone() {
            // The owner destroyed the context, and with it all work in it.
            return Ok(None);
        }
        if let Some(fence) = &self.fence {
            return Ok(Some(fence.clone()));
        }
        if self.stream.kind() == Kind::PerThread {
            // Its fence could not be recorded when the use was queued. This may be another thread,
            // for which the handle names another queue.
            if context.unfenced().is_complete(self.unfenced) {
                return Ok(None);
            }
            if self.unfenced == 0 {
                self.unfenced = context.register_unfenced_use();
            }
            return Err(Blocked::UnfencedUse(KeptContext::new(context)));
        }
        let Some((fence, covers)) = self.stream.fence_after(context, self.epoch)? else {
            return Ok(None);
        };
        self.covers = covers;
        Ok(Some(self.fence.insert(fence).clone()))
    }
}
