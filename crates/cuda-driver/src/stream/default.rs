//! The default streams of a context: one of this crate, and the two of C.

use std::sync::Arc;

use cuda_sys::{CUresult, CUstream_flags};

use super::Stream;
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::stream_state::{Kind, StreamState};

/// The default streams of the context.
impl Context {
    /// Returns the stream for programs that need only one. It is the same for every handle of this
    /// context.
    ///
    /// It is a separate stream, not C's NULL stream: it neither waits for other streams nor makes
    /// them wait, and calls on it do not need a current context. The first call creates it.
    pub fn default_stream(&self) -> Result<Stream> {
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        let state = self
            .streams()
            .default
            .get_or_try_init(|| StreamState::create(self, flags, 0))?;
        self.streams().register(state);
        Ok(Stream::of_state(self, Arc::clone(state)))
    }

    /// `CU_STREAM_LEGACY`—Returns C's NULL stream. It waits for all streams of the context that
    /// were created without [`NON_BLOCKING`](crate::stream::StreamFlags::NON_BLOCKING), and they
    /// wait for it.
    ///
    /// Use it together with code that uses the NULL stream. Each call on it makes the context
    /// current first, which calls on other streams do not need.
    #[doc(alias = "CU_STREAM_LEGACY")]
    #[doc(alias = "cuStreamLegacy")]
    #[doc(alias = "cudaStreamLegacy")]
    #[must_use]
    pub fn legacy_stream(&self) -> Stream {
        let state = self
            .streams()
            .legacy
            .get_or_init(|| StreamState::default_of(self, Kind::Legacy));
        self.streams().inherit_observer(state);
        Stream::of_state(self, Arc::clone(state))
    }

    /// `CU_STREAM_PER_THREAD`—Returns the default stream of the calling thread: the same value is a
    /// different queue on each thread.
    ///
    /// Buffers take that into account: uses of a buffer by different threads on this stream are
    /// ordered. Every use records an event, because another thread cannot record one on this queue
    /// later; uses of a [`ThreadBuffer`](crate::memory::ThreadBuffer) on
    /// [`thread_stream`](Self::thread_stream) record none. The stream is ordered with the [legacy
    /// stream](Self::legacy_stream), and each call on it makes the context current first.
    #[doc(alias = "CU_STREAM_PER_THREAD")]
    #[must_use]
    pub fn per_thread_stream(&self) -> Stream {
        let state = self
            .streams()
            .per_thread
            .get_or_init(|| StreamState::default_of(self, Kind::PerThread));
        self.streams().inherit_observer(state);
        Stream::of_state(self, Arc::clone(state))
    }

    /// Takes an idle internal stream, or creates one. No stream of the program waits for its work.
    pub(crate) fn take_internal_stream(&self) -> Result<Arc<StreamState>> {
        if let Some(stream) = self.streams().internal.lock().pop() {
            return Ok(stream);
        }
        StreamState::create(self, CUstream_flags::CU_STREAM_NON_BLOCKING.0, 0)
    }

    /// Puts a stream for internal work back among the idle ones.
    pub(crate) fn keep_internal_stream(&self, stream: Arc<StreamState>) {
        self.streams().internal.lock().push(stream);
    }

    /// Checks that the device is alive, with a driver call that has no other effect.
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
