//! A use of a buffer, and how a stream is made to wait for it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Access, Scope, strays};
use crate::context::{Context, KeptContext};
use crate::error::DriverError;
use crate::fence::Fence;
use crate::stream::Stream;
use crate::stream_state::{Kind, StreamState};

/// Uses that were removed from the list of a tracker or record. Dropping a use can call the driver,
/// so they have to be dropped after the lock is released.
pub(super) type Removed = SmallVec<[Use; 1]>;

/// A use of a buffer on a stream.
pub(super) struct Use {
    pub(super) stream: Arc<StreamState>,
    /// The id of the queue.
    pub(super) id: u64,
    pub(super) write: bool,
    pub(super) signal: bool,
    /// Whether this is a placeholder for all unrecorded uses on the home stream. The tracker knows
    /// the epoch of the last one.
    pub(super) is_home: bool,
    /// The epoch of the stream in which the use was queued, or an earlier one.
    pub(super) epoch: u64,
    /// The event after the use. `None` if it is not recorded yet.
    pub(super) event: Option<Fence>,
    /// The number of this use among the strays of its context, or 0 if it is not a stray.
    stray: u64,
    /// The last epoch that `event` covers.
    covers: u64,
    /// The ids of the streams that have waited for `event`.
    pub(super) waited: Vec<u64>,
    /// The context of `stream`, if it is not the context of the buffer. Declared after `stream` and
    /// `event`, so that it is dropped after them.
    pub(super) elsewhere: Option<KeptContext>,
}

impl Use {
    /// Creates a use that was just queued in `scope`, without an event.
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

    /// Creates a placeholder for all unrecorded uses on the home stream.
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

    /// Returns this replay as a use of one buffer.
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

    /// Replaces this by a later use on the same stream that was just queued and has no event yet.
    /// Returns the former event, which has to be dropped without a lock.
    pub(super) fn renew(&mut self) -> Option<Fence> {
        self.epoch = self.stream.epoch();
        self.stray = 0;
        self.covers = u64::MAX;
        self.waited.clear();
        self.event.take()
    }

    /// If this use is a stray, registers it with `context`, in which it was queued.
    pub(super) fn note_stray(&mut self, context: &Context) {
        if self.is_stray() && self.stray == 0 {
            self.stray = context.register_unfenced_use();
        }
    }

    /// Returns whether this is a stray: only a wait for its whole context shows that it is
    /// complete.
    pub(super) fn is_stray(&self) -> bool {
        self.event.is_none() && self.stream.kind() == Kind::PerThread
    }

    /// Returns whether `access` conflicts with this use and has to wait for it.
    pub(super) fn matters_to(&self, access: Access) -> bool {
        let are_signals = self.signal && access.signal;
        !are_signals && (self.write || access.write)
    }

    /// Returns whether this use is complete, so that nothing needs to wait for it.
    pub(super) fn is_done(&self) -> bool {
        !self.is_open() && self.event.as_ref().is_some_and(Fence::is_done)
    }

    /// Returns whether the home stream may have uses after the event that are not recorded yet:
    /// threads queue them first.
    pub(super) fn is_open(&self) -> bool {
        self.is_home && self.event.is_some() && self.covers != u64::MAX
    }

    /// Makes the stream of `scope` wait for this use, unless it is the same stream or has waited
    /// already. `home` is the context of the buffer, and `home_epoch` the epoch of the last
    /// unrecorded use on the home stream.
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
        let Some(event) = self.behind(home)? else {
            return Ok(());
        };
        let stream = scope.stream;
        stream.state().wait(stream.context(), event.raw())?;
        self.waited.push(scope.id);
        Ok(())
    }

    /// Discards an event that does not cover all uses on the home stream.
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

    /// Returns whether the use is known to be complete, without recording an event.
    pub(super) fn is_done_on(&self, home: &Context) -> bool {
        let context = self.elsewhere.as_deref().unwrap_or(home);
        match &self.event {
            Some(event) => event.is_done(),
            None if self.is_stray() => context.unfenced().is_complete(self.stray),
            None => self.stream.is_done(context),
        }
    }

    /// Returns the event to wait for, or `None` if the use is complete.
    pub(super) fn behind(&mut self, home: &Context) -> Result<Option<Fence>, DriverError> {
        let context = self.elsewhere.as_deref().unwrap_or(home);
        if context.driver().is_gone() {
            // The owner destroyed the context, and with it all work in it.
            return Ok(None);
        }
        if let Some(event) = &self.event {
            return Ok(Some(event.clone()));
        }
        if self.stream.kind() == Kind::PerThread {
            // Its event could not be recorded when the use was queued. This may be another thread,
            // for which the handle names another queue.
            if !context.unfenced().is_complete(self.stray) {
                // The use was queued between the wait for the strays and the lock, or was not
                // registered as a stray. It is registered now, and the caller waits again.
                if self.stray == 0 {
                    self.stray = context.register_unfenced_use();
                }
                return Err(strays::error(context));
            }
            return Ok(None);
        }
        let Some((event, covers)) = self.stream.behind(context, self.epoch)? else {
            return Ok(None);
        };
        self.covers = covers;
        Ok(Some(self.event.insert(event).clone()))
    }
}
