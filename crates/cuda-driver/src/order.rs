//! Dependency tracking: what makes a buffer safe to use on several streams.
//!
//! Every buffer has a home stream. While the buffer is used on no other stream, the order of that
//! stream is enough, and nothing is recorded: a use costs one comparison and two loads. The first
//! use on another stream makes that stream wait for the tail of the home stream, or for the
//! checkpoint behind the last use there. From then on each use leaves an event, and a use waits for
//! the earlier uses that conflict with it: a read waits for writes, a write waits for everything.
//!
//! The per-thread default stream is one queue per thread, and only that thread can record an event
//! there. So each use on it records its event at once, and a buffer whose home it is counts as used
//! elsewhere from the start. A use whose event cannot be recorded is a [stray](Strays).
//!
//! A use keeps its stream alive, so a stream may be dropped with work in it.
//!
//! Memory that a [graph](crate::Graph) holds is also used by replays of that graph, which borrow
//! nothing. So every other use of it takes the slow path, inside the [gate](Gate) of its context,
//! and looks at the [records](Record) of the replays.
//!
//! A copy between contexts is the only use from another context. It is recorded like any other use
//! and keeps its context alive. Streams of all contexts can wait for its event.

mod access;
mod gate;
mod held;
mod lent;
mod record;
mod release;
mod strays;
mod uses;

pub(crate) use access::{Access, Scope, matters};
pub(crate) use gate::{Entered, Gate};
pub(crate) use held::Held;
pub(crate) use record::Record;
pub(crate) use strays::Strays;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::context::KeptContext;
use crate::error::{DriverError, Result};
use crate::event::UseEvent;
use crate::lock::{Mutex, MutexGuard, rank};
use crate::planted::Fault;
use crate::stream::{Kind, Stream};
use held::Estate;
use uses::{Removed, Use};

#[cfg(test)]
mod tests;

/// The uses of one buffer that later uses may have to wait for.
pub(crate) struct Tracker {
    /// The identity of `home`, at hand.
    home_id: u64,
    /// Whether the buffer was ever used on another stream than its home.
    crossed: Crossed,
    /// Whether a graph ever held the memory. Then it is `crossed`, and neither goes back as long as
    /// it has this owner.
    is_held: AtomicBool,
    /// The epoch of the home stream in which the last use was queued that left no trace. Only
    /// grows.
    home_epoch: AtomicU64,
    /// Before `home`: what it holds goes before the context that `home` keeps alive.
    uses: Mutex<Uses, { rank::TRACKER }>,
    home: Stream,
}

/// The uses and the home that a tracker forgets when its memory moves, in the order in which they
/// are dropped. Dropped without a lock.
pub(crate) struct Former(#[allow(dead_code, reason = "only dropped")] (Uses, Option<Stream>));

/// The state of a tracker that its lock guards.
#[derive(Default)]
struct Uses {
    list: Vec<Use>,
    /// `None` as long as no graph holds the memory.
    estate: Option<Box<Estate>>,
}

/// Whether a buffer was ever used on another stream than its home, and if not, which that is: in
/// one word, so that a use at home asks once.
struct Crossed(AtomicU64);

impl Crossed {
    /// No stream has this identity.
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

    /// Notes that it was; whether that was known.
    fn cross(&self) -> bool {
        self.0.swap(Self::YES, Ordering::AcqRel) == Self::YES
    }

    /// All uses are over, and `home` has the memory.
    fn undo(&self, home: u64) {
        self.0.store(home, Ordering::Release);
    }
}

/// So many uses of a buffer are looked through for those that are done.
const MANY: usize = 32;

impl Tracker {
    /// Of memory that was just allocated on `home`, or that nothing uses elsewhere.
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

    /// Of host memory that only graphs use, and the host through guards. `home` only names the
    /// context.
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

    /// Whether the order of the home stream is all that a use on `stream` needs.
    #[inline]
    pub(crate) fn is_at_home(&self, stream: u64) -> bool {
        self.crossed.is_only_used_on(stream)
    }

    /// Whether a use at home in `epoch` leaves nothing to note.
    #[inline]
    pub(crate) fn is_noted(&self, stream: u64, epoch: u64) -> bool {
        self.is_at_home(stream) && self.home_epoch.load(Ordering::Relaxed) >= epoch
    }

    /// Before a use on the stream of `scope`: makes that stream wait for the uses that matter to
    /// `access`.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext), or what the driver answers.
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

    /// The same for a copy on a stream of another context of the same driver.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if it is of another driver, or what the
    /// driver answers.
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
                // Until the use is noted no replay comes in between.
                scope.enter();
            }
            match self.order_alone(scope, access) {
                // Another thread's use came since the wait.
                Err(error) if strays::is_told_by(&error) && !scope.is_inside() => {}
                result => return result,
            }
        }
    }

    /// The same where nobody else can use the memory, or the gate is entered.
    fn order_alone(&self, scope: &Scope<'_>, access: Access) -> Result<(), DriverError> {
        // Declared before the guard, so that it is dropped after it.
        let mut removed = Removed::new();
        let mut uses = self.lock();
        if !self.crossed.get() {
            // Uses at home left no trace, so one stands for all of them. (Not kept from an earlier
            // attempt: its use may have failed, and the home stream went on.)
            removed.extend(uses.list.drain(..));
            if !Fault::HomeTailIgnored.is_planted() {
                uses.list.push(Use::at_home(&self.home, true));
            }
        }
        self.order_list(&mut uses.list, scope, access)?;
        for estate in uses.estate.iter() {
            for user in estate.users_against(access) {
                user.record.order_before(scope, self.home.context())?;
            }
        }
        Ok(())
    }

    /// Makes the stream of `scope` wait for those of `uses` that matter to `access`.
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

    /// After a use was queued on the stream of `scope`.
    ///
    /// Cannot fail: where no event can be recorded, the tail of the stream stands for the use.
    #[inline]
    pub(crate) fn after(&self, scope: &mut Scope<'_>, access: Access) {
        if !self.is_at_home(scope.id) || access.signal {
            return self.note(scope, access);
        }
        let epoch = scope.epoch();
        if self.home_epoch.load(Ordering::Relaxed) < epoch && !Fault::EpochNotKept.is_planted() {
            // Others may use it at home at the same time, and have read a later epoch.
            self.home_epoch.fetch_max(epoch, Ordering::AcqRel);
        }
    }

    #[cold]
    fn note(&self, scope: &mut Scope<'_>, access: Access) {
        if Fault::ReaderLost.is_planted() && !access.write && !access.signal {
            return;
        }
        // Declared before the guard, so that it is dropped after it.
        let mut removed = Removed::new();
        let mut guard = self.lock();
        if self.is_held() {
            // The gate comes before the lock. It may be held only since the use was queued.
            drop(guard);
            scope.enter();
            guard = self.lock();
        }
        let Uses { list: uses, estate } = &mut *guard;
        let write = access.write && !(Fault::PartWriteLost.is_planted() && access.part);
        let mut this = Use::late(scope, write, access.signal);
        if scope.stream.context() != self.home.context() {
            this.elsewhere = Some(KeptContext::new(scope.stream.context()));
        }
        // Recorded under the lock, or alone with the buffer: behind every use that is noted here
        // already.
        let mut is_last = !scope.has_event() || access == Access::WRITE;
        let has_crossed = self.crossed.cross();
        if !has_crossed && access != Access::WRITE {
            // Other threads may have used the buffer at home since `order`, and left no trace.
            uses.push(Use::at_home(&self.home, access.part));
        }
        // The use that crosses is recorded only if somebody waits for it. One that waits for the
        // program, or that others cannot record, is recorded now.
        let is_late = !has_crossed && !access.signal;
        let is_per_thread = scope.stream.state().kind() == Kind::PerThread;
        if !is_late || is_per_thread && !Fault::PerThreadLate.is_planted() {
            this.event = scope.event();
        }
        if Fault::LateUseLost.is_planted() && this.event.is_none() {
            return;
        }
        let id = this.id;
        // A write stands for everything that its stream has waited for before its event; not one
        // that later ones of its kind do not wait for.
        let stands_for_waited = access.write && !access.signal && (is_last || this.event.is_none());
        let is_replaced = |earlier: &mut Use| {
            if earlier.id != id {
                let is_covered =
                    earlier.waited.contains(&id) || Fault::OthersForgotten.is_planted();
                return stands_for_waited && is_covered && !earlier.is_open();
            }
            if earlier.write && !access.write || access.signal && !earlier.signal {
                return false;
            }
            if Fault::WaitedKept.is_planted() {
                this.waited.extend_from_slice(&earlier.waited);
            }
            this.epoch = this.epoch.max(earlier.epoch);
            this.is_home |= earlier.is_home;
            // One use stands for both, and the later event for it: another thread may have queued
            // the earlier one after this one.
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
        // Now that its event is known, or that there is none.
        this.note_stray(scope.stream.context());
        uses.push(this);
        // A buffer that is only read gathers a use for each stream.
        if uses.len() >= MANY && uses.len().is_power_of_two() {
            removed.extend(uses.extract_if(.., |earlier| earlier.is_done()));
        }
        if Fault::CrossedReset.is_planted() && id == self.home_id {
            self.crossed.undo(self.home_id);
        }
        for estate in estate.iter() {
            for user in estate.users_against(access) {
                user.record.soil(user.slot);
            }
        }
    }

    /// Before the memory is freed on its home stream: makes it wait for every use.
    pub(crate) fn before_free(&self) -> Result<(), DriverError> {
        let scope = Scope::new(&self.home);
        if self.is_at_home(scope.id) || Fault::FreedTooEarly.is_planted() {
            return Ok(());
        }
        scope.ready()?;
        self.settle(Access::WRITE)?;
        self.order_alone(&scope, Access::WRITE)
    }

    /// Makes the calling thread wait for the uses that matter to `access`.
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
                // Another thread's use came since the wait.
                Err(error) if strays::is_told_by(&error) => {}
                events => break events?,
            }
        };
        // The lock is released: other threads may queue reads meanwhile.
        for (event, _context) in events {
            event.synchronize()?;
        }
        Ok(())
    }

    /// Returns the events behind the uses that matter to `access`, each with the context that it
    /// belongs to unless that is the home context.
    fn events_behind(
        &self,
        access: Access,
        home_epoch: u64,
    ) -> Result<Vec<(UseEvent, Option<KeptContext>)>, DriverError> {
        let context = self.home.context();
        let mut events = Vec::new();
        let mut uses = self.lock();
        for earlier in uses.list.iter_mut().filter(|it| it.matters_to(access)) {
            earlier.refresh(home_epoch);
            let event = earlier.behind(self.home.state(), context)?;
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

    /// For the next owner of the memory: makes `home` wait for all uses, and nothing is remembered
    /// of them. If that fails all is as it was.
    pub(crate) fn hand_over(this: &mut Arc<Self>, home: &Stream) -> Result<(), DriverError> {
        if let Some(own) = Arc::get_mut(this) {
            return own.hand_over_own(home);
        }
        // Another thread still has a handle of the tracker, though nothing to do with the memory
        // any more.
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
        if !Fault::HandedOverTooEarly.is_planted() {
            let scope = Scope::new(home);
            scope.ready()?;
            self.settle(Access::WRITE)?;
            self.order_alone(&scope, Access::WRITE)?;
        }
        drop(self.move_to(home));
        Ok(())
    }

    /// Hands the memory over if no use of it is pending; otherwise returns `None` and changes
    /// nothing.
    ///
    /// The caller may hold a lock: it drops the result after that lock is released.
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
        (is_idle || Fault::HandedOverTooEarly.is_planted()).then(|| self.move_to(home))
    }

    /// Forgets all uses; the next ones are on `home`. Returns what it had until now.
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

    /// Notes that all so far was on `home`.
    fn begin(&self) {
        let state = self.home.state();
        self.home_epoch.store(state.epoch(), Ordering::Release);
        if state.kind() == Kind::PerThread && !Fault::PerThreadLate.is_planted() {
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
