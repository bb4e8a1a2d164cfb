//! Events: markers in streams.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::{CUevent, CUevent_st, CUstream_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::event::{DISABLE_TIMING, Event, INTERPROCESS, Mark, Record, Recording};
use crate::driver::objects::shared_event::SharedEvent;
use crate::driver::status::{ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, NOT_READY, Status};
use crate::engine::Work;
use crate::lock::lock;

exports! {
    cuEventCreate => event_create;
    cuEventDestroy | cuEventDestroy_v2 => event_destroy;
    cuEventRecord | cuEventRecord_ptsz => event_record;
    cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz => event_record_with_flags;
    cuEventQuery => event_query;
    cuEventSynchronize => event_synchronize;
    cuEventElapsedTime | cuEventElapsedTime_v2 => event_elapsed_time;
    cuStreamWaitEvent | cuStreamWaitEvent_ptsz => stream_wait_event;
}

/// `CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS`
const KNOWN_FLAGS: u32 = 7;

/// The interval at which the host looks whether another process has completed a recording.
const POLL: Duration = Duration::from_micros(50);

/// `CU_EVENT_RECORD_EXTERNAL` and `CU_EVENT_WAIT_EXTERNAL`
const EXTERNAL: u32 = 1;

impl Call {
    pub(in crate::driver) fn event(&self, handle: u64) -> Status<Arc<Event>> {
        let event = self.events.get(handle);
        let event = event.ok_or_else(|| self.unknown_handle(handle))?;
        event.device.alive()?;
        let is_gone = |shared: &Arc<SharedEvent>| !shared.is_alive();
        if event.shared.as_ref().is_some_and(is_gone) {
            // The process that created the event has destroyed it.
            return Err(INVALID_HANDLE);
        }
        Ok(event)
    }

    fn event_create(&self, event: Out<CUevent>, flags: c_uint) -> Status {
        event.required()?;
        let context = self.home()?;
        let untimed_if_shared = flags & INTERPROCESS == 0 || flags & DISABLE_TIMING != 0;
        if flags & !KNOWN_FLAGS != 0 || !untimed_if_shared {
            return Err(INVALID_VALUE);
        }
        let shared = flags & INTERPROCESS != 0;
        // Without support of the system, the event exists and has no handle for other processes.
        let shared = shared.then(|| self.shared_events.create().ok()).flatten();
        let shared = shared.map(Arc::new);
        let handle = fresh();
        let created = Event {
            handle,
            context: context.handle,
            device: Arc::clone(&context.device),
            flags,
            record: Mutex::new(None),
            shared,
        };
        self.events.insert(handle, Arc::new(created));
        event.set(pointer(handle))
    }

    fn event_destroy(&self, event: Out<CUevent_st>) -> Status {
        let handle = event.handle();
        let event = self.events.remove(handle);
        let event = event.ok_or_else(|| self.unknown_handle(handle))?;
        event.device.alive()
    }

    fn event_record(&self, event: Out<CUevent_st>, stream: Out<CUstream_st>) -> Status {
        self.event_record_with_flags(event, stream, 0)
    }

    fn event_record_with_flags(
        &self,
        event: Out<CUevent_st>,
        stream: Out<CUstream_st>,
        flags: c_uint,
    ) -> Status {
        let event = self.event(event.handle())?;
        let stream = self.stream(stream.handle())?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        if event.context != stream.context.home_handle() {
            return Err(INVALID_HANDLE);
        }
        if self.capture_record(&stream, &event, flags == EXTERNAL)? {
            return Ok(());
        }
        if flags == EXTERNAL {
            return Err(ILLEGAL_STATE);
        }
        let at = Mark::default();
        let reached = at.clone();
        // The lock is held while the operation is submitted, so that the recording that is kept is
        // the one submitted last.
        let mut record = event.record();
        let shared = event.begin();
        let number = shared.as_ref().map_or(0, |(_, number)| *number);
        let mark = Work::Device(Box::new(move || {
            reached.reach();
            if let Some((event, number)) = shared {
                event.complete(number);
            }
        }));
        let op = self.engine.submit(stream.queue, &[], mark);
        if number > 0 {
            // Another process may wait for it, which this engine does not see.
            self.engine.urge(&[op]);
        }
        *record = Some(Record::Queued(Recording { op, at, number }));
        Ok(())
    }

    /// Returns the recording that a query or wait of the host observes.
    ///
    /// If it belongs to a capture in progress, this fails and breaks the capture.
    fn observed(&self, event: &Event) -> Status<Option<Recording>> {
        let captured = match &*event.record() {
            Some(Record::Captured(marked)) => Some(marked.clone()),
            _ => None,
        };
        // Breaking the capture changes the error of later calls, not that of this one.
        let recording = event.recording();
        if let Some(marked) = captured {
            self.invalidate(marked.capture);
        }
        let recording = recording?;
        self.potentially_unsafe()?;
        Ok(recording)
    }

    fn event_query(&self, event: Out<CUevent_st>) -> Status {
        let event = self.event(event.handle())?;
        let record = self.observed(&event)?;
        let elsewhere = event.elsewhere(record.as_ref());
        let done = match &elsewhere {
            Some((shared, number)) => shared.is_complete(*number),
            None => record.is_none_or(|record| self.engine.query(&[record.op])),
        };
        event.device.alive()?;
        if done { Ok(()) } else { Err(NOT_READY) }
    }

    fn event_synchronize(&self, event: Out<CUevent_st>) -> Status {
        let event = self.event(event.handle())?;
        let record = self.observed(&event)?;
        if let Some((shared, number)) = event.elsewhere(record.as_ref()) {
            while !shared.is_complete(number) && event.device.alive().is_ok() {
                thread::sleep(POLL);
            }
        } else if let Some(record) = record {
            self.engine.wait(&[record.op]);
        }
        event.device.alive()
    }

    fn event_elapsed_time(
        &self,
        milliseconds: Out<f32>,
        start: Out<CUevent_st>,
        end: Out<CUevent_st>,
    ) -> Status {
        // An H200 returns this status.
        milliseconds.required().map_err(|_| INVALID_HANDLE)?;
        let time = |handle| -> Status<Option<Instant>> {
            let event = self.event(handle)?;
            if event.flags & DISABLE_TIMING != 0 {
                return Err(INVALID_HANDLE);
            }
            let record = event.recording()?.ok_or(INVALID_HANDLE)?;
            if !self.engine.query(&[record.op]) {
                return Ok(None);
            }
            let at = *lock(&record.at.0);
            Ok(at)
        };
        let (Some(start), Some(end)) = (time(start.handle())?, time(end.handle())?) else {
            return Err(NOT_READY);
        };
        let forward = end.saturating_duration_since(start).as_secs_f64();
        let backward = start.saturating_duration_since(end).as_secs_f64();
        milliseconds.set(((forward - backward) * 1e3) as f32)
    }

    /// `cuStreamWaitEvent()`—Makes the stream wait for the recording that is the latest at the time
    /// of the call. A wait for an event that was never recorded has no effect.
    fn stream_wait_event(
        &self,
        stream: Out<CUstream_st>,
        event: Out<CUevent_st>,
        flags: c_uint,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        let event = self.event(event.handle())?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        if self.capture_wait(&stream, &event, flags == EXTERNAL)? {
            return Ok(());
        }
        if flags == EXTERNAL {
            return Err(ILLEGAL_STATE);
        }
        let record = event.recording()?;
        if let Some((shared, number)) = event.elsewhere(record.as_ref()) {
            let device = Arc::clone(&stream.context.device);
            let is_over = move || shared.is_complete(number) || device.alive().is_err();
            self.engine
                .submit(stream.queue, &[], Work::Poll(Box::new(is_over)));
        } else if let Some(record) = record {
            self.engine
                .submit(stream.queue, &[record.op], Work::Device(Box::new(|| {})));
        }
        Ok(())
    }
}
