//! Records the uses of shared buffers.

use std::sync::atomic::Ordering;

use super::uses::Removed;
use super::{Access, Scope, Tracker, Use, Uses};
use crate::context::KeptContext;
use crate::lock::MutexGuard;
use crate::stream_state::Kind;

/// Once a buffer has this many uses, complete ones are removed from the list.
const PRUNE_LEN: usize = 32;

impl Tracker {
    /// Commits a use that was queued on the stream of `scope`, so that later uses wait for it.
    ///
    /// Cannot fail: without a fence, later uses wait for the tail of the stream or, after a use on
    /// a per-thread stream, for the whole context.
    #[inline]
    pub(crate) fn commit(&self, scope: &mut Scope<'_>, access: Access) {
        if !self.is_only_used_on(scope.id) || access.signal {
            return self.commit_shared(scope, access);
        }
        let epoch = scope.epoch();
        if self.owner_epoch.load(Ordering::Relaxed) < epoch {
            // `fetch_max`: another thread may use the buffer on its owning stream at the same time,
            // and have read a later epoch.
            self.owner_epoch.fetch_max(epoch, Ordering::AcqRel);
        }
    }

    #[cold]
    pub(super) fn commit_shared(&self, scope: &mut Scope<'_>, access: Access) {
        let mut removed = Removed::new();
        let mut uses = self.lock_for_commit(scope);
        // Whether the fence of this use comes after every use in the list. It does if it is still
        // to be recorded, which happens under this lock. It also does if the access was exclusive,
        // because then the list has not grown since `acquire`. Otherwise it may not: an earlier
        // argument of the same call has recorded it.
        let is_last = !scope.has_fence() || access == Access::WRITE;
        let was_shared = self.shared.set();
        if !was_shared && access != Access::WRITE {
            // Since `acquire`, other threads may have made unrecorded uses on the owning stream.
            // If this access is to a part of the buffer, they may be writes to another part.
            let unrecorded = if access.part {
                Access::WRITE
            } else {
                Access::READ
            };
            uses.list.push(Use::placeholder(&self.owner, unrecorded));
        }
        let mut new = self.new_use(scope, access, was_shared);
        new.supersede(&mut uses.list, scope, is_last, &mut removed);
        // Only now is it known whether the use has a fence.
        new.register_if_unfenced(scope.stream.context());
        uses.list.push(new);
        uses.prune(&mut removed);
        for user in uses.graph_users(access) {
            user.record.mark_dirty(user.slot);
        }
        drop(uses);
        scope.keep_removed(removed);
    }

    /// Locks the uses. If the memory is in the locked state (leased by a graph, or with aliases),
    /// takes the replay lock first.
    fn lock_for_commit(&self, scope: &Scope<'_>) -> MutexGuard<'_, Uses> {
        let uses = self.lock();
        if !self.needs_replay_lock() {
            return uses;
        }
        // Lock order: the replay lock comes before the tracker. A graph may have leased the memory
        // since the use was queued.
        drop(uses);
        scope.lock_replays();
        self.lock()
    }

    /// Creates the record of a use that was queued in `scope`.
    ///
    /// The first use on another stream gets its fence when something waits for it. Every later use
    /// gets its fence now. So does a signal, and a use on the per-thread stream, where no other
    /// thread can record it later.
    fn new_use(&self, scope: &mut Scope<'_>, access: Access, was_shared: bool) -> Use {
        let mut new = Use::queued(scope, access);
        if scope.stream.context() != self.owner.context() {
            new.elsewhere = Some(KeptContext::new(scope.stream.context()));
        }
        let records_fence_lazily = !was_shared && !access.signal;
        if !records_fence_lazily || scope.stream.state().kind() == Kind::PerThread {
            new.fence = scope.fence();
        }
        new
    }
}

impl Use {
    /// Moves the uses that this one represents from now on from `list` to `removed`. `is_last` says
    /// that the fence of this use comes after every use in the list.
    ///
    /// A write represents everything that its stream has waited for before the write's fence,
    /// except if it is a signal: later signals do not wait for it.
    fn supersede(
        &mut self,
        list: &mut Vec<Self>,
        scope: &Scope<'_>,
        mut is_last: bool,
        removed: &mut Removed,
    ) {
        let is_write = self.access.write && !self.access.signal;
        let covers_waited = is_write && (is_last || self.fence.is_none());
        removed.extend(list.extract_if(.., |earlier| {
            if earlier.id == self.id {
                self.absorb(earlier, scope, &mut is_last)
            } else {
                covers_waited && earlier.waited.contains(&self.id) && !earlier.may_have_later_uses()
            }
        }));
    }

    /// Merges an earlier use on the same stream into this one, if every access that conflicts with
    /// the earlier use also conflicts with this one. Returns whether it did.
    fn absorb(&mut self, earlier: &Self, scope: &Scope<'_>, is_last: &mut bool) -> bool {
        let (before, now) = (earlier.access, self.access);
        if before.write && !now.write || now.signal && !before.signal {
            return false;
        }
        self.epoch = self.epoch.max(earlier.epoch);
        self.is_placeholder |= earlier.is_placeholder;
        // One entry now represents both uses, so it keeps the later of the two fences: another
        // thread may have queued the other use after this one, and committed it earlier.
        if !*is_last && let Some(own) = &self.fence {
            match earlier
                .fence
                .as_ref()
                .filter(|_| !earlier.may_have_later_uses())
            {
                Some(other) if other.is_after(own) => self.fence = Some(other.clone()),
                Some(_) => {}
                None => {
                    self.fence = scope.tail();
                    *is_last = true;
                }
            }
        }
        true
    }
}

impl Uses {
    /// Moves complete uses to `removed`, from time to time: a buffer that is only read accumulates
    /// one use per stream.
    fn prune(&mut self, removed: &mut Removed) {
        if self.list.len() >= PRUNE_LEN && self.list.len().is_power_of_two() {
            removed.extend(self.list.extract_if(.., |earlier| earlier.has_passed()));
        }
    }
}
