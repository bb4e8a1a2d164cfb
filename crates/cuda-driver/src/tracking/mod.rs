//! Dependency tracking: makes a buffer safe to use on several streams. C leaves that to the
//! program.
//!
//! Every buffer has an owning stream. While no other stream uses the buffer, the order of that
//! stream is enough, and no use is recorded: a use costs one load and one comparison in `acquire`,
//! and two of each in `commit`. The first use on another stream makes that stream wait for the tail
//! of the owning stream, or for the checkpoint after the last use there. From then on the buffer is
//! shared: each use leaves a fence and waits for the earlier uses that conflict with it (the
//! happens-before edges between streams). A read conflicts with writes, and a write conflicts with
//! all uses. Two signals do not conflict.
//!
//! The per-thread default stream is one queue per thread, and only that thread can record an event
//! there. So each use on it records its fence at once, and a buffer that it owns counts as shared
//! from the start. A use whose fence cannot be recorded is an [unfenced use](Blocked::UnfencedUse).
//! A [`ThreadBuffer`](crate::memory::ThreadBuffer) stays on its thread, and counts as shared only
//! when it is used on another stream or gives up its thread.
//!
//! A use keeps its stream alive, so a stream may be dropped while it has work.
//!
//! Memory that a [graph](crate::Graph) leases is also used by replays of that graph, which take no
//! borrows. So every other use of it takes the slow path: it takes the
//! [replay lock](crate::context::ReplayLock) of its context, which excludes replays, and checks the
//! [records](ReplayRecord) of the replays.
//!
//! Memory that may have [aliases](crate::DeviceBuffer::alias_mut) is used without a borrow that
//! excludes other uses, so its uses take the same lock.
//!
//! Two kinds of calls use memory from another context: copies between contexts, and launches with a
//! peer view. Their use is recorded like any other and keeps its context alive. Streams of all
//! contexts can wait for its fence.
//!
//! `docs/stream-ordering.md` describes the states of a buffer and works through a race.

mod access;
mod blocked;
mod commit;
mod destroy;
mod foreign;
mod lease;
mod release;
mod replay_record;
mod scope;
mod thread;
mod uses;

pub(crate) use access::{Access, conflict};
pub(crate) use blocked::{Blocked, retry};
pub(crate) use destroy::{DestroyWhenIdle, Report, report_of};
pub(crate) use foreign::ForeignScope;
pub(crate) use lease::{GraphUser, GraphUsers};
pub(crate) use replay_record::ReplayRecord;
pub(crate) use scope::Scope;
pub(crate) use uses::Use;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::context::KeptContext;
use crate::error::{DriverError, Error, Result};
use crate::fence::Fence;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::stream::Stream;
use crate::stream_state::Kind;
use uses::Removed;

#[cfg(test)]
mod tests;

/// The uses of one buffer that later uses may have to wait for.
pub(crate) struct Tracker {
    /// The id of `owner`, cached.
    owner_id: u64,
    /// Whether uses are recorded. Set by the first use on another stream, by a signal, and when the
    /// buffer enters the locked state. Set from the start if the owning stream is per-thread and
    /// the memory may leave its thread.
    shared: Shared,
    /// Set once a graph has leased the memory, or once the memory may have aliases. Implies
    /// `shared`. Both stay set until the memory is handed over.
    needs_replay_lock: AtomicBool,
    /// The number of the graph whose nodes allocate and free the memory, or 0 if no graph does.
    graph: u64,
    /// The number of the graph whose first launch writes the memory, until it is launched; 0 from
    /// then on, and for all other memory.
    unwritten_by: AtomicU64,
    /// The epoch of the last unrecorded use on the owning stream. It only grows while the memory
    /// has the same owner.
    owner_epoch: AtomicU64,
    /// Declared before `owner`, so that it is dropped first: `owner` keeps the context alive.
    uses: Mutex<Uses, { rank::TRACKER }>,
    owner: Stream,
}

/// The uses and the owning stream that a tracker gives up when its memory is handed over, in drop
/// order. To be dropped without a lock, because dropping them can call the driver.
pub(crate) struct ReleasedState(
    #[allow(dead_code, reason = "only dropped")] (Uses, Option<Stream>),
);

/// The state that the lock of a tracker guards.
#[derive(Default)]
pub(crate) struct Uses {
    pub(crate) list: Vec<Use>,
    /// `None` until a graph leases the memory.
    pub(crate) graphs: Option<Box<GraphUsers>>,
}

/// Whether the uses of a buffer are recorded, and if not, the id of its owning stream. It is one
/// word, so that a use on the owning stream needs one load.
struct Shared(AtomicU64);

impl Shared {
    /// The value of a shared buffer. It is never the id of a stream.
    const YES: u64 = 0;

    fn not(owner: u64) -> Self {
        Self(AtomicU64::new(owner))
    }

    fn yes() -> Self {
        Self(AtomicU64::new(Self::YES))
    }

    #[inline]
    fn is_only_used_on(&self, stream: u64) -> bool {
        self.0.load(Ordering::Acquire) == stream
    }

    fn get(&self) -> bool {
        self.is_only_used_on(Self::YES)
    }

    /// Marks the buffer as shared. Returns whether it was shared before.
    fn set(&self) -> bool {
        self.0.swap(Self::YES, Ordering::AcqRel) == Self::YES
    }

    /// Marks the buffer as used only on `owner`, which has waited for all other uses.
    fn reset(&self, owner: u64) {
        self.0.store(owner, Ordering::Release);
    }
}

impl Tracker {
    /// Creates a tracker for memory whose only uses so far are on `owner`.
    pub(crate) fn new(owner: &Stream) -> Self {
        let this = Self {
            owner_id: owner.state().id(),
            shared: Shared::not(owner.state().id()),
            needs_replay_lock: AtomicBool::new(false),
            graph: 0,
            unwritten_by: AtomicU64::new(0),
            owner_epoch: AtomicU64::new(0),
            uses: Mutex::default(),
            owner: owner.clone(),
        };
        this.begin();
        this
    }

    /// Creates a tracker for host memory that is used only by graphs, and by the host through
    /// guards. `owner` only determines the context.
    pub(crate) fn of_host(owner: &Stream) -> Arc<Self> {
        Arc::new(Self {
            owner_id: owner.state().id(),
            shared: Shared::yes(),
            needs_replay_lock: AtomicBool::new(true),
            graph: 0,
            unwritten_by: AtomicU64::new(0),
            owner_epoch: AtomicU64::new(0),
            uses: Mutex::default(),
            owner: owner.clone(),
        })
    }

    /// Creates a tracker for memory that nodes of a graph allocate and free. Only nodes of that
    /// graph can use it: [`acquire`](Self::acquire) fails.
    pub(crate) fn of_graph(owner: &Stream, graph: u64) -> Arc<Self> {
        Arc::new(Self {
            owner_id: owner.state().id(),
            shared: Shared::yes(),
            // Makes each use take the path with the check.
            needs_replay_lock: AtomicBool::new(true),
            graph,
            unwritten_by: AtomicU64::new(0),
            owner_epoch: AtomicU64::new(0),
            uses: Mutex::default(),
            owner: owner.clone(),
        })
    }

    /// Returns the number of the graph whose nodes allocate the memory, or 0 if no graph does.
    pub(crate) fn graph(&self) -> u64 {
        self.graph
    }

    /// The stream on which the buffer is copied and freed.
    pub(crate) fn owning_stream(&self) -> &Stream {
        &self.owner
    }

    /// Returns whether the order of the stream is enough for a use on it: the stream owns the
    /// buffer, and the buffer is not shared.
    #[inline]
    pub(crate) fn is_only_used_on(&self, stream: u64) -> bool {
        self.shared.is_only_used_on(stream)
    }

    /// Returns whether `commit` would change nothing for a use on `stream` in `epoch`, unless it is
    /// a signal: the buffer is used only on that stream, and that epoch or a later one is stored.
    #[inline]
    pub(crate) fn needs_no_record(&self, stream: u64, epoch: u64) -> bool {
        self.is_only_used_on(stream) && self.owner_epoch.load(Ordering::Relaxed) >= epoch
    }

    /// Acquires the memory for a use that is about to be queued: makes the stream of `scope` wait
    /// for all earlier uses that conflict with `access`. It may be repeated for the same use.
    ///
    /// A signal is recorded even on the owning stream. As an unrecorded use it would be represented
    /// by a placeholder, for which the signals on other streams would wait.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the buffer belongs to another context;
    /// [`Error::MemoryOfCapture`] if nodes of a graph allocate the memory;
    /// [`Error::NotYetWritten`] if the first launch of a graph writes it;
    /// [`Blocked::UnfencedUse`] or [`Blocked::ForeignUse`] if the caller has to
    /// [start again](Scope::acquire).
    #[inline]
    pub(crate) fn acquire(&self, scope: &Scope<'_>, access: Access) -> Result<(), Blocked<Error>> {
        if self.is_only_used_on(scope.id) && !access.signal {
            return Ok(());
        }
        scope
            .stream
            .expect_context(self.owner.context(), "a buffer")?;
        self.expect_no_foreign_use(scope, access)?;
        Ok(self.acquire_shared(scope, access)?)
    }

    /// Does the same as [`acquire`](Self::acquire) for a copy or a launch on a stream of another
    /// context.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the buffer belongs to another driver, and otherwise as
    /// [`acquire`](Self::acquire).
    pub(crate) fn acquire_for_peer(
        &self,
        scope: &Scope<'_>,
        access: Access,
    ) -> Result<(), Blocked<Error>> {
        let driver = scope.stream.driver();
        driver.expect_handles_of(self.owner.context().driver(), "a buffer")?;
        self.expect_no_foreign_use(scope, access)?;
        Ok(self.acquire_shared(scope, access)?)
    }

    #[cold]
    fn acquire_shared(&self, scope: &Scope<'_>, access: Access) -> Result<(), Blocked> {
        scope.ready()?;
        self.record_uses_of_thread();
        if self.needs_replay_lock() {
            // Excludes replays and aliases until the use is recorded.
            scope.lock_replays();
        }
        self.wait_for_conflicts(scope, access)
    }

    /// Makes the stream of `scope` wait for all uses that conflict with `access`.
    fn wait_for_conflicts(&self, scope: &Scope<'_>, access: Access) -> Result<(), Blocked> {
        // Declared before the guard, so that it is dropped after the lock is released.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        if !self.shared.get() {
            // Uses on the owning stream were not recorded, so one placeholder represents all of
            // them. A placeholder of an earlier attempt is replaced: its use may have failed, and
            // the owning stream may have more work since.
            removed.extend(uses.list.drain(..));
            uses.list.push(Use::placeholder(&self.owner, Access::WRITE));
        }
        self.wait_for_list(&mut uses.list, scope, access)?;
        for user in uses.graph_users(access) {
            user.record.wait_for_last(scope, self.owner.context())?;
        }
        Ok(())
    }

    /// Makes the stream of `scope` wait for those of `uses` that conflict with `access`.
    pub(crate) fn wait_for_list(
        &self,
        uses: &mut [Use],
        scope: &Scope<'_>,
        access: Access,
    ) -> Result<(), Blocked> {
        let owner_epoch = self.owner_epoch.load(Ordering::Acquire);
        for earlier in uses.iter_mut().filter(|it| it.conflicts_with(access)) {
            earlier.make_wait(scope, self.owner.context(), owner_epoch)?;
        }
        Ok(())
    }

    /// Makes the owning stream wait for every use on other streams, before the memory is freed
    /// there or gets another owner. The caller holds no lock.
    pub(crate) fn wait_for_all_on_owner(&self) -> Result<(), DriverError> {
        if self.is_only_used_on(self.owner_id) {
            return Ok(());
        }
        self.wait_for_all_on(&self.owner)
    }

    fn wait_for_all_on(&self, stream: &Stream) -> Result<(), DriverError> {
        retry(|| {
            let scope = Scope::new(stream);
            scope.ready()?;
            self.wait_for_conflicts(&scope, Access::WRITE)
        })
    }

    /// Blocks the calling thread until the uses that conflict with `access` are complete. The
    /// caller holds no lock.
    pub(crate) fn synchronize(&self, access: Access) -> Result<(), DriverError> {
        let (owner, context) = (self.owner.state(), self.owner.context());
        let owner_epoch = self.owner_epoch.load(Ordering::Acquire);
        if !self.shared.get() {
            if owner.epoch() == owner_epoch {
                return owner.synchronize(context);
            }
            return match owner.fence_after(context, owner_epoch)? {
                Some((fence, _)) => fence.synchronize(),
                None => Ok(()),
            };
        }
        // The lock is released: other threads may queue reads during the wait.
        for (fence, _context) in retry(|| self.fences_after(access, owner_epoch))? {
            fence.synchronize()?;
        }
        Ok(())
    }

    /// Returns the fences after the uses that conflict with `access`, each with its context unless
    /// that is the context of the owning stream.
    fn fences_after(
        &self,
        access: Access,
        owner_epoch: u64,
    ) -> Result<Vec<(Fence, Option<KeptContext>)>, Blocked> {
        let context = self.owner.context();
        let mut fences = Vec::new();
        let mut uses = self.lock();
        for earlier in uses.list.iter_mut().filter(|it| it.conflicts_with(access)) {
            earlier.drop_stale_fence(owner_epoch);
            let fence = earlier.fence_after(context)?;
            fences.extend(fence.map(|fence| (fence, earlier.elsewhere.clone())));
        }
        for user in uses.graph_users(access) {
            let fence = user.record.try_fence(context)?;
            fences.extend(fence.map(|fence| (fence, None)));
        }
        Ok(fences)
    }

    /// Hands the memory over to its next owner: makes `owner` wait for all uses, and forgets them.
    /// On failure nothing changes.
    pub(crate) fn hand_over(this: &mut Arc<Self>, owner: &Stream) -> Result<(), DriverError> {
        let Some(own) = Arc::get_mut(this) else {
            // Another thread has a reference to the tracker, but no longer uses the memory.
            this.wait_for_all_on(owner)?;
            *this = Arc::new(Self::new(owner));
            return Ok(());
        };
        if owner.state().id() == own.owner_id && !own.shared.get() {
            return Ok(());
        }
        own.wait_for_all_on(owner)?;
        drop(own.move_to(owner));
        Ok(())
    }

    /// Hands the memory over if none of its uses is pending; otherwise returns `None` and changes
    /// nothing.
    ///
    /// If the caller holds a lock, it has to drop the result after releasing that lock.
    pub(crate) fn hand_over_if_idle(this: &mut Arc<Self>, owner: &Stream) -> Option<ReleasedState> {
        let own = Arc::get_mut(this)?;
        let context = own.owner.context();
        let owner_epoch = *own.owner_epoch.get_mut();
        let is_idle = if own.shared.get() {
            own.lock().list.iter_mut().all(|earlier| {
                earlier.drop_stale_fence(owner_epoch);
                earlier.is_complete(context)
            })
        } else {
            own.owner.state().is_done(context)
        };
        is_idle.then(|| own.move_to(owner))
    }

    /// Forgets all uses and makes `owner` the owning stream. Returns the former state.
    fn move_to(&mut self, owner: &Stream) -> ReleasedState {
        let uses = mem::take(&mut *self.lock());
        *self.needs_replay_lock.get_mut() = false;
        let id = owner.state().id();
        self.shared.reset(id);
        let mut former = ReleasedState((uses, None));
        if id != self.owner_id {
            self.owner_id = id;
            former.0.1 = Some(mem::replace(&mut self.owner, owner.clone()));
        }
        self.begin();
        former
    }

    /// Starts tracking with the work that is on the owning stream so far.
    fn begin(&self) {
        let state = self.owner.state();
        self.owner_epoch.store(state.epoch(), Ordering::Release);
        if state.kind() == Kind::PerThread {
            let mut scope = Scope::new(&self.owner);
            self.shared.set();
            let mut so_far = Use::queued(&scope, Access::WRITE);
            so_far.fence = scope.fence();
            so_far.register_if_unfenced(self.owner.context());
            self.lock().list.push(so_far);
        }
    }

    /// Returns a number for each executable graph whose nodes use the memory.
    pub(crate) fn replays(&self) -> SmallVec<[usize; 1]> {
        let uses = self.lock();
        let users = uses.graphs.iter().flat_map(|graphs| &graphs.users);
        users.map(|user| user.record.identity()).collect()
    }

    /// Locks the uses. A thread locks only one tracker at a time.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock()
    }
}

impl Uses {
    /// Returns the executables whose replays conflict with `access`.
    pub(crate) fn graph_users(&self, access: Access) -> impl Iterator<Item = &GraphUser> {
        let graphs = self.graphs.iter();
        graphs.flat_map(move |graphs| graphs.users_against(access))
    }
}
