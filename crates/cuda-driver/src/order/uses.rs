//! A use of a buffer, and how a stream is made to wait for it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Access, Scope, strays};
use crate::context::{Context, KeptContext};
use crate::error::DriverError;
use crate::event::UseEvent;
use crate::planted::Fault;
use crate::stream::{Kind, Stream, StreamState};

/// Uses that were taken off the list of a tracker or record. Dropping a use can call the driver, so
/// these are dropped only after the lock is released.
pub(super) type Removed = SmallVec<[Use; 1]>;

/// A use of the buffer on a stream.
pub(super) struct Use {
    pub(super) stream: Arc<StreamState>,
    /// Which queue that was.
    pub(super) id: u64,
    pub(super) write: bool,
    pub(super) signal: bool,
    /// Stands for all uses at home that left no trace: the tracker knows the epoch of the last one.
    pub(super) is_home: bool,
    /// The epoch of the stream that it was queued in, or an earlier one.
    pub(super) epoch: u64,
    /// Behind the use. `None`: not recorded yet.
    pub(super) event: Option<UseEvent>,
    /// Its number among the strays of its context, if it is one; 0 else.
    stray: u64,
    /// The last epoch that `event` stands behind.
    covers: u64,
    /// The streams that have waited for `event`.
    pub(super) waited: Vec<u64>,
    /// The context of `stream`, if it is not the context of the buffer. Declared after `stream` and
    /// `event`, so that it is dropped after them.
    pub(super) elsewhere: Option<KeptContext>,
}

impl Use {
    /// One that was just queued in `scope`, not recorded yet.
    pub(super) fn late(scope: &Scope<'_>, write: bool, signal: bool) -> Self {
        let stream = Arc::clone(scope.stream.state());
        Self {
            id: scope.id,
            write,
            signal,
            is_home: false,
            epoch: stream.epoch(),
            event: None,
            stray: 0,
            covers: u64::MAX,
            waited: Vec::new(),
            elsewhere: None,
            stream,
        }
    }

    /// Those at home that left no trace.
    pub(super) fn at_home(home: &Stream, write: bool) -> Self {
        let stream = Arc::clone(home.state());
        Self {
            id: stream.id(),
            write,
            signal: false,
            is_home: true,
            epoch: 0,
            event: None,
            stray: 0,
            covers: u64::MAX,
            waited: Vec::new(),
            elsewhere: None,
            stream,
        }
    }

    /// The same replay as a use of one buffer.
    pub(super) fn again(&self, write: bool) -> Self {
        Self {
            stream: Arc::clone(&self.stream),
            id: self.id,
            write,
            signal: false,
            is_home: false,
            epoch: self.epoch,
            event: self.event.clone(),
            stray: self.stray,
            covers: self.covers,
            waited: self.waited.clone(),
            elsewhere: self.elsewhere.clone(),
        }
    }

    /// Makes this the later use of the same stream that was just queued and is not recorded yet.
    /// Returns the event of the earlier one, to be dropped without a lock.
    pub(super) fn renew(&mut self) -> Option<UseEvent> {
        self.epoch = self.stream.epoch();
        self.stray = 0;
        self.covers = u64::MAX;
        self.waited.clear();
        self.event.take()
    }

    /// Notes that nothing tells when it is over, if that is so. It was queued in `context`.
    pub(super) fn note_stray(&mut self, context: &Context) {
        if self.is_stray() && self.stray == 0 {
            context.driver().note_stray();
            self.stray = context.strays().note();
        }
    }

    /// Whether nothing but the wait for its context tells when it is over.
    pub(super) fn is_stray(&self) -> bool {
        self.event.is_none() && self.stream.kind() == Kind::PerThread
    }

    /// Whether `access` has to wait for it.
    pub(super) fn matters_to(&self, access: Access) -> bool {
        if self.signal && access.signal {
            false
        } else if self.write {
            !Fault::WriterNotAwaited.is_planted()
        } else {
            access.write && !Fault::ReadersNotAwaited.is_planted()
        }
    }

    /// Whether nobody needs to wait for it any more.
    pub(super) fn is_done(&self) -> bool {
        !self.is_open() && self.event.as_ref().is_some_and(UseEvent::is_done)
    }

    /// Whether there may be uses at home behind its event that are not noted yet: threads queue
    /// them first.
    pub(super) fn is_open(&self) -> bool {
        self.is_home && self.event.is_some() && self.covers != u64::MAX
    }

    /// Makes the stream of `scope` wait for this use, unless it is its own or has waited already.
    /// `home` is the buffer's context, `home_epoch` that of the last use at home that left no
    /// trace.
    pub(super) fn order_before(
        &mut self,
        scope: &Scope<'_>,
        home: &Context,
        home_epoch: u64,
    ) -> Result<(), DriverError> {
        if self.id == scope.id {
            return Ok(());
        }
        self.refresh(home_epoch);
        if self.waited.contains(&scope.id) {
            return Ok(());
        }
        let Some(event) = self.behind(scope.stream.state(), home)? else {
            return Ok(());
        };
        let stream = scope.stream;
        stream.state().wait(stream.context(), event.raw())?;
        self.waited.push(scope.id);
        Ok(())
    }

    /// Forgets an event that does not stand behind all uses at home.
    pub(super) fn refresh(&mut self, home_epoch: u64) {
        if !self.is_home {
            return;
        }
        self.epoch = self.epoch.max(home_epoch);
        if self.covers < self.epoch {
            self.event = None;
            self.waited.clear();
        }
    }

    /// Whether it is known to be done, without recording anything.
    pub(super) fn is_done_on(&self, home: &Context) -> bool {
        let context = self.elsewhere.as_deref().unwrap_or(home);
        match &self.event {
            Some(event) => event.is_done(),
            None if self.is_stray() => context.strays().is_over(self.stray),
            None => self.stream.is_done(context),
        }
    }

    /// Returns the event to wait for, or `None` if the use is done. `waiting` is the stream that
    /// will wait.
    pub(super) fn behind(
        &mut self,
        waiting: &StreamState,
        home: &Context,
    ) -> Result<Option<UseEvent>, DriverError> {
        let context = self.elsewhere.as_deref().unwrap_or(home);
        if context.driver().is_gone() {
            // Its owner destroyed it, and so all that ran in it.
            return Ok(None);
        }
        if let Some(event) = &self.event {
            return Ok(Some(event.clone()));
        }
        if self.stream.kind() == Kind::PerThread && !Fault::PerThreadLate.is_planted() {
            // It could not be recorded when it was queued, and this may be another thread, where
            // the stream is another.
            if !context.strays().is_over(self.stray) {
                // The use was queued between the wait for the strays and the lock, or was not
                // listed as one. It is listed now, and the caller waits again.
                if self.stray == 0 {
                    context.driver().note_stray();
                    self.stray = context.strays().note();
                }
                return Err(strays::error(context));
            }
            return Ok(None);
        }
        let at: &StreamState = if Fault::EventOnOtherStream.is_planted() {
            waiting
        } else {
            &self.stream
        };
        let Some((event, covers)) = at.behind(context, self.epoch)? else {
            return Ok(None);
        };
        self.covers = covers;
        Ok(Some(self.event.insert(event).clone()))
    }
}
