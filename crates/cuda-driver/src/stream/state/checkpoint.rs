//! Recording events at the end of a stream, and the checkpoints before what may wait for the
//! program.

use std::sync::atomic::Ordering;

use super::{Kind, StreamState, Tail};
use crate::context::Context;
use crate::error::DriverError;
use crate::event::UseEvent;
use crate::lock::MutexGuard;
use crate::planted::Fault;

impl StreamState {
    /// Calls `queue` to queue something that can hold up the stream until the program does
    /// something: what was used on the stream before can still be waited for on its own. The
    /// context is current if the handle needs that.
    pub(crate) fn block<R>(
        &self,
        context: &Context,
        queue: impl FnOnce() -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        let _current = self.bind_to_ask(context)?;
        if Fault::NoCheckpoint.is_planted() {
            return queue();
        }
        if !self.is_blocking {
            let mut tail = self.tail();
            self.checkpoint(context, &mut tail)?;
            return queue();
        }
        // It holds up the legacy stream, and that all others that are ordered with it.
        self.with_tails(context, |tails| {
            for (stream, tail) in tails.iter_mut() {
                stream.checkpoint_legacy(context, tail)?;
            }
            queue()
        })
    }

    /// Locks the tails of the legacy stream and of all streams that are ordered with it, and calls
    /// `then` with them. Each but the legacy stream has a checkpoint by then.
    pub(super) fn with_tails<R>(
        &self,
        context: &Context,
        then: impl FnOnce(&mut [(&Self, MutexGuard<'_, Tail>)]) -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        let mut streams = context.streams().blocking();
        // Locked in one order by all threads, which the rank of the tails prescribes.
        streams.sort_unstable_by_key(|stream| (&raw const stream.tail).addr());
        let mut tails: Vec<(&Self, _)> = streams.iter().map(|it| (&**it, it.tail())).collect();
        for (stream, tail) in &mut tails {
            if stream.kind != Kind::Legacy {
                stream.checkpoint(context, tail)?;
            }
        }
        then(&mut tails)
    }

    /// Records a checkpoint on the legacy stream if it was used since its last one; on other
    /// streams nothing.
    ///
    /// The record itself is work on the legacy stream. So it comes after the checkpoints of the
    /// other streams, which would wait for it otherwise. Without a use it is left out: if one
    /// stream waits for the program, it would make all others wait with it.
    fn checkpoint_legacy(&self, context: &Context, tail: &mut Tail) -> Result<(), DriverError> {
        if self.kind != Kind::Legacy || !self.is_used.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.checkpoint(context, tail).inspect_err(|_| {
            self.is_used.store(true, Ordering::Release);
        })
    }

    /// Records an event behind what is queued, and begins a new epoch.
    fn checkpoint(&self, context: &Context, tail: &mut Tail) -> Result<(), DriverError> {
        let done = tail
            .checkpoints
            .iter()
            .take_while(|(_, event)| event.is_done())
            .count();
        if let Some((epoch, _)) = tail.checkpoints.drain(..done).next_back() {
            tail.settled = epoch + 1;
        }
        // If it cannot be recorded, the uses of this epoch are waited for by the next checkpoint or
        // by the tail.
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel);
        let event = self.record_at(context, tail)?;
        tail.checkpoints.push((epoch, event));
        Ok(())
    }

    /// Records an event of the pool of `context` behind what is queued now.
    pub(crate) fn record(&self, context: &Context) -> Result<UseEvent, DriverError> {
        self.at_tail(context, |tail| self.record_at(context, tail))
    }

    /// Calls `then`, which may record an event, with the locked tail of this stream.
    fn at_tail<R>(
        &self,
        context: &Context,
        then: impl FnOnce(&mut Tail) -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        if !self.holds_up_others() {
            return then(&mut self.tail());
        }
        // The step of `queueing`, under the locks that it takes: the tail of this stream is one of
        // them.
        self.with_tails(context, |tails| {
            let own = tails.iter_mut().find(|(stream, _)| stream.id == self.id);
            match own {
                Some((_, tail)) => then(tail),
                // No legacy stream is unknown to its context.
                None => then(&mut self.tail()),
            }
        })
    }

    /// Records an event behind what is queued now; `tail` is this stream's. On the legacy stream
    /// the others have their checkpoints.
    fn record_at(&self, context: &Context, tail: &mut Tail) -> Result<UseEvent, DriverError> {
        let _current = self.bind_to_ask(context)?;
        let turn = tail.turn + 1;
        // SAFETY: the stream must be alive ← `self` owns it.
        let event = unsafe { UseEvent::record_raw(context, self.raw(), turn) }?;
        tail.turn = turn;
        Ok(event)
    }

    /// An event behind what was queued up to the end of `epoch`, and the last epoch that it stands
    /// behind; `None` if all of that is known to be done.
    pub(crate) fn behind(
        &self,
        context: &Context,
        epoch: u64,
    ) -> Result<Option<(UseEvent, u64)>, DriverError> {
        let found = self.tail().find(epoch);
        if let Some(found) = found {
            return Ok(found);
        }
        self.at_tail(context, |tail| {
            // The lock was free in between.
            if let Some(found) = tail.find(epoch) {
                return Ok(found);
            }
            // No use that is queued from now on has been given to anybody as one that this stands
            // behind.
            Ok(Some((self.record_at(context, tail)?, u64::MAX)))
        })
    }
}

impl Tail {
    /// What is known of the end of `epoch` without another record: the event behind it and the last
    /// epoch that it stands behind, or `None` inside if all of that is done.
    fn find(&self, epoch: u64) -> Option<Option<(UseEvent, u64)>> {
        if epoch < self.settled {
            return Some(None);
        }
        let found = self.checkpoints.iter().find(|(ended, _)| *ended >= epoch);
        found.map(|(ended, event)| Some((event.clone(), *ended)))
    }
}
