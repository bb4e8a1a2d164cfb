//! Events at the tail of a stream, and the checkpoints before operations that may wait for the
//! program.

use crate::context::Context;
use crate::error::DriverError;
use crate::fence::{Fence, UNTIMED};
use crate::lock::MutexGuard;
use crate::stream_state::{Kind, StreamState, Tail};

impl StreamState {
    /// Calls `queue`, which queues an operation that can block the stream until the host acts.
    /// Earlier uses on the stream can still be waited for separately, because a checkpoint precedes
    /// the operation. The context is current during the call if the handle needs that.
    pub(crate) fn queue_host_wait<R>(
        &self,
        context: &Context,
        queue: impl FnOnce() -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        let _current = self.bind_for_query(context)?;
        if !self.is_blocking() {
            let mut tail = self.tail();
            self.checkpoint(context, &mut tail)?;
            return queue();
        }
        // The operation blocks the legacy stream, which blocks all streams that are ordered with
        // it.
        self.with_tails(context, |tails| {
            for (stream, tail) in tails.iter_mut() {
                stream.checkpoint_legacy(context, tail)?;
            }
            queue()
        })
    }

    /// Locks the tails of the legacy stream and of all blocking streams, and calls `then` with
    /// them. All of them except the legacy stream have a checkpoint by then.
    pub(super) fn with_tails<R>(
        &self,
        context: &Context,
        then: impl FnOnce(&mut [(&Self, MutexGuard<'_, Tail>)]) -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        let mut streams = context.streams().blocking();
        // All threads lock the tails in the same order, which the lock rank of the tails requires.
        streams.sort_unstable_by_key(|stream| stream.tail_address());
        let mut tails: Vec<(&Self, _)> = streams.iter().map(|it| (&**it, it.tail())).collect();
        for (stream, tail) in &mut tails {
            if stream.kind() != Kind::Legacy {
                stream.checkpoint(context, tail)?;
            }
        }
        then(&mut tails)
    }

    /// Records a checkpoint on the legacy stream if that stream was used since its last one. Does
    /// nothing on other streams.
    ///
    /// The record itself is work on the legacy stream. It is recorded after the checkpoints of
    /// the other streams; otherwise these checkpoints would wait for it. It is omitted if there was
    /// no use: if one stream waits for the host, the record would make all other streams wait too.
    fn checkpoint_legacy(&self, context: &Context, tail: &mut Tail) -> Result<(), DriverError> {
        if self.kind() != Kind::Legacy || !self.take_used() {
            return Ok(());
        }
        self.checkpoint(context, tail).inspect_err(|_| {
            self.set_used();
        })
    }

    /// Records an event after the queued work, and starts a new epoch.
    fn checkpoint(&self, context: &Context, tail: &mut Tail) -> Result<(), DriverError> {
        let done = tail
            .checkpoints
            .iter()
            .take_while(|(_, event)| event.is_done())
            .count();
        if let Some((epoch, _)) = tail.checkpoints.drain(..done).next_back() {
            tail.completed = epoch + 1;
        }
        // If the record fails, a wait for a use of this epoch takes the next checkpoint or the
        // tail.
        let epoch = self.end_epoch();
        let event = self.record_at(context, tail)?;
        tail.checkpoints.push((epoch, event));
        Ok(())
    }

    /// Records an event of the pool of `context` after the work that is queued now.
    pub(crate) fn record(&self, context: &Context) -> Result<Fence, DriverError> {
        self.at_tail(context, |tail| self.record_at(context, tail))
    }

    /// Locks the tail of this stream and calls `then`, which may record an event.
    fn at_tail<R>(
        &self,
        context: &Context,
        then: impl FnOnce(&mut Tail) -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        if !self.may_delay_others() {
            return then(&mut self.tail());
        }
        // As in `queueing`, the other streams first get their checkpoints. The tail of this stream
        // is one of those that are locked for that.
        self.with_tails(context, |tails| {
            let own = tails
                .iter_mut()
                .find(|(stream, _)| stream.shared_id() == self.shared_id());
            match own {
                Some((_, tail)) => then(tail),
                // Not reached: every legacy stream is registered with its context.
                None => then(&mut self.tail()),
            }
        })
    }

    /// Records an event after the work that is queued now. `tail` is the tail of this stream. For
    /// the legacy stream, the other streams already have their checkpoints.
    fn record_at(&self, context: &Context, tail: &mut Tail) -> Result<Fence, DriverError> {
        let _current = self.bind_for_query(context)?;
        let turn = tail.turn + 1;
        let create = || context.create_event(UNTIMED);
        // SAFETY: the stream must be alive ← `self` owns it.
        let event = unsafe {
            context
                .events()
                .record(context.driver(), self.raw(), turn, create)
        }?;
        tail.turn = turn;
        Ok(event)
    }

    /// Returns an event after all work up to the end of `epoch`, and the last epoch that the event
    /// covers; `None` if all of that work is known to be complete.
    pub(crate) fn fence_after(
        &self,
        context: &Context,
        epoch: u64,
    ) -> Result<Option<(Fence, u64)>, DriverError> {
        let found = self.tail().find(epoch);
        if let Some(found) = found {
            return Ok(found);
        }
        self.at_tail(context, |tail| {
            // Another thread may have recorded an event while the lock was free.
            if let Some(found) = tail.find(epoch) {
                return Ok(found);
            }
            // The new event covers every use whose epoch was read before this point, because a
            // thread reads the epoch after it has queued the use. The caller asks only for such
            // uses, so no epoch limits what the event covers (`u64::MAX`).
            Ok(Some((self.record_at(context, tail)?, u64::MAX)))
        })
    }
}
