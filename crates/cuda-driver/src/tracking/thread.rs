//! Memory that stays on one thread, on the per-thread stream of that thread. Its uses there are not
//! recorded until the memory may be used elsewhere.
//!
//! Only that thread can record an event after them, so it does so before it uses the memory on
//! another stream, before a graph leases it, and before another thread may get it. If another
//! thread gets it nevertheless, these uses count as [unfenced](super::Blocked::UnfencedUse).

use std::mem;
use std::sync::Arc;

use super::{Access, Scope, Tracker};
use crate::stream_state::Kind;

impl Tracker {
    /// Forgets the uses so far, and does not record later ones on the owning stream, if that is the
    /// per-thread stream of this thread. All uses so far must be on that stream. Memory of an eager
    /// capture, which needs a check at each use, is left as it is.
    pub(crate) fn keep_on_thread(this: &mut Arc<Self>) {
        let Some(own) = Arc::get_mut(this) else {
            return;
        };
        let state = own.owner.state();
        let is_own = state.kind() == Kind::PerThread && state.id() == own.owner_id;
        if !is_own || own.needs_replay_lock() {
            return;
        }
        let uses = mem::take(&mut *own.lock());
        own.shared.reset(own.owner_id);
        drop(uses);
    }

    /// Records the unrecorded uses on the per-thread stream of this thread, if it owns the memory.
    /// From now on each use is recorded.
    #[inline]
    pub(crate) fn record_uses_of_thread(&self) {
        if self.owner.state().kind() == Kind::PerThread {
            self.record_unrecorded();
        }
    }

    #[cold]
    fn record_unrecorded(&self) {
        if self.is_only_used_on(self.owner.state().id()) {
            // One write represents all earlier uses on the stream.
            self.commit_shared(&mut Scope::new(&self.owner), Access::WRITE);
        }
    }
}
