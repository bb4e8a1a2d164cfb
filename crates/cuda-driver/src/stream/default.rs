//! The default streams of a context: our own, and the two of C.

use std::sync::{Arc, Weak};

use cuda_sys::{CUresult, CUstream_flags};
use once_cell::sync::OnceCell;

use super::{Kind, Stream, StreamState};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::lock::{Mutex, rank};

/// `CU_STREAM_LEGACY`
pub(super) const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`
pub(super) const PER_THREAD: usize = 2;

/// The streams that a context keeps for all its handles.
#[derive(Default)]
pub(crate) struct ContextStreams {
    default: OnceCell<Arc<StreamState>>,
    legacy: OnceCell<Arc<StreamState>>,
    per_thread: OnceCell<Arc<StreamState>>,
    /// Those that the legacy stream waits for, and itself.
    blocking: Mutex<Vec<Weak<StreamState>>, { rank::BLOCKING_STREAMS }>,
    /// Streams for hidden work, none of which is under way.
    side: Mutex<Vec<Arc<StreamState>>, { rank::SIDE_STREAMS }>,
}

impl ContextStreams {
    pub(super) fn add_blocking(&self, stream: &Arc<StreamState>) {
        let mut blocking = self.blocking.lock();
        blocking.retain(|stream| stream.strong_count() > 0);
        blocking.push(Arc::downgrade(stream));
    }

    pub(super) fn blocking(&self) -> Vec<Arc<StreamState>> {
        self.blocking
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

impl Context {
    /// The stream for those who need only one: the same for every handle of this context.
    ///
    /// It is a stream of its own, not C's NULL stream: it neither waits for other streams nor makes
    /// them wait, and no call on it needs a current context.
    ///
    /// # Errors
    ///
    /// What `cuStreamCreate` answers, the first time.
    pub fn default_stream(&self) -> Result<Stream> {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        let state = self
            .streams()
            .default
            .get_or_try_init(|| StreamState::create(self, flags, 0))?;
        Ok(Stream::of_state(self, Arc::clone(state)))
    }

    /// `CU_STREAM_LEGACY`—C's NULL stream: it waits for all streams of the context that were made
    /// without [`NON_BLOCKING`](crate::StreamFlags::NON_BLOCKING), and they wait for it.
    ///
    /// For work together with code that uses it. Each call on it makes the context current first,
    /// which streams of your own do not need.
    #[doc(alias = "CU_STREAM_LEGACY")]
    #[doc(alias = "cuStreamLegacy")]
    #[must_use]
    pub fn legacy_stream(&self) -> Stream {
        let state = self
            .streams()
            .legacy
            .get_or_init(|| StreamState::default_of(self, Kind::Legacy));
        Stream::of_state(self, Arc::clone(state))
    }

    /// `CU_STREAM_PER_THREAD`—The default stream of the thread that uses it: the same value is
    /// another queue on each thread.
    ///
    /// Buffers know that: what one thread does with a buffer on this stream is ordered with what
    /// another does. Every use leaves an event, as no other thread can record one there later. It
    /// is ordered with the [legacy stream](Self::legacy_stream), and each call on it makes the
    /// context current first.
    #[doc(alias = "CU_STREAM_PER_THREAD")]
    #[must_use]
    pub fn per_thread_stream(&self) -> Stream {
        let state = self
            .streams()
            .per_thread
            .get_or_init(|| StreamState::default_of(self, Kind::PerThread));
        Stream::of_state(self, Arc::clone(state))
    }

    /// `cuCtxGetStreamPriorityRange()`—The priorities of streams, the least urgent first. A lower
    /// number is more urgent; both are 0 where the device knows no priorities.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuCtxGetStreamPriorityRange")]
    pub fn stream_priority_range(&self) -> Result<(i32, i32)> {
        let _current = self.enter()?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the pointers must be writable ← they are to locals.
        unsafe {
            call!(
                self.driver(),
                cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)
            )
        }?;
        Ok((least, greatest))
    }

    /// A stream for hidden work, on which nothing waits.
    pub(crate) fn take_side_stream(&self) -> Result<Arc<StreamState>> {
        if let Some(stream) = self.streams().side.lock().pop() {
            return Ok(stream);
        }
        StreamState::create(self, CUstream_flags::CU_STREAM_NON_BLOCKING.0, 0)
    }

    /// Keeps a stream for hidden work for the next who needs one.
    pub(crate) fn keep_side_stream(&self, stream: Arc<StreamState>) {
        self.streams().side.lock().push(stream);
    }

    /// Asks the driver for nothing but whether the device is there.
    pub(crate) fn probe(&self) -> Result<(), DriverError> {
        let Some(stream) = self.streams().default.get() else {
            return self.enter().map(drop);
        };
        let _relaxed = stream.driver().relaxed();
        // SAFETY: the stream must be alive ← it is borrowed.
        match unsafe { call!(stream.driver(), cuStreamQuery(stream.raw())) } {
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            result => result,
        }
    }
}
