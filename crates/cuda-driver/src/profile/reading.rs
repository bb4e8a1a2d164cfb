//! The reader of a profiler's events. It runs on a thread of its own while work is being queued,
//! and on the thread that asks for the profile.
//!
//! Reading the times of one piece of work takes several times as long as recording its events. A
//! call that queues work does not pay for it unless the thread cannot keep up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use cuda_sys::{CUevent, CUresult};

use super::recorder::{Inner, Pending, Recorder};
use crate::context::Context;
use crate::deferred::must_not_wait;
use crate::driver::call;
use crate::error::{DriverError, Result};

/// The longest time in nanoseconds from the event to which the times of a stream refer. After it, a
/// newer event takes the place of that event: the driver reports milliseconds as `f32`, which has a
/// resolution of 60 ns at one second.
const NEW_ANCHOR: i64 = 1_000_000_000;
/// The number of operations that are read without storing their times in between.
const BATCH: usize = 256;

/// The thread that reads events. It ends when this is dropped.
pub(super) struct Reader {
    recorder: Arc<Recorder>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Starts the thread. Without one, calls that queue work read events.
    pub(super) fn start(recorder: &Arc<Recorder>, context: &Context) -> Self {
        let (own, context) = (Arc::clone(recorder), context.clone());
        let run = move || {
            while !own.wake.is_over() {
                thread::park();
                own.read_until_over();
            }
            // Its events have to be dropped before the context.
            drop(own);
            drop(context);
        };
        let thread = thread::Builder::new().name("cuda-driver profiler".to_owned());
        let thread = thread.spawn(run).ok();
        if let Some(thread) = &thread {
            // This is the only thread of the recorder.
            recorder.wake.set(thread.thread().clone());
        }
        Self {
            recorder: Arc::clone(recorder),
            thread,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.recorder.wake.end();
        if let Some(thread) = self.thread.take() {
            // A thread of the driver must not wait. Then the other thread ends by itself.
            if !must_not_wait() {
                let _ = thread.join();
            }
        }
    }
}

impl Recorder {
    /// Reads the events of all operations that are complete.
    pub(super) fn read(&self) {
        self.read_while(|| true);
    }

    /// Reads as [`read`](Self::read) does, until the reader is dropped.
    fn read_until_over(&self) {
        self.read_while(|| !self.wake.is_over());
    }

    fn read_while(&self, go_on: impl Fn() -> bool) {
        let rows = self.lock().rows.len();
        for row in 0..rows {
            while go_on() && self.read_row(row, BATCH) == BATCH {}
        }
    }

    /// Reads at most `most` operations of a row, and returns their number. Stops at the first that
    /// is not complete. Other threads can queue work at the same time.
    pub(super) fn read_row(&self, row: usize, most: usize) -> usize {
        let _relaxed = self.driver.relaxed();
        let _reading = self.reading.lock();
        let mut inner = self.lock();
        let Some(own) = inner.rows.get_mut(row) else {
            return 0;
        };
        let count = own.pending.len().min(most);
        let mut batch: VecDeque<Pending> = own.pending.drain(..count).collect();
        let mut anchor = own.anchor.take();
        drop(inner);

        let mut read = Vec::with_capacity(count);
        let mut free = Vec::with_capacity(2 * count);
        while let Some(mut pending) = batch.pop_front() {
            let (event, at) = anchor.as_ref().unwrap_or(&self.base);
            let times = match self.times((event.raw().0, *at), &pending) {
                Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => {
                    batch.push_front(pending);
                    break;
                }
                times => times.ok(),
            };
            pending.operation.run = times;
            read.push(pending.operation);
            free.push(pending.end);
            match times {
                Some((time, _)) if time - at > NEW_ANCHOR => {
                    let former = anchor.replace((pending.start, time));
                    free.extend(former.map(|(event, _)| event));
                }
                _ => free.push(pending.start),
            }
        }
        let count = read.len();

        let mut inner = self.lock();
        inner.operations.append(&mut read);
        inner.free.append(&mut free);
        if let Some(own) = inner.rows.get_mut(row) {
            own.anchor = anchor;
            for pending in batch.into_iter().rev() {
                own.pending.push_front(pending);
            }
        }
        count
    }

    /// Waits for all operations, and reads their events.
    pub(super) fn wait(&self) -> Result<()> {
        let mut result = Ok(());
        loop {
            self.read();
            let mut inner = self.lock();
            let Some((row, first)) = Self::first(&mut inner) else {
                return Ok(result?);
            };
            drop(inner);
            // Waits without a lock.
            let _relaxed = self.driver.relaxed();
            // SAFETY: the event must be alive ← `first` owns it.
            let waited = unsafe { call!(self.driver, cuEventSynchronize(first.end.raw().0)) };
            let is_captured =
                |error: &DriverError| error.status() == CUresult::CUDA_ERROR_CAPTURED_EVENT;
            match waited {
                Err(error) if !is_captured(&error) => result = result.and(Err(error)),
                _ => {}
            }
            let mut inner = self.lock();
            if let Some(own) = inner.rows.get_mut(row) {
                own.pending.push_front(first);
            }
            drop(inner);
            // What cannot be read now never can, and has no times.
            if self.read_row(row, 1) == 0 {
                let mut inner = self.lock();
                let own = inner.rows.get_mut(row);
                if let Some(first) = own.and_then(|own| own.pending.pop_front()) {
                    inner.operations.push(first.operation);
                    inner.free.extend([first.start, first.end]);
                }
            }
        }
    }

    /// Takes the first pending operation of any row.
    fn first(inner: &mut Inner) -> Option<(usize, Pending)> {
        let mut rows = inner.rows.iter_mut().enumerate();
        rows.find_map(|(at, row)| Some((at, row.pending.pop_front()?)))
    }

    /// Returns the start and the duration of an operation. Fails if it is not complete. `anchor` is
    /// an event with its time.
    fn times(&self, anchor: (CUevent, i64), pending: &Pending) -> Result<(i64, u64), DriverError> {
        let (start, end) = (pending.start.raw().0, pending.end.raw().0);
        let duration = self.elapsed(start, end)?;
        let until_start = self.elapsed(anchor.0, start)?;
        Ok((anchor.1 + until_start, duration.max(0).unsigned_abs()))
    }

    /// Returns the nanoseconds between two events. Fails if one of them is not complete.
    fn elapsed(&self, from: CUevent, to: CUevent) -> Result<i64, DriverError> {
        let mut milliseconds = 0.0_f32;
        // SAFETY: the pointer must be writable and both events alive ← it is to a local, and the
        // callers own the events.
        unsafe {
            call!(
                self.driver,
                cuEventElapsedTime(&raw mut milliseconds, from, to)
            )
        }?;
        Ok((f64::from(milliseconds) * 1e6).round() as i64)
    }
}
