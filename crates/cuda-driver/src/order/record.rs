//! The replays of an executable graph as uses: one record for all memory that it uses.
//!
//! Noting a replay at each of its buffers would cost as much as the buffers are many. So an
//! executable has one record of its last replay (the driver runs its replays one after the other),
//! and each buffer that it uses knows the record. Uses elsewhere wait for the last replay where it
//! matters to them, and tell the record that the buffer is dirty; a replay waits for the uses of
//! the dirty buffers, of which there are none if nothing happened in between. Executables that
//! share a buffer are peers: a replay of one waits for the last replay of the other.
//!
//! Locks are taken in this order: the lock of an executable's owners, that of its graph, the
//! [gate](super::Gate) of the context, a tracker, a record. No two trackers, and no two records,
//! are locked at once.

use std::sync::Arc;

use smallvec::SmallVec;

use super::held::{Estate, User};
use super::uses::Use;
use super::{Access, Scope, Tracker, matters};
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::event::UseEvent;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::planted::Fault;
use crate::stream::{Kind, Stream};

/// The replays of one executable.
#[derive(Default)]
pub(crate) struct Record {
    state: Mutex<State, { rank::REPLAYS }>,
}

#[derive(Default)]
struct State {
    /// The last replay. It stands for all before it.
    last: Option<Use>,
    /// The memory that the executable uses. Their places do not change.
    slots: Vec<Slot>,
    /// The places of those that went.
    free: Vec<usize>,
    /// Those that were used elsewhere since the last replay, none twice.
    dirty: Vec<usize>,
    /// Those that use the same memory in ways that matter, and how much of it.
    peers: Vec<(Arc<Record>, usize)>,
    /// How many guards of the host are in the way of a replay.
    lent: usize,
}

#[derive(Default)]
struct Slot {
    tracker: Option<Arc<Tracker>>,
    is_dirty: bool,
}

/// What a replay has to wait for: uses of memory, and other executables.
type ToWaitFor = (SmallVec<[Arc<Tracker>; 4]>, SmallVec<[Arc<Record>; 4]>);

impl Record {
    /// Queues a replay on `stream` by `launch`, behind all uses that matter. `may_block` says
    /// whether the graph can wait for the program.
    ///
    /// # Errors
    ///
    /// [`Error::Borrowed`], or what the calls answer.
    pub(crate) fn replay(
        &self,
        stream: &Stream,
        may_block: bool,
        launch: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<()> {
        let mut scope = Scope::new(stream);
        scope.ready()?;
        if stream.driver().has_strays() {
            self.settle_before(stream.context())?;
        }
        // Not by the scope, which would need memory for it.
        let entered = stream.context().gate().enter();
        let mut state = self.lock();
        if state.lent > 0 {
            return Err(Error::Borrowed {
                what: "a host buffer of the graph",
            });
        }
        if !state.dirty.is_empty() || !state.peers.is_empty() {
            let awaited = state.to_wait_for();
            drop(state);
            self.wait(&scope, &awaited.0, &awaited.1)?;
            drop(awaited);
            state = self.lock();
        }
        // On another stream the driver makes it wait for the last replay, which may itself wait for
        // the program.
        let follows = |last: &Use| last.id != scope.id && stream.driver().may_block();
        let queued = if may_block || state.last.as_ref().is_some_and(follows) {
            stream.state().block(stream.context(), launch)
        } else {
            launch()
        };
        if queued.is_ok() && !state.dirty.is_empty() {
            // Inside the gate none is added meanwhile.
            state.clean();
        }
        // A launch that failed may have queued a part of the graph.
        let is_noted =
            state.may_note(&scope, queued.is_ok()) && !Fault::ReplayNotNoted.is_planted();
        let former = is_noted.then(|| state.note(&mut scope));
        drop(state);
        drop(entered);
        drop(former);
        Ok(queued?)
    }

    pub(super) fn to_wait_for(&self) -> ToWaitFor {
        self.lock().to_wait_for()
    }

    pub(super) fn with_last<R>(&self, look: impl FnOnce(&Use) -> R) -> Option<R> {
        self.lock().last.as_ref().map(look)
    }

    /// Makes the stream of `scope` wait for the uses of `dirty` memory and for the last replays of
    /// `peers`.
    fn wait(
        self: &Record,
        scope: &Scope<'_>,
        dirty: &[Arc<Tracker>],
        peers: &[Arc<Self>],
    ) -> Result<(), DriverError> {
        if !Fault::DirtyIgnored.is_planted() {
            for tracker in dirty {
                tracker.order_replay(scope, self)?;
            }
        }
        let context = scope.stream.context();
        for peer in peers {
            peer.order_before(scope, context)?;
        }
        Ok(())
    }

    /// Makes the stream of `scope` wait for the last replay. `context` is the executable's.
    pub(super) fn order_before(
        &self,
        scope: &Scope<'_>,
        context: &Context,
    ) -> Result<(), DriverError> {
        match &mut self.lock().last {
            Some(last) => last.order_before(scope, context, 0),
            None => Ok(()),
        }
    }

    /// The event behind the last replay; `None` if there is none, or it is done. Strays of
    /// `context` were [settled](Self::settle).
    pub(crate) fn event(&self, context: &Context) -> Result<Option<UseEvent>, DriverError> {
        let mut state = self.lock();
        let Some(last) = &mut state.last else {
            return Ok(None);
        };
        let own = Arc::clone(&last.stream);
        last.behind(&own, context)
    }

    /// Whether there was a replay that is not known to be done.
    pub(crate) fn may_run(&self, context: &Context) -> bool {
        match &self.lock().last {
            Some(last) => !last.is_done_on(context),
            None => false,
        }
    }

    /// Calls the driver for the executable while none of its replays is being queued.
    pub(crate) fn alone<R>(&self, call: impl FnOnce() -> R) -> R {
        let _state = self.lock();
        call()
    }

    /// The memory of this number was used elsewhere.
    pub(super) fn soil(&self, slot: usize) {
        let mut state = self.lock();
        if let Some(place) = state.slots.get_mut(slot)
            && !std::mem::replace(&mut place.is_dirty, true)
        {
            state.dirty.push(slot);
        }
    }

    /// As many more guards of the host are in the way.
    pub(super) fn lend(&self, guards: usize) {
        self.lock().lent += guards;
    }

    /// As many fewer.
    pub(super) fn unlend(&self, guards: usize) {
        let mut state = self.lock();
        state.lent = state.lent.saturating_sub(guards);
    }

    /// A node more uses the memory of `tracker`. The gate is entered.
    pub(crate) fn attach(self: &Arc<Self>, tracker: &Arc<Tracker>, access: Access) {
        let mut uses = tracker.lock();
        let estate: &mut Estate = uses.estate.get_or_insert_default();
        let known = estate.position(self);
        let before = known.map(|at| estate.users[at].access);
        let merged = before.map_or(access, |before| before.with(access));
        let at = match known {
            Some(at) => {
                estate.users[at].access = merged;
                estate.users[at].nodes += 1;
                at
            }
            None => {
                let slot = self.lock().add(tracker);
                estate.users.push(User {
                    record: Arc::clone(self),
                    slot,
                    access: merged,
                    nodes: 1,
                });
                estate.users.len() - 1
            }
        };
        if before == Some(merged) {
            return;
        }
        self.soil(estate.users[at].slot);
        let mattered = |lent: &Estate| before.map_or(0, |before| lent.lent_against(before));
        self.lend(estate.lent_against(merged) - mattered(estate));
        let mut peers = estate.peers_of(self, merged);
        if let Some(before) = before {
            let known = estate.peers_of(self, before);
            peers.retain(|peer| !known.iter().any(|it| Arc::ptr_eq(it, peer)));
        }
        drop(uses);
        for peer in peers {
            self.lock().add_peer(&peer);
            peer.lock().add_peer(self);
        }
    }

    /// A node less uses the memory of `tracker`. What replays still do with it is noted there if it
    /// was the last. The gate is entered.
    pub(crate) fn detach(self: &Arc<Self>, tracker: &Arc<Tracker>) {
        let mut uses = tracker.lock();
        let Some(estate) = uses.estate.as_mut() else {
            return;
        };
        let Some(at) = estate.position(self) else {
            return;
        };
        estate.users[at].nodes -= 1;
        if estate.users[at].nodes > 0 {
            // What it did to the memory so far, it may still do: the access stays.
            return;
        }
        let User { slot, access, .. } = estate.users.swap_remove(at);
        self.unlend(estate.lent_against(access));
        let peers = estate.peers_of(self, access);
        // Its peers know its replays as any other uses from now on.
        for user in estate.users_against(access) {
            user.record.soil(user.slot);
        }
        let (last, _tracker) = self.lock().remove(slot, access);
        uses.list.extend(last);
        drop(uses);
        for peer in peers {
            let _peer = self.lock().remove_peer(&peer);
            let _this = peer.lock().remove_peer(self);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Whether what was just queued in `scope` may be noted as the last replay: it then stands for
    /// those before it, which run first if it was queued. If it failed its stream is made to wait
    /// for them; if that fails too, the one before stays.
    fn may_note(&mut self, scope: &Scope<'_>, is_queued: bool) -> bool {
        let context = scope.stream.context();
        match &mut self.last {
            Some(last) if !is_queued => last.order_before(scope, context, 0).is_ok(),
            _ => true,
        }
    }

    /// Notes a replay that was just queued in `scope`. Returns the event and the use that it
    /// replaces, to be dropped without a lock.
    fn note(&mut self, scope: &mut Scope<'_>) -> (Option<UseEvent>, Option<Use>) {
        let former = match &mut self.last {
            Some(last) if last.id == scope.id => (last.renew(), None),
            last => (None, last.replace(Use::late(scope, true, false))),
        };
        if scope.stream.state().kind() == Kind::PerThread
            && let Some(last) = &mut self.last
        {
            last.event = scope.event();
            last.note_stray(scope.stream.context());
        }
        former
    }

    fn to_wait_for(&self) -> ToWaitFor {
        let tracker = |slot: &usize| self.slots.get(*slot)?.tracker.clone();
        let dirty = self.dirty.iter().filter_map(tracker).collect();
        let peers = self.peers.iter().map(|(it, _)| Arc::clone(it)).collect();
        (dirty, peers)
    }

    /// All that is dirty was waited for.
    fn clean(&mut self) {
        for slot in self.dirty.drain(..) {
            if let Some(place) = self.slots.get_mut(slot) {
                place.is_dirty = false;
            }
        }
    }

    fn add(&mut self, tracker: &Arc<Tracker>) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[slot].tracker = Some(Arc::clone(tracker));
        slot
    }

    /// Forgets memory; answers the last replay as a use of it.
    fn remove(&mut self, slot: usize, access: Access) -> (Option<Use>, Option<Arc<Tracker>>) {
        let last = self.last.as_ref().map(|last| last.again(access.write));
        if std::mem::take(&mut self.slots[slot].is_dirty) {
            self.dirty.retain(|it| *it != slot);
        }
        self.free.push(slot);
        (last, self.slots[slot].tracker.take())
    }

    fn add_peer(&mut self, peer: &Arc<Record>) {
        match self.peers.iter_mut().find(|(it, _)| Arc::ptr_eq(it, peer)) {
            Some((_, count)) => *count += 1,
            None => self.peers.push((Arc::clone(peer), 1)),
        }
    }

    /// Answers the peer if it is none any more: it is to be dropped when this is unlocked.
    fn remove_peer(&mut self, peer: &Arc<Record>) -> Option<Arc<Record>> {
        let at = self
            .peers
            .iter()
            .position(|(it, _)| Arc::ptr_eq(it, peer))?;
        let (_, count) = &mut self.peers[at];
        *count -= 1;
        (*count == 0).then(|| self.peers.swap_remove(at).0)
    }
}

impl Estate {
    fn position(&self, record: &Arc<Record>) -> Option<usize> {
        self.users
            .iter()
            .position(|user| Arc::ptr_eq(&user.record, record))
    }

    /// The other executables whose replays matter to such a use by `record`.
    fn peers_of(&self, record: &Arc<Record>, access: Access) -> SmallVec<[Arc<Record>; 4]> {
        self.users
            .iter()
            .filter(|user| !Arc::ptr_eq(&user.record, record) && matters(user.access, access))
            .map(|user| Arc::clone(&user.record))
            .collect()
    }
}

impl Tracker {
    /// Before a replay of `record` on the stream of `scope`: makes it wait for what was done
    /// elsewhere.
    fn order_replay(&self, scope: &Scope<'_>, record: &Record) -> Result<(), DriverError> {
        let mut uses = self.lock();
        let uses = &mut *uses;
        let users = uses.estate.iter().flat_map(|estate| &estate.users);
        let Some(access) = users
            .filter(|user| std::ptr::eq(&raw const *user.record, record))
            .map(|user| user.access)
            .next()
        else {
            return Ok(());
        };
        self.order_list(&mut uses.list, scope, access)
    }
}
