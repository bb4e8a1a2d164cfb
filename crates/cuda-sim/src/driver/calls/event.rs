//! Events: markers in streams.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cuda_sys::{CUevent, CUevent_st, CUstream_st};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::event::{Event, INTERPROCESS, Mark, Record, Recording};
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
const DISABLE_TIMING: u32 = 2;

/// `CU_EVENT_RECORD_EXTERNAL` and `CU_EVENT_WAIT_EXTERNAL`
const EXTERNAL: u32 = 1;

impl Call {
    pub(in crate::driver) fn event(&self, handle: u64) -> Status<Arc<Event>> {
        let event = self.events.get(handle).ok_or(INVALID_HANDLE)?;
        event.device.alive()?;
        Ok(event)
    }

    fn event_create(&self, event: Out<CUevent>, flags: c_uint) -> Status {
        event.required()?;
        let context = self.home()?;
        let untimed_if_shared = flags & INTERPROCESS == 0 || flags & DISABLE_TIMING != 0;
        if flags & !KNOWN_FLAGS != 0 || !untimed_if_shared {
            return Err(INVALID_VALUE);
        }
        let handle = fresh();
        let created = Event {
            handle,
            context: context.handle,
            device: Arc::clone(&context.device),
            flags,
            record: Mutex::new(None),
        };
        self.events.insert(handle, Arc::new(created));
        event.set(pointer(handle))
    }

    fn event_destroy(&self, event: Out<CUevent_st>) -> Status {
        let event = self.events.remove(event.handle()).ok_or(INVALID_HANDLE)?;
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
        let mark = Work::Device(Box::new(move || reached.reach()));
        let op = self.engine.submit(stream.queue, &[], mark);
        *record = Some(Record::Queued(Recording { op, at }));
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
        let done = record.is_none_or(|record| self.engine.query(&[record.op]));
        event.device.alive()?;
        if done { Ok(()) } else { Err(NOT_READY) }
    }

    fn event_synchronize(&self, event: Out<CUevent_st>) -> Status {
        let event = self.event(event.handle())?;
        if let Some(record) = self.observed(&event)? {
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
        if let Some(record) = event.recording()? {
            self.engine
                .submit(stream.queue, &[record.op], Work::Device(Box::new(|| {})));
        }
        Ok(())
    }
}
