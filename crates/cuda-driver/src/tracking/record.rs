//! The replays of an executable graph as uses: one record for all memory that the executable uses.
//!
//! Recording a replay at each of its buffers would take time proportional to their number. So each
//! executable has one record with its last replay (the driver runs its replays one after the
//! other), and each buffer that it uses refers to the record. Other uses of a buffer wait for the
//! last replay if they conflict with it, and mark the buffer as dirty in the record. A replay waits
//! for the uses of the dirty buffers; there are none if nothing happened since the last replay.
//! Executables that share a buffer with conflicting accesses are peers: a replay of one waits for
//! the last replay of the other.
//!
//! Locks are taken in this order: the lock of an executable's owners, the lock of its graph, the
//! [gate](super::Gate) of the context, a tracker, a record. No thread locks two trackers or two
//! records at once.

use std::sync::Arc;

use smallvec::SmallVec;

use super::held::{Estate, User};
use super::uses::Use;
use super::{Access, Scope, Tracker, matters};
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::fence::Fence;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::stream::Stream;
use crate::stream_state::Kind;

/// The replays of one executable.
#[derive(Default)]
pub(crate) struct Record {
    state: Mutex<State, { rank::REPLAYS }>,
}

#[derive(Default)]
struct State {
    /// The last replay. It represents all earlier replays.
    last: Option<Use>,
    /// The memory that the executable uses. An entry keeps its index.
    slots: Vec<Slot>,
    /// The indices of unused entries in `slots`.
    free: Vec<usize>,
    /// The indices of slots that were used elsewhere since the last replay, without duplicates.
    dirty: Vec<usize>,
    /// The executables with conflicting uses of the same memory, each with the number of buffers
    /// that they share in this way.
    peers: Vec<(Arc<Record>, usize)>,
    /// The number of host guards that conflict with a replay.
    lent: usize,
}

#[derive(Default)]
struct Slot {
    tracker: Option<Arc<Tracker>>,
    is_dirty: bool,
}

/// The dependencies of a replay: uses of dirty memory, and last replays of peers.
type ToWaitFor = (SmallVec<[Arc<Tracker>; 4]>, SmallVec<[Arc<Record>; 4]>);

impl Record {
    /// Queues a replay on `stream` by calling `launch`, after all conflicting uses. `may_block` is
    /// true if the graph can wait for the program.
    ///
    /// # Errors
    ///
    /// [`Error::Borrowed`] if the host has a conflicting mapping of a host buffer, or an error of
    /// the driver.
    pub(crate) fn replay(
        &self,
        stream: &Stream,
        may_block: bool,
        launch: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<()> {
        let mut scope = Scope::new(stream);
        scope.ready()?;
        if stream.driver().has_unfenced_uses() {
            self.settle_before(stream.context())?;
        }
        // Entered here instead of through the scope, which would allocate memory for it.
        let entered = stream.context().replay_lock().lock();
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
        // If the last replay was on another stream, the driver makes this one wait for it, and the
        // last replay may itself be waiting for the program.
        let follows = |last: &Use| last.id != scope.id && stream.driver().may_block();
        let queued = if may_block || state.last.as_ref().is_some_and(follows) {
            stream.state().block(stream.context(), launch)
        } else {
            launch()
        };
        if queued.is_ok() && !state.dirty.is_empty() {
            // Inside the gate, no slot becomes dirty in the meantime.
            state.clean();
        }
        // A failed launch may have queued a part of the graph.
        let is_noted = state.may_note(&scope, queued.is_ok());
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
        for tracker in dirty {
            tracker.order_replay(scope, self)?;
        }
        let context = scope.stream.context();
        for peer in peers {
            peer.order_before(scope, context)?;
        }
        Ok(())
    }

    /// Makes the stream of `scope` wait for the last replay. `context` is the context of the
    /// executable.
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

    /// Returns the event after the last replay, or `None` if there was no replay or it is complete.
    /// The caller has [settled](Self::settle) the strays of `context`.
    pub(crate) fn event(&self, context: &Context) -> Result<Option<Fence>, DriverError> {
        let mut state = self.lock();
        match &mut state.last {
            Some(last) => last.behind(context),
            None => Ok(None),
        }
    }

    /// Returns whether there was a replay that is not known to be complete.
    pub(crate) fn may_run(&self, context: &Context) -> bool {
        match &self.lock().last {
            Some(last) => !last.is_done_on(context),
            None => false,
        }
    }

    /// Calls the driver for the executable while no replay of it is being queued.
    pub(crate) fn alone<R>(&self, call: impl FnOnce() -> R) -> R {
        let _state = self.lock();
        call()
    }

    /// Marks the memory at this index as used elsewhere.
    pub(super) fn soil(&self, slot: usize) {
        let mut state = self.lock();
        if let Some(place) = state.slots.get_mut(slot)
            && !std::mem::replace(&mut place.is_dirty, true)
        {
            state.dirty.push(slot);
        }
    }

    /// Adds `guards` conflicting host guards.
    pub(super) fn lend(&self, guards: usize) {
        self.lock().lent += guards;
    }

    /// Removes `guards` conflicting host guards.
    pub(super) fn unlend(&self, guards: usize) {
        let mut state = self.lock();
        state.lent = state.lent.saturating_sub(guards);
    }

    /// Adds a node that uses the memory of `tracker`. The caller has entered the gate.
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

    /// Removes a node that uses the memory of `tracker`. If it was the last one, records the last
    /// replay as a use of that memory. The caller has entered the gate.
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
            // The access is not narrowed: replays so far may still be doing it.
            return;
        }
        let User { slot, access, .. } = estate.users.swap_remove(at);
        self.unlend(estate.lent_against(access));
        let peers = estate.peers_of(self, access);
        // From now on the peers see its replays as ordinary uses.
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
    /// Returns whether the work that was just queued in `scope` may be recorded as the last replay,
    /// which represents the earlier replays. If it was queued, they run before it. If it failed,
    /// its stream is made to wait for them; if that fails too, the previous replay stays recorded.
    fn may_note(&mut self, scope: &Scope<'_>, is_queued: bool) -> bool {
        let context = scope.stream.context();
        match &mut self.last {
            Some(last) if !is_queued => last.order_before(scope, context, 0).is_ok(),
            _ => true,
        }
    }

    /// Records a replay that was just queued in `scope`. Returns the event and the use that it
    /// replaces, which have to be dropped without a lock.
    fn note(&mut self, scope: &mut Scope<'_>) -> (Option<Fence>, Option<Use>) {
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

    /// Unmarks all dirty memory after a replay has waited for it.
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

    /// Forgets memory. Returns the last replay as a use of that memory, and the tracker.
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

    /// Removes one shared buffer of a peer. Returns the peer if it was the last one; it has to be
    /// dropped without the lock.
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

    /// Returns the other executables whose replays conflict with `access` by `record`.
    fn peers_of(&self, record: &Arc<Record>, access: Access) -> SmallVec<[Arc<Record>; 4]> {
        self.users
            .iter()
            .filter(|user| !Arc::ptr_eq(&user.record, record) && matters(user.access, access))
            .map(|user| Arc::clone(&user.record))
            .collect()
    }
}

impl Tracker {
    /// Prepares a replay of `record`: makes the stream of `scope` wait for conflicting uses of this
    /// memory elsewhere.
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
