//! Dependency tracking: makes a buffer safe to use on several streams. C leaves that to the
//! program.
//!
//! Every buffer has an owning stream, called its home. While no other stream uses the buffer, the
//! order of that stream is enough, and nothing is recorded: a use costs one comparison and two
//! loads. The first use on another stream makes that stream wait for the tail of the home stream,
//! or for the checkpoint after the last use there. From then on the buffer is "crossed": each use
//! leaves an event and waits for the earlier uses that conflict with it (the happens-before edges
//! between streams). A read conflicts with writes, and a write conflicts with all uses.
//!
//! The per-thread default stream is one queue per thread, and only that thread can record an event
//! there. So each use on it records its event at once, and a buffer whose home it is counts as
//! crossed from the start. A use whose event cannot be recorded is an unfenced use, called a
//! [stray](Strays).
//!
//! A use keeps its stream alive, so a stream may be dropped while it has work.
//!
//! Memory that a [graph](crate::Graph) holds is also used by replays of that graph, which take no
//! borrows. So every other use of it takes the slow path: it enters the [gate](Gate) of its
//! context, a lock that excludes replays, and checks the [records](Record) of the replays.
//!
//! A copy between contexts is the only use from another context. It is recorded like any other use
//! and keeps its context alive. Streams of all contexts can wait for its event.

mod access;
mod held;
mod lent;
mod record;
mod release;
mod strays;
mod uses;

pub(crate) use access::{Access, Scope, matters};
pub(crate) use record::Record;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::context::KeptContext;
use crate::error::{DriverError, Result};
use crate::fence::Fence;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::stream::Stream;
use crate::stream_state::Kind;
use held::Estate;
use uses::{Removed, Use};

#[cfg(test)]
mod tests;

/// The uses of one buffer that later uses may have to wait for.
pub(crate) struct Tracker {
    /// The id of `home`, cached.
    home_id: u64,
    /// Whether the buffer was ever used on a stream other than its home.
    crossed: Crossed,
    /// Set once a graph has held the memory. Implies `crossed`; both stay set for this owner.
    is_held: AtomicBool,
    /// The epoch of the last unrecorded use on the home stream. It only grows.
    home_epoch: AtomicU64,
    /// Declared before `home`: `home` keeps the context alive, so it is dropped last.
    uses: Mutex<Uses, { rank::TRACKER }>,
    home: Stream,
}

/// The uses and the home that a tracker gives up when its memory moves, in drop order. To be
/// dropped without a lock, because dropping them can call the driver.
pub(crate) struct Former(#[allow(dead_code, reason = "only dropped")] (Uses, Option<Stream>));

/// The state that the lock of a tracker guards.
#[derive(Default)]
struct Uses {
    list: Vec<Use>,
    /// `None` until a graph holds the memory.
    estate: Option<Box<Estate>>,
}

/// Whether a buffer was ever used on a stream other than its home, and if not, the id of its home.
/// It is one word, so that a use on the home stream needs one load.
struct Crossed(AtomicU64);

impl Crossed {
    /// The value of a crossed buffer. It is never the id of a stream.
    const YES: u64 = 0;

    fn not(home: u64) -> Self {
        Self(AtomicU64::new(home))
    }

    fn from_birth() -> Self {
        Self(AtomicU64::new(Self::YES))
    }

    #[inline]
    fn is_only_used_on(&self, stream: u64) -> bool {
        self.0.load(Ordering::Acquire) == stream
    }

    fn get(&self) -> bool {
        self.is_only_used_on(Self::YES)
    }

    /// Marks the buffer as crossed. Returns whether it was crossed before.
    fn cross(&self) -> bool {
        self.0.swap(Self::YES, Ordering::AcqRel) == Self::YES
    }

    /// Marks the buffer as used only on `home`, which has waited for all other uses.
    fn undo(&self, home: u64) {
        self.0.store(home, Ordering::Release);
    }
}

/// Once a buffer has this many uses, complete ones are removed from the list.
const MANY: usize = 32;

impl Tracker {
    /// Creates a tracker for memory whose only uses so far are on `home`.
    pub(crate) fn new(home: &Stream) -> Self {
        let this = Self {
            home_id: home.state().id(),
            crossed: Crossed::not(home.state().id()),
            is_held: AtomicBool::new(false),
            home_epoch: AtomicU64::new(0),
            uses: Mutex::default(),
            home: home.clone(),
        };
        this.begin();
        this
    }

    /// Creates a tracker for host memory that only graphs use, and the host through guards. `home`
    /// only determines the context.
    pub(crate) fn of_host(home: &Stream) -> Arc<Self> {
        Arc::new(Self {
            home_id: home.state().id(),
            crossed: Crossed::from_birth(),
            is_held: AtomicBool::new(true),
            home_epoch: AtomicU64::new(0),
            uses: Mutex::default(),
            home: home.clone(),
        })
    }

    /// The stream on which the buffer is copied and freed.
    pub(crate) fn home(&self) -> &Stream {
        &self.home
    }

    /// Returns whether the order of the home stream is enough for a use on `stream`.
    #[inline]
    pub(crate) fn is_at_home(&self, stream: u64) -> bool {
        self.crossed.is_only_used_on(stream)
    }

    /// Returns whether a use on the home stream in `epoch` leaves nothing to record.
    #[inline]
    pub(crate) fn is_noted(&self, stream: u64, epoch: u64) -> bool {
        self.is_at_home(stream) && self.home_epoch.load(Ordering::Relaxed) >= epoch
    }

    /// Acquires the memory for a use that is about to be queued: makes the stream of `scope` wait
    /// for all earlier uses that conflict with `access`. Fails with
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the buffer belongs to another
    /// context.
    #[inline]
    pub(crate) fn before(&self, scope: &Scope<'_>, access: Access) -> Result<()> {
        if self.is_at_home(scope.id) && !access.signal {
            return Ok(());
        }
        scope
            .stream
            .expect_context(self.home.context(), "a buffer")?;
        Ok(self.order(scope, access)?)
    }

    /// Does the same as [`before`](Self::before) for a copy on a stream of another context. Fails
    /// with [`Error::OtherContext`](crate::Error::OtherContext) if the buffer belongs to another
    /// driver.
    pub(crate) fn before_peer(&self, scope: &Scope<'_>, access: Access) -> Result<()> {
        let driver = scope.stream.driver();
        driver.expect_handles_of(self.home.context().driver(), "a buffer")?;
        Ok(self.order(scope, access)?)
    }

    #[cold]
    fn order(&self, scope: &Scope<'_>, access: Access) -> Result<(), DriverError> {
        scope.ready()?;
        loop {
            self.settle_before(scope, access)?;
            if self.is_held() {
                // Excludes replays until the use is recorded.
                scope.enter();
            }
            match self.order_alone(scope, access) {
                // Another thread added a stray after the wait.
                Err(error) if strays::is_told_by(&error) && !scope.is_inside() => {}
                result => return result,
            }
        }
    }

    /// One attempt of `order`, after the strays were settled. Fails with [`strays::error`] if there
    /// is an incomplete stray again. Other callers have exclusive access to the memory, so for them
    /// there is none.
    fn order_alone(&self, scope: &Scope<'_>, access: Access) -> Result<(), DriverError> {
        // Declared before the guard, so that it is dropped after the lock is released.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        if !self.crossed.get() {
            // Uses on the home stream were not recorded, so one placeholder represents all of them.
            // A placeholder of an earlier attempt is replaced: its use may have failed, and the
            // home stream may have more work since.
            removed.extend(uses.list.drain(..));
            uses.list.push(Use::at_home(&self.home, true));
        }
        self.order_list(&mut uses.list, scope, access)?;
        for estate in uses.estate.iter() {
            for user in estate.users_against(access) {
                user.record.order_before(scope, self.home.context())?;
            }
        }
        Ok(())
    }

    /// Makes the stream of `scope` wait for those of `uses` that conflict with `access`.
    fn order_list(
        &self,
        uses: &mut [Use],
        scope: &Scope<'_>,
        access: Access,
    ) -> Result<(), DriverError> {
        let home_epoch = self.home_epoch.load(Ordering::Acquire);
        for earlier in uses.iter_mut().filter(|earlier| earlier.matters_to(access)) {
            earlier.order_before(scope, self.home.context(), home_epoch)?;
        }
        Ok(())
    }

    /// Commits a use that was queued on the stream of `scope`.
    ///
    /// Cannot fail: without an event, later uses wait for the tail of the stream.
    #[inline]
    pub(crate) fn after(&self, scope: &mut Scope<'_>, access: Access) {
        if !self.is_at_home(scope.id) || access.signal {
            return self.note(scope, access);
        }
        let epoch = scope.epoch();
        if self.home_epoch.load(Ordering::Relaxed) < epoch {
            // `fetch_max`: another thread may use the buffer on its home stream at the same time,
            // and have read a later epoch.
            self.home_epoch.fetch_max(epoch, Ordering::AcqRel);
        }
    }

    #[cold]
    fn note(&self, scope: &mut Scope<'_>, access: Access) {
        // Declared before the guard, so that it is dropped after the lock is released.
        let mut removed = Removed::new();
        let mut guard = self.lock();
        if self.is_held() {
            // Lock order: the gate comes before the tracker. A graph may have started to hold the
            // memory since the use was queued.
            drop(guard);
            scope.enter();
            guard = self.lock();
        }
        let Uses { list: uses, estate } = &mut *guard;
        let mut this = Use::late(scope, access.write, access.signal);
        if scope.stream.context() != self.home.context() {
            this.elsewhere = Some(KeptContext::new(scope.stream.context()));
        }
        // The event is recorded under this lock, or with exclusive access to the buffer. Either way
        // it comes after every use that is already in the list.
        let mut is_last = !scope.has_event() || access == Access::WRITE;
        let has_crossed = self.crossed.cross();
        if !has_crossed && access != Access::WRITE {
            // Since `order`, other threads may have made unrecorded uses on the home stream.
            uses.push(Use::at_home(&self.home, access.part));
        }
        // The first use on another stream gets an event only once something waits for it. A use
        // that waits for the program, or on a stream where other threads cannot record, gets its
        // event now.
        let is_late = !has_crossed && !access.signal;
        let is_per_thread = scope.stream.state().kind() == Kind::PerThread;
        if !is_late || is_per_thread {
            this.event = scope.event();
        }
        let id = this.id;
        // A write represents everything that its stream has waited for before the write's event,
        // except if it is a signal: later signals do not wait for it.
        let stands_for_waited = access.write && !access.signal && (is_last || this.event.is_none());
        let is_replaced = |earlier: &mut Use| {
            if earlier.id != id {
                return stands_for_waited && earlier.waited.contains(&id) && !earlier.is_open();
            }
            if earlier.write && !access.write || access.signal && !earlier.signal {
                return false;
            }
            this.epoch = this.epoch.max(earlier.epoch);
            this.is_home |= earlier.is_home;
            // One entry represents both uses, with the later of their events: another thread may
            // have queued the earlier entry's use after this one.
            if !is_last && let Some(ours) = &this.event {
                match earlier.event.as_ref().filter(|_| !earlier.is_open()) {
                    Some(theirs) if theirs.is_after(ours) => this.event = Some(theirs.clone()),
                    Some(_) => {}
                    None => {
                        this.event = scope.tail();
                        is_last = true;
                    }
                }
            }
            true
        };
        removed.extend(uses.extract_if(.., is_replaced));
        // Only now is it known whether the use has an event.
        this.note_stray(scope.stream.context());
        uses.push(this);
        // A buffer that is only read accumulates one use per stream.
        if uses.len() >= MANY && uses.len().is_power_of_two() {
            removed.extend(uses.extract_if(.., |earlier| earlier.is_done()));
        }
        for estate in estate.iter() {
            for user in estate.users_against(access) {
                user.record.soil(user.slot);
            }
        }
    }

    /// Prepares the free of the memory on its home stream: makes that stream wait for every use.
    pub(crate) fn before_free(&self) -> Result<(), DriverError> {
        let scope = Scope::new(&self.home);
        if self.is_at_home(scope.id) {
            return Ok(());
        }
        scope.ready()?;
        self.settle(Access::WRITE)?;
        self.order_alone(&scope, Access::WRITE)
    }

    /// Blocks the calling thread until the uses that conflict with `access` are complete.
    pub(crate) fn synchronize(&self, access: Access) -> Result<(), DriverError> {
        let (home, context) = (self.home.state(), self.home.context());
        let home_epoch = self.home_epoch.load(Ordering::Acquire);
        if !self.crossed.get() {
            if home.epoch() == home_epoch {
                return home.synchronize(context);
            }
            return match home.behind(context, home_epoch)? {
                Some((event, _)) => event.synchronize(),
                None => Ok(()),
            };
        }
        let events = loop {
            self.settle(access)?;
            match self.events_behind(access, home_epoch) {
                // Another thread added a stray after the wait.
                Err(error) if strays::is_told_by(&error) => {}
                events => break events?,
            }
        };
        // The lock is released: other threads may queue reads during the wait.
        for (event, _context) in events {
            event.synchronize()?;
        }
        Ok(())
    }

    /// Returns the events after the uses that conflict with `access`, each with its context unless
    /// that is the home context.
    fn events_behind(
        &self,
        access: Access,
        home_epoch: u64,
    ) -> Result<Vec<(Fence, Option<KeptContext>)>, DriverError> {
        let context = self.home.context();
        let mut events = Vec::new();
        let mut uses = self.lock();
        for earlier in uses.list.iter_mut().filter(|it| it.matters_to(access)) {
            earlier.refresh(home_epoch);
            let event = earlier.behind(context)?;
            events.extend(event.map(|event| (event, earlier.elsewhere.clone())));
        }
        for estate in uses.estate.iter() {
            for user in estate.users_against(access) {
                let event = user.record.event(context)?;
                events.extend(event.map(|event| (event, None)));
            }
        }
        Ok(events)
    }

    /// Hands the memory over to its next owner: makes `home` wait for all uses, and forgets them.
    /// On failure nothing changes.
    pub(crate) fn hand_over(this: &mut Arc<Self>, home: &Stream) -> Result<(), DriverError> {
        if let Some(own) = Arc::get_mut(this) {
            return own.hand_over_own(home);
        }
        // Another thread has a reference to the tracker, but no longer uses the memory.
        let scope = Scope::new(home);
        scope.ready()?;
        this.settle(Access::WRITE)?;
        this.order_alone(&scope, Access::WRITE)?;
        *this = Arc::new(Self::new(home));
        Ok(())
    }

    fn hand_over_own(&mut self, home: &Stream) -> Result<(), DriverError> {
        if home.state().id() == self.home_id && !self.crossed.get() {
            return Ok(());
        }
        let scope = Scope::new(home);
        scope.ready()?;
        self.settle(Access::WRITE)?;
        self.order_alone(&scope, Access::WRITE)?;
        drop(self.move_to(home));
        Ok(())
    }

    /// Hands the memory over if none of its uses is pending; otherwise returns `None` and changes
    /// nothing.
    ///
    /// If the caller holds a lock, it has to drop the result after releasing that lock.
    pub(crate) fn hand_over_if_idle(this: &mut Arc<Self>, home: &Stream) -> Option<Former> {
        Arc::get_mut(this)?.hand_over_own_if_idle(home)
    }

    fn hand_over_own_if_idle(&mut self, home: &Stream) -> Option<Former> {
        let context = self.home.context();
        let home_epoch = *self.home_epoch.get_mut();
        let is_idle = if self.crossed.get() {
            self.lock().list.iter_mut().all(|earlier| {
                earlier.refresh(home_epoch);
                earlier.is_done_on(context)
            })
        } else {
            self.home.state().is_done(context)
        };
        is_idle.then(|| self.move_to(home))
    }

    /// Forgets all uses and makes `home` the home stream. Returns the former state.
    fn move_to(&mut self, home: &Stream) -> Former {
        let uses = mem::take(&mut *self.lock());
        *self.is_held.get_mut() = false;
        let id = home.state().id();
        self.crossed.undo(id);
        let mut former = Former((uses, None));
        if id != self.home_id {
            self.home_id = id;
            former.0.1 = Some(mem::replace(&mut self.home, home.clone()));
        }
        self.begin();
        former
    }

    /// Starts tracking with the work that is on `home` so far.
    fn begin(&self) {
        let state = self.home.state();
        self.home_epoch.store(state.epoch(), Ordering::Release);
        if state.kind() == Kind::PerThread {
            let mut scope = Scope::new(&self.home);
            self.crossed.cross();
            let mut so_far = Use::late(&scope, true, false);
            so_far.event = scope.event();
            so_far.note_stray(self.home.context());
            self.lock().list.push(so_far);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock()
    }
}
