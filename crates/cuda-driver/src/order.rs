//! Order across streams: what makes a buffer safe to use on several streams.
//!
//! A buffer has a home stream. As long as it is used on no other, the order of that stream is all that is
//! needed, and nothing is recorded: one comparison and one load for each use. The first use on another stream makes
//! that stream wait for the tail of the home stream; from then on each use leaves an event, and a use waits for
//! the uses that matter to it: a read for the writes, a write for everything.
//!
//! A use keeps the stream it ran on alive, so a stream may be dropped with work in it.
//!
//! The one use from another context is a copy between contexts. It is noted like any other, and keeps its context
//! alive; its event is one of the context of its stream, which streams of all contexts can wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::context::Context;
use crate::error::{DriverError, Result};
use crate::event::UseEvent;
use crate::planted::Fault;
use crate::stream::{Stream, StreamState};

#[cfg(test)]
mod tests;

/// What a use does to a buffer, and what other uses the borrow checker allows at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    write: bool,
    /// Another part of the buffer may be written at the same time: it was split.
    part: bool,
}

impl Access {
    /// Through a shared borrow of the buffer: others may read it, nobody writes.
    pub(crate) const READ: Self = Self {
        write: false,
        part: false,
    };
    /// Through an exclusive borrow of the buffer.
    pub(crate) const WRITE: Self = Self {
        write: true,
        part: false,
    };

    /// The same, of a part of a buffer that was split.
    pub(crate) const fn of_part(self) -> Self {
        Self {
            write: self.write,
            part: true,
        }
    }
}

/// The uses of one buffer that later uses may have to wait for.
pub(crate) struct Tracker {
    /// The identity of `home`, at hand.
    home_id: u64,
    /// Whether the buffer was ever used on another stream than its home. Never goes back.
    crossed: AtomicBool,
    /// Before `home`: what it holds goes before the context that `home` keeps alive.
    uses: Mutex<Vec<Use>>,
    home: Stream,
}

/// A use of the buffer on a stream.
struct Use {
    stream: Arc<StreamState>,
    write: bool,
    /// Behind the use. `None`: not recorded yet, so the tail of the stream stands for it.
    event: Option<UseEvent>,
    /// The streams that have waited for `event`.
    waited: Vec<u64>,
    /// The context of `stream`, if it is not that of the buffer. After `stream` and `event`, which go before it.
    elsewhere: Option<Context>,
}

/// So many uses of a buffer are looked through for those that are done.
const MANY: usize = 32;

/// The uses that one call makes: a launch, or a copy. They share one event.
pub(crate) struct Scope<'a> {
    stream: &'a Stream,
    /// The identity of `stream`, at hand.
    id: u64,
    event: Option<UseEvent>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Self {
            stream,
            id: stream.state().id(),
            event: None,
        }
    }

    /// The event behind what the scope has queued; `None` if it cannot be recorded, which leaves the stream's tail.
    fn event(&mut self) -> Option<UseEvent> {
        if self.event.is_none() {
            self.event = self.tail();
        }
        self.event.clone()
    }

    fn tail(&self) -> Option<UseEvent> {
        UseEvent::record(self.stream.context(), self.stream.state()).ok()
    }
}

impl Use {
    /// For which the tail of `stream` stands.
    fn late(stream: &Arc<StreamState>, write: bool) -> Self {
        Self {
            stream: Arc::clone(stream),
            write,
            event: None,
            waited: Vec::new(),
            elsewhere: None,
        }
    }

    /// Whether nobody needs to wait for it any more.
    fn is_done(&self) -> bool {
        self.event.as_ref().is_some_and(UseEvent::is_done)
    }

    /// Makes `stream` wait for this use, unless it is its own or has waited already. `home` is the buffer's context.
    fn order_before(&mut self, stream: &Stream, home: &Context) -> Result<(), DriverError> {
        let id = stream.state().id();
        if self.stream.id() == id || self.waited.contains(&id) {
            return Ok(());
        }
        let context = self.elsewhere.as_ref().unwrap_or(home);
        if context.driver().is_gone() {
            // Its owner destroyed it, and so all that ran in it.
            return Ok(());
        }
        let event = match &self.event {
            Some(event) => event,
            None => {
                let at = if Fault::EventOnOtherStream.is_planted() {
                    stream.state()
                } else {
                    &self.stream
                };
                self.event.insert(UseEvent::record(context, at)?)
            }
        };
        stream.state().wait(event.raw())?;
        self.waited.push(id);
        Ok(())
    }
}

impl Tracker {
    pub(crate) fn new(home: &Stream) -> Self {
        Self {
            home_id: home.state().id(),
            crossed: AtomicBool::new(false),
            uses: Mutex::default(),
            home: home.clone(),
        }
    }

    /// The stream on which the buffer is copied and freed.
    pub(crate) fn home(&self) -> &Stream {
        &self.home
    }

    /// Whether the order of the home stream is all that a use in `scope` needs.
    #[inline]
    fn is_at_home(&self, scope: &Scope<'_>) -> bool {
        self.home_id == scope.id && !self.crossed.load(Ordering::Acquire)
    }

    /// Before a use on the stream of `scope`: makes that stream wait for the uses that matter to `access`.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext), or what the driver answers.
    #[inline]
    pub(crate) fn before(&self, scope: &Scope<'_>, access: Access) -> Result<()> {
        if self.is_at_home(scope) {
            return Ok(());
        }
        scope
            .stream
            .expect_context(self.home.context(), "a buffer")?;
        Ok(self.order(scope.stream, access)?)
    }

    /// The same for a copy on a stream of another context of the same driver.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if it is of another driver, or what the driver answers.
    pub(crate) fn before_peer(&self, scope: &Scope<'_>, access: Access) -> Result<()> {
        let driver = scope.stream.driver();
        driver.expect_handles_of(self.home.context().driver(), "a buffer")?;
        Ok(self.order(scope.stream, access)?)
    }

    #[cold]
    fn order(&self, stream: &Stream, access: Access) -> Result<(), DriverError> {
        let mut uses = self.lock();
        if !self.crossed.load(Ordering::Acquire) {
            // Uses at home left no trace: the tail of the home stream stands for all of them. (Not kept from an
            // earlier attempt: its use may have failed, and the home stream went on.)
            uses.clear();
            if !Fault::HomeTailIgnored.is_planted() {
                uses.push(Use::late(self.home.state(), true));
            }
        }
        for earlier in uses.iter_mut() {
            let matters = if earlier.write {
                !Fault::WriterNotAwaited.is_planted()
            } else {
                access.write && !Fault::ReadersNotAwaited.is_planted()
            };
            if matters {
                earlier.order_before(stream, self.home.context())?;
            }
        }
        Ok(())
    }

    /// After a use was queued on the stream of `scope`.
    ///
    /// Cannot fail: where no event can be recorded, the tail of the stream stands for the use.
    #[inline]
    pub(crate) fn after(&self, scope: &mut Scope<'_>, access: Access) {
        if !self.is_at_home(scope) {
            self.note(scope, access);
        }
    }

    #[cold]
    fn note(&self, scope: &mut Scope<'_>, access: Access) {
        if Fault::ReaderLost.is_planted() && !access.write {
            return;
        }
        let mut uses = self.lock();
        let write = access.write && !(Fault::PartWriteLost.is_planted() && access.part);
        let mut this = Use::late(scope.stream.state(), write);
        if scope.stream.context() != self.home.context() {
            this.elsewhere = Some(scope.stream.context().clone());
        }
        // Recorded under the lock, or alone with the buffer: behind every use that is noted here already.
        let mut is_last = scope.event.is_none() || access == Access::WRITE;
        if self.crossed.swap(true, Ordering::AcqRel) {
            this.event = scope.event();
        } else if access != Access::WRITE {
            // The use that crosses is recorded only if somebody waits for it. Other threads may have used the
            // buffer at home since `order`, and left no trace: the tail of the home stream stands for them.
            uses.push(Use::late(self.home.state(), access.part));
        }
        if Fault::LateUseLost.is_planted() && this.event.is_none() {
            return;
        }
        let id = this.stream.id();
        // A write stands for everything that its stream has waited for before its event.
        let stands_for_waited = access.write && (is_last || this.event.is_none());
        uses.retain(|earlier| {
            if earlier.stream.id() != id {
                let is_covered =
                    earlier.waited.contains(&id) || Fault::OthersForgotten.is_planted();
                return !(stands_for_waited && is_covered);
            }
            if earlier.write && !access.write {
                return true;
            }
            if Fault::WaitedKept.is_planted() {
                this.waited.extend_from_slice(&earlier.waited);
            }
            // One use stands for both, and the later event for it: another thread may have queued the earlier
            // one after this one.
            if !is_last && let Some(ours) = &this.event {
                match &earlier.event {
                    Some(theirs) if theirs.is_after(ours) => this.event = Some(theirs.clone()),
                    Some(_) => {}
                    None => {
                        this.event = scope.tail();
                        is_last = true;
                    }
                }
            }
            false
        });
        uses.push(this);
        // A buffer that is only read gathers a use for each stream.
        if uses.len() >= MANY && uses.len().is_power_of_two() {
            uses.retain(|earlier| !earlier.is_done());
        }
        if Fault::CrossedReset.is_planted() && id == self.home_id {
            self.crossed.store(false, Ordering::Release);
        }
    }

    /// Before the memory is freed on its home stream: makes it wait for every use.
    pub(crate) fn before_free(&self) -> Result<(), DriverError> {
        if self.is_at_home(&Scope::new(&self.home)) || Fault::FreedTooEarly.is_planted() {
            return Ok(());
        }
        self.order(&self.home, Access::WRITE)
    }

    /// Makes the calling thread wait for the uses that matter to `access`.
    pub(crate) fn synchronize(&self, access: Access) -> Result<(), DriverError> {
        if !self.crossed.load(Ordering::Acquire) {
            return self.home.state().synchronize();
        }
        let mut events = Vec::new();
        let mut tails = Vec::new();
        for earlier in self.lock().iter().filter(|it| it.write || access.write) {
            match &earlier.event {
                Some(event) => events.push(event.clone()),
                None => tails.push(Arc::clone(&earlier.stream)),
            }
        }
        // The lock is free: others may queue reads meanwhile.
        for event in events {
            event.synchronize()?;
        }
        for tail in tails {
            tail.synchronize()?;
        }
        Ok(())
    }

    /// For the next owner of the memory: makes `home` wait for all uses, and nothing is remembered of them. If that
    /// fails all is as it was.
    pub(crate) fn hand_over(&mut self, home: &Stream) -> Result<(), DriverError> {
        if home.state().id() == self.home_id && !*self.crossed.get_mut() {
            return Ok(());
        }
        if !Fault::HandedOverTooEarly.is_planted() {
            self.order(home, Access::WRITE)?;
        }
        self.move_to(home);
        Ok(())
    }

    /// The same if nobody needs to wait; otherwise all is as it was.
    pub(crate) fn hand_over_if_idle(&mut self, home: &Stream) -> bool {
        let is_idle = if *self.crossed.get_mut() {
            self.lock().iter().all(|earlier| match &earlier.event {
                Some(event) => event.is_done(),
                None => earlier.stream.is_done(),
            })
        } else {
            self.home.state().is_done()
        };
        if is_idle || Fault::HandedOverTooEarly.is_planted() {
            self.move_to(home);
            return true;
        }
        false
    }

    /// Forgets all uses; the next ones are on `home`.
    fn move_to(&mut self, home: &Stream) {
        self.lock().clear();
        *self.crossed.get_mut() = false;
        let id = home.state().id();
        if id != self.home_id {
            self.home_id = id;
            self.home = home.clone();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Use>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
