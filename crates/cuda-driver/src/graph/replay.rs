//! Replays of executable graphs, ordered with other uses of the memory that they use.
//!
//! Locks are taken in this order: the state of an executable, the nodes of its graph, the [replay
//! lock](crate::context::ReplayLock) of the context, a tracker, a record. No thread locks two
//! trackers or two records at once.

use std::ptr;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::fence::Fence;
use crate::stream::Stream;
use crate::stream_state::Kind;
use crate::tracking::{
    Access, Blocked, GraphUser, GraphUsers, ReplayRecord, Scope, Tracker, Use, conflict, retry,
};

/// The dependencies of a replay: uses of dirty memory, and last replays of peers.
type Dependencies = (
    SmallVec<[Arc<Tracker>; 4]>,
    SmallVec<[Arc<ReplayRecord>; 4]>,
);

impl ReplayRecord {
    /// Queues a replay on `stream` by calling `launch`, after all conflicting uses.
    /// `may_wait_for_host` is true if the graph can wait for the host. `is_longer` is true if
    /// `launch` queues further calls after the graph, which the next replay must wait for as well.
    ///
    /// # Errors
    ///
    /// [`Error::HostGuardExists`] if a guard on the host conflicts with the access to a host
    /// buffer; [`Error::UsedByOtherCode`] inside a closure of [`Stream::using`] that conflicts; or
    /// an error of the driver.
    pub(crate) fn replay(
        &self,
        stream: &Stream,
        may_wait_for_host: bool,
        is_longer: bool,
        launch: impl Fn() -> Result<(), DriverError>,
    ) -> Result<()> {
        retry(|| self.try_replay(stream, may_wait_for_host, is_longer, &launch))
    }

    fn try_replay(
        &self,
        stream: &Stream,
        may_wait_for_host: bool,
        is_longer: bool,
        launch: impl Fn() -> Result<(), DriverError>,
    ) -> Result<(), Blocked<Error>> {
        let mut scope = Scope::new(stream);
        scope.ready()?;
        // Taken here instead of through the scope, which would allocate memory for it.
        let guard = stream.context().replay_lock().lock();
        if stream.context().replay_lock().foreign().any() {
            self.expect_no_foreign_use(stream.context())?;
        }
        let mut state = self.lock();
        if state.host_guards > 0 {
            return Err(Blocked::Failed(Error::HostGuardExists {
                what: "a host buffer of the graph",
            }));
        }
        if state.has_dirty() || !state.peers.is_empty() {
            let peers = state.peers.iter().map(|(it, _)| Arc::clone(it));
            let awaited: Dependencies = (state.dirty().collect(), peers.collect());
            drop(state);
            self.wait_for(&scope, &awaited)?;
            drop(awaited);
            state = self.lock();
        }
        if is_longer && let Some(last) = &mut state.last {
            // The driver orders replays of the graph, but not the calls after them.
            last.make_wait(&scope, stream.context(), 0)?;
        }
        // If the last replay was on another stream, the driver makes this one wait for it, and the
        // last replay may itself be waiting for the host.
        let follows = |last: &Use| last.id != scope.id && stream.driver().may_wait_for_host();
        let queued = if may_wait_for_host || state.last.as_ref().is_some_and(follows) {
            stream.state().queue_host_wait(stream.context(), launch)
        } else {
            launch()
        };
        if queued.is_ok() && state.has_dirty() {
            // No slot becomes dirty in the meantime, because this thread holds the replay lock.
            state.clean();
        }
        // A failed launch may have queued a part of the graph.
        let is_recorded = may_record(state.last.as_mut(), &scope, queued.is_ok());
        let former = is_recorded.then(|| record(&mut state.last, &mut scope));
        if queued.is_ok() {
            state.set_written();
        }
        drop(state);
        drop(guard);
        drop(former);
        Ok(queued?)
    }

    /// Makes the stream of `scope` wait for the dependencies of a replay.
    fn wait_for(&self, scope: &Scope<'_>, (dirty, peers): &Dependencies) -> Result<(), Blocked> {
        for tracker in dirty {
            tracker.wait_before_replay(scope, self)?;
        }
        let context = scope.stream.context();
        for peer in peers {
            peer.wait_for_last(scope, context)?;
        }
        Ok(())
    }

    /// Returns the fence after the last replay, or `None` if there is none, or if the last replay
    /// is complete. If it is an unfenced use, waits for it. The caller holds no lock.
    pub(crate) fn fence(&self, context: &Context) -> Result<Option<Fence>, DriverError> {
        retry(|| self.try_fence(context))
    }

    /// Returns whether there was a replay that is not known to be complete.
    pub(crate) fn may_run(&self, context: &Context) -> bool {
        match &self.lock().last {
            Some(last) => !last.is_complete(context),
            None => false,
        }
    }

    /// Calls the driver for the executable while no replay of it is being queued.
    pub(crate) fn alone<R>(&self, call: impl FnOnce() -> R) -> R {
        let _state = self.lock();
        call()
    }

    /// Adds `guards` conflicting host guards.
    fn add_guards(&self, guards: usize) {
        self.lock().host_guards += guards;
    }

    /// Removes `guards` conflicting host guards.
    fn remove_guards(&self, guards: usize) {
        let mut state = self.lock();
        state.host_guards = state.host_guards.saturating_sub(guards);
    }

    /// Adds a node that uses the memory of `tracker`. The caller holds the replay lock.
    pub(crate) fn attach(self: &Arc<Self>, tracker: &Arc<Tracker>, access: Access) {
        let mut uses = tracker.lock();
        let graphs: &mut GraphUsers = uses.graphs.get_or_insert_default();
        let known = graphs.position(self);
        let before = known.map(|at| graphs.users[at].access);
        let merged = before.map_or(access, |before| before.with(access));
        let at = match known {
            Some(at) => {
                graphs.users[at].access = merged;
                graphs.users[at].nodes += 1;
                at
            }
            None => {
                let slot = self.lock().add(tracker);
                graphs.users.push(GraphUser {
                    record: Arc::clone(self),
                    slot,
                    access: merged,
                    nodes: 1,
                });
                graphs.users.len() - 1
            }
        };
        if before == Some(merged) {
            return;
        }
        self.mark_dirty(graphs.users[at].slot);
        let known_guards = before.map_or(0, |before| graphs.guards_against(before));
        self.add_guards(graphs.guards_against(merged) - known_guards);
        let mut peers = graphs.peers_of(self, merged);
        if let Some(before) = before {
            let known = graphs.peers_of(self, before);
            peers.retain(|peer| !known.iter().any(|it| Arc::ptr_eq(it, peer)));
        }
        drop(uses);
        for peer in peers {
            self.add_peer(&peer);
            peer.add_peer(self);
        }
    }

    /// Removes a node that uses the memory of `tracker`. If it was the last one, records the last
    /// replay as a use of that memory. The caller holds the replay lock.
    pub(crate) fn detach(self: &Arc<Self>, tracker: &Arc<Tracker>) {
        let mut uses = tracker.lock();
        let Some(graphs) = uses.graphs.as_mut() else {
            return;
        };
        let Some(at) = graphs.position(self) else {
            return;
        };
        graphs.users[at].nodes -= 1;
        if graphs.users[at].nodes > 0 {
            // The access is not narrowed: replays so far may still be doing it.
            return;
        }
        let GraphUser { slot, access, .. } = graphs.users.swap_remove(at);
        self.remove_guards(graphs.guards_against(access));
        let peers = graphs.peers_of(self, access);
        // From now on the peers see its replays as ordinary uses.
        for user in graphs.users_against(access) {
            user.record.mark_dirty(user.slot);
        }
        let (last, _tracker) = self.lock().remove(slot, access);
        uses.list.extend(last);
        drop(uses);
        for peer in peers {
            let _peer = self.remove_peer(&peer);
            let _this = peer.remove_peer(self);
        }
    }

    fn add_peer(&self, peer: &Arc<Self>) {
        let peers = &mut self.lock().peers;
        match peers.iter_mut().find(|(it, _)| Arc::ptr_eq(it, peer)) {
            Some((_, count)) => *count += 1,
            None => peers.push((Arc::clone(peer), 1)),
        }
    }

    /// Removes one shared buffer of a peer. Returns the peer if it shares no further buffer; it has
    /// to be dropped without the lock.
    fn remove_peer(&self, peer: &Arc<Self>) -> Option<Arc<Self>> {
        let peers = &mut self.lock().peers;
        let at = peers.iter().position(|(it, _)| Arc::ptr_eq(it, peer))?;
        let (_, count) = &mut peers[at];
        *count -= 1;
        (*count == 0).then(|| peers.swap_remove(at).0)
    }
}

/// Returns whether the launch that was just attempted in `scope` may be recorded as the last
/// replay, which represents the earlier replays. If it succeeded, the driver runs the earlier
/// replays before it. If it failed, a part of it may have been queued, so its stream is made to
/// wait for them. If that fails too, the previous replay stays recorded.
fn may_record(last: Option<&mut Use>, scope: &Scope<'_>, is_queued: bool) -> bool {
    match last {
        Some(last) if !is_queued => last.make_wait(scope, scope.stream.context(), 0).is_ok(),
        _ => true,
    }
}

/// Records a replay that was just queued in `scope`. Returns the fence and the use that it
/// replaces, which have to be dropped without a lock.
fn record(last: &mut Option<Use>, scope: &mut Scope<'_>) -> (Option<Fence>, Option<Use>) {
    let former = match &mut *last {
        Some(last) if last.id == scope.id => (last.renew(), None),
        last => (None, last.replace(Use::queued(scope, Access::WRITE))),
    };
    if scope.stream.state().kind() == Kind::PerThread
        && let Some(last) = last
    {
        last.fence = scope.fence();
        last.register_if_unfenced(scope.stream.context());
    }
    former
}

impl GraphUsers {
    fn position(&self, record: &Arc<ReplayRecord>) -> Option<usize> {
        self.users
            .iter()
            .position(|user| Arc::ptr_eq(&user.record, record))
    }

    /// Returns the other executables whose replays conflict with `access` by `record`.
    fn peers_of(
        &self,
        record: &Arc<ReplayRecord>,
        access: Access,
    ) -> SmallVec<[Arc<ReplayRecord>; 4]> {
        self.users
            .iter()
            .filter(|user| !Arc::ptr_eq(&user.record, record) && conflict(user.access, access))
            .map(|user| Arc::clone(&user.record))
            .collect()
    }
}

impl Tracker {
    /// Prepares a replay of `record`: makes the stream of `scope` wait for conflicting uses of this
    /// memory elsewhere.
    fn wait_before_replay(&self, scope: &Scope<'_>, record: &ReplayRecord) -> Result<(), Blocked> {
        let mut uses = self.lock();
        let mut users = uses.graphs.iter().flat_map(|graphs| &graphs.users);
        let user = users.find(|user| ptr::eq(&raw const *user.record, record));
        let Some(access) = user.map(|user| user.access) else {
            return Ok(());
        };
        self.wait_for_list(&mut uses.list, scope, access)
    }

    /// Maps the memory for the host until [`unmap_host`](Self::unmap_host): blocks new conflicting
    /// launches, then waits for those in progress.
    ///
    /// # Errors
    ///
    /// [`Error::HostGuardExists`] if a conflicting guard exists, or an error of the wait. The
    /// memory is not mapped then.
    pub(crate) fn map_host(&self, access: Access) -> Result<()> {
        let guard = self.owning_stream().context().replay_lock().lock();
        let mut uses = self.lock();
        let graphs = uses.graphs.get_or_insert_default();
        if graphs.guards_against(access) > 0 {
            return Err(Error::HostGuardExists {
                what: "a host buffer of a graph",
            });
        }
        *graphs.guards(access) += 1;
        for user in graphs.users_against(access) {
            user.record.add_guards(1);
        }
        drop(uses);
        drop(guard);
        // No new conflicting launch can start, so all of them are known here.
        self.synchronize(access).map_err(|error| {
            self.unmap_host(access);
            error.into()
        })
    }

    /// Ends a mapping by the host.
    pub(crate) fn unmap_host(&self, access: Access) {
        let _guard = self.owning_stream().context().replay_lock().lock();
        let mut uses = self.lock();
        if let Some(graphs) = &mut uses.graphs {
            *graphs.guards(access) -= 1;
            for user in graphs.users_against(access) {
                user.record.remove_guards(1);
            }
        }
    }
}
