//! Streams: queues of work on a device.
//!
//! Where C's streams are bare handles, these keep their context alive, and a stream that is dropped
//! with work in it finishes that work.

mod attribute;
mod capturing;
mod default;
mod host;
mod pool;
mod state;
mod value;

pub use attribute::{AccessPolicyWindow, MemSyncDomainMap, SynchronizationPolicy};
pub use capturing::CaptureStatus;
pub(crate) use default::ContextStreams;
pub use host::HostCall;
pub use pool::StreamPool;
pub(crate) use state::{Kind, Queueing, SendPtr, StreamState};
pub use value::{StreamWord, ValueBatch, WaitCondition};

use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUresult, CUstream};

use crate::context::{Context, Current};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::event::{Event, UseEvent};

bitflags::bitflags! {
    /// How a stream behaves. Bits that are not named here are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StreamFlags: u32 {
        /// Neither waits for the NULL stream of the context, nor makes it wait.
        const NON_BLOCKING = 1;
        const _ = !0;
    }
}

/// A queue of work: what is queued on one stream runs in order, streams run beside each other.
///
/// Cloning it gives another handle of the same stream. The stream is destroyed when the last handle
/// and the last buffer that it used are gone; work still in it runs to its end.
#[derive(Clone)]
pub struct Stream {
    /// Before `context`: a stream goes before its context.
    state: Arc<StreamState>,
    context: Context,
}

impl Stream {
    /// `cuStreamCreateWithPriority(flags, priority)`—Creates a stream in `context`.
    ///
    /// `priority` 0 is the default, a lower number is more urgent; one out of the device's range is
    /// moved into it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY`, or `CUDA_ERROR_INVALID_VALUE` for flags that the driver does not
    /// know.
    #[doc(alias = "cuStreamCreate")]
    #[doc(alias = "cuStreamCreateWithPriority")]
    pub fn new(context: &Context, flags: StreamFlags, priority: i32) -> Result<Self> {
        let state = StreamState::create(context, flags.bits(), priority)?;
        Ok(Self::of_state(context, state))
    }

    pub(crate) fn of_state(context: &Context, state: Arc<StreamState>) -> Self {
        Self {
            state,
            context: context.clone(),
        }
    }

    /// The context of the stream.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The raw stream. It stays alive as long as a handle of it.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.state.raw()
    }

    /// `cuStreamSynchronize()`—Waits until all that was queued on the stream is done.
    ///
    /// # Errors
    ///
    /// A fault of any kernel that was still running: see [`DriverError::is_sticky`].
    #[doc(alias = "cuStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.state.synchronize_by_name(&self.context)?)
    }

    /// `cuStreamQuery()`—Whether all that was queued on the stream is done.
    ///
    /// # Errors
    ///
    /// A fault of any kernel that was still running.
    #[doc(alias = "cuStreamQuery")]
    pub fn is_done(&self) -> Result<bool> {
        let _current = self.bind_to_ask()?;
        let asked = self.state.settle_after(|| {
            // SAFETY: the stream must be alive ← `self` owns it.
            unsafe { call!(self.state.driver(), cuStreamQuery(self.as_raw())) }
        });
        match asked {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// `cuStreamWaitEvent(event)`—Makes what is queued on the stream from now on wait for `event`.
    ///
    /// The event may be of another context.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if the event is of another driver, or what the call answers.
    #[doc(alias = "cuStreamWaitEvent")]
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.driver()
            .expect_handles_of(event.context().driver(), "the event")?;
        Ok(self.state.wait(&self.context, event.as_raw())?)
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—A new stream like this one, which begins behind
    /// what is queued here now.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn fork(&self) -> Result<Self> {
        let fork = Self::new(&self.context, self.flags()?, self.priority()?)?;
        fork.join(self)?;
        Ok(fork)
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—Makes what is queued here from now on wait for all
    /// that is queued on `other` now.
    ///
    /// Streams that share buffers need no join: their uses are ordered by themselves.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if `other` is of another driver, or what the calls answer.
    pub fn join(&self, other: &Self) -> Result<()> {
        self.driver()
            .expect_handles_of(other.driver(), "the stream")?;
        let event = UseEvent::record(&other.context, &other.state)?;
        Ok(self.state.wait(&self.context, event.raw())?)
    }

    /// `cuStreamGetPriority()`—The priority: 0 is the default, a lower number is more urgent.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuStreamGetPriority")]
    pub fn priority(&self) -> Result<i32> {
        let mut priority = 0;
        let _current = self.bind_to_ask()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local, and `self` owns it.
        unsafe {
            call!(
                self.driver(),
                cuStreamGetPriority(self.as_raw(), &raw mut priority)
            )
        }?;
        Ok(priority)
    }

    /// `cuStreamGetFlags()`—The flags that it was made with.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuStreamGetFlags")]
    pub fn flags(&self) -> Result<StreamFlags> {
        let mut flags = 0;
        let _current = self.bind_to_ask()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local, and `self` owns it.
        unsafe {
            call!(
                self.driver(),
                cuStreamGetFlags(self.as_raw(), &raw mut flags)
            )
        }?;
        Ok(StreamFlags::from_bits_retain(flags))
    }

    /// `cuStreamGetId()`—The number that the driver and its tools know the stream by, never used
    /// twice in a process.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuStreamGetId")]
    pub fn id(&self) -> Result<u64> {
        let mut id = 0;
        let _current = self.bind_to_ask()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local, and `self` owns it.
        unsafe { call!(self.driver(), cuStreamGetId(self.as_raw(), &raw mut id)) }?;
        Ok(id)
    }

    /// `cuStreamDestroy()`—Lets the stream go; if this was the last that used it, destroys it and
    /// answers what the driver says.
    ///
    /// Other handles, and buffers that were used on it, keep it. What is queued runs to its end.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuStreamDestroy")]
    pub fn close(self) -> Result<()> {
        let Self {
            state,
            context: _context,
        } = self;
        Ok(Arc::into_inner(state).map_or(Ok(()), StreamState::close)?)
    }

    /// Makes the context current if calls on this stream need it, for one that queues nothing.
    #[inline]
    pub(crate) fn bind_to_ask(&self) -> Result<Option<Current<'_>>, DriverError> {
        self.state.bind_to_ask(&self.context)
    }

    /// Prepares a call that queues something: see [`StreamState::queueing`].
    #[inline]
    pub(crate) fn queueing(&self) -> Result<Queueing<'_>, DriverError> {
        self.state.queueing(&self.context)
    }

    pub(crate) fn state(&self) -> &Arc<StreamState> {
        &self.state
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.context.driver()
    }

    /// An error if `context` is not this stream's.
    #[inline]
    pub(crate) fn expect_context(&self, context: &Context, what: &'static str) -> Result<()> {
        if *context == self.context {
            Ok(())
        } else {
            Err(Error::OtherContext { what })
        }
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.state.shared_id() == other.state.shared_id()
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.as_raw())
    }
}
