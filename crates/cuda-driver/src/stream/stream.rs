//! The type [`Stream`].

use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUresult, CUstream};

use super::{Queueing, StreamFlags};
use crate::context::{Context, Current};
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::reports::{self, Mark, Reports, Waited};
use crate::stream_state::StreamState;

/// A queue of work for a device. Work on one stream runs in order; work on different streams may
/// run concurrently.
///
/// A clone is another handle of the same stream. The stream is destroyed after the last handle and
/// the last buffer that was used on it are dropped; work that is still queued runs to its end.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Stream};
/// use cuda_driver::stream::StreamFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// let one = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
/// let other = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
///
/// let source = DeviceBuffer::filled(&one, 1000, 7_u32)?;
/// let mut target = DeviceBuffer::<u32>::zeroed(&other, 1000)?;
/// // The copy is queued on `other`, the stream of `target`. It waits for the fill on `one`.
/// target.copy_from(&source)?;
/// other.synchronize()?;
/// assert!(other.is_done()?);
/// assert_eq!(target.to_vec()?, [7; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Stream {
    /// Declared before `context`: the stream has to be dropped before its context.
    state: Arc<StreamState>,
    context: Context,
    /// The reports of checked launches, which `synchronize` returns.
    reports: Arc<Reports>,
}

impl Stream {
    /// `cuStreamCreateWithPriority(flags, priority)`—Creates a stream in `context`.
    ///
    /// `priority` 0 is the default, and a lower number is more urgent. A value outside of the
    /// [range of the device](Context::stream_priority_range) is clamped to it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY` if the driver cannot allocate the stream, and
    /// `CUDA_ERROR_INVALID_VALUE` if it does not know one of the flags.
    #[doc(alias = "cuStreamCreate")]
    #[doc(alias = "cudaStreamCreate")]
    #[doc(alias = "cuStreamCreateWithPriority")]
    #[doc(alias = "cudaStreamCreateWithPriority")]
    pub fn new(context: &Context, flags: StreamFlags, priority: i32) -> Result<Self> {
        let state = StreamState::create(context, flags.bits(), priority)?;
        context.streams().register(&state);
        Ok(Self::of_state(context, state))
    }

    /// `cuStreamSynchronize()`—Waits until all work that is queued on the stream is complete.
    ///
    /// # Errors
    ///
    /// The fault of any kernel that was still running: see [`DriverError::is_sticky`].
    /// [`Error::Violation`] with the violations of [safe launches](Self::launch_safe) on this
    /// stream that were not reported.
    #[doc(alias = "cuStreamSynchronize")]
    #[doc(alias = "cudaStreamSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.expect_direct("Stream::synchronize")?;
        self.state.synchronize_explicitly(&self.context)?;
        self.report_violations()
    }

    /// Fails with the violations of safe launches on this stream that were not reported. The caller
    /// has waited for the stream.
    #[inline]
    pub(crate) fn report_violations(&self) -> Result<()> {
        match reports::any() {
            true => self.waited().report(),
            false => Ok(()),
        }
    }

    /// The launches that a wait for this stream waits for.
    pub(crate) fn waited(&self) -> Waited {
        Waited::for_stream(self.state.id())
    }

    /// Marks the launches on this stream so far, for a later wait.
    #[inline]
    pub(crate) fn mark(&self) -> Option<Mark> {
        Mark::new(&self.reports, || self.waited())
    }

    /// `cuStreamQuery()`—Returns whether all work that is queued on the stream is complete.
    ///
    /// # Errors
    ///
    /// The fault of any kernel that was still running.
    #[doc(alias = "cuStreamQuery")]
    #[doc(alias = "cudaStreamQuery")]
    pub fn is_done(&self) -> Result<bool> {
        self.expect_direct("Stream::is_done")?;
        let _current = self.bind_for_query()?;
        let asked = self.state.mark_complete_after(|| {
            // SAFETY: the stream must be alive ← `self` owns it.
            unsafe { call!(self.state.driver(), cuStreamQuery(self.as_raw())) }
        });
        match asked {
            Ok(()) => Ok(true),
            Err(error) if error.status() == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—Creates a stream with the same flags and priority.
    /// Its work waits for everything that is queued on this stream so far.
    pub fn fork(&self) -> Result<Self> {
        self.expect_direct("Stream::fork")?;
        let fork = Self::new(&self.context, self.flags()?, self.priority()?)?;
        fork.join(self)?;
        Ok(fork)
    }

    /// `cuEventRecord()`, `cuStreamWaitEvent()`—Makes work that is queued here from now on wait for
    /// all work that is queued on `other` now.
    ///
    /// Streams that share buffers need no join: this crate orders conflicting uses of a buffer
    /// itself.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if `other` belongs to another driver.
    pub fn join(&self, other: &Self) -> Result<()> {
        self.expect_direct("Stream::join")?;
        other.expect_direct("Stream::join")?;
        self.driver()
            .expect_handles_of(other.driver(), "the stream")?;
        let event = other.state.record(&other.context)?;
        Ok(self.state.wait(&self.context, event.raw())?)
    }

    /// Returns the context of the stream.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// `cuStreamDestroy()`—Drops this handle. If it was the last user of the stream, destroys the
    /// stream and returns the result of the driver.
    ///
    /// Other handles, and buffers that were used on the stream, keep it alive. Work that is queued
    /// runs to its end.
    #[doc(alias = "cuStreamDestroy")]
    #[doc(alias = "cudaStreamDestroy")]
    pub fn close(self) -> Result<()> {
        let Self {
            state,
            context: _context,
            reports,
        } = self;
        drop(reports);
        Ok(Arc::into_inner(state).map_or(Ok(()), StreamState::close)?)
    }
}

/// Properties.
impl Stream {
    /// `cuStreamGetPriority()`—Returns the priority. 0 is the default; a lower number is more
    /// urgent.
    #[doc(alias = "cuStreamGetPriority")]
    #[doc(alias = "cudaStreamGetPriority")]
    pub fn priority(&self) -> Result<i32> {
        let mut priority = 0;
        let _current = self.bind_for_query()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local; `self` owns it.
        unsafe {
            call!(
                self.driver(),
                cuStreamGetPriority(self.as_raw(), &raw mut priority)
            )
        }?;
        Ok(priority)
    }

    /// `cuStreamGetFlags()`—Returns the flags that the stream was created with.
    #[doc(alias = "cuStreamGetFlags")]
    #[doc(alias = "cudaStreamGetFlags")]
    pub fn flags(&self) -> Result<StreamFlags> {
        let mut flags = 0;
        let _current = self.bind_for_query()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local; `self` owns it.
        unsafe {
            call!(
                self.driver(),
                cuStreamGetFlags(self.as_raw(), &raw mut flags)
            )
        }?;
        Ok(StreamFlags::from_bits_retain(flags))
    }

    /// `cuStreamGetId()`—Returns the id of the stream in the driver and its tools. It is unique in
    /// the process and never reused.
    #[doc(alias = "cuStreamGetId")]
    #[doc(alias = "cudaStreamGetId")]
    pub fn id(&self) -> Result<u64> {
        let mut id = 0;
        let _current = self.bind_for_query()?;
        // SAFETY: the pointer must be writable and the stream alive ← a local; `self` owns it.
        unsafe { call!(self.driver(), cuStreamGetId(self.as_raw(), &raw mut id)) }?;
        Ok(id)
    }

    /// Returns the raw stream. It stays alive as long as any handle of the stream.
    ///
    /// Work that other code queues on it is not ordered with the uses of buffers on other streams.
    /// [`using`](Self::using) orders it.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.state.raw()
    }
}

impl Stream {
    pub(crate) fn of_state(context: &Context, state: Arc<StreamState>) -> Self {
        Self {
            reports: state.reports(),
            state,
            context: context.clone(),
        }
    }

    /// Returns a handle that does not keep the reports, for memory that a report owns.
    pub(crate) fn detached(&self) -> Self {
        Self {
            reports: Arc::default(),
            ..self.clone()
        }
    }

    /// The reports of checked launches on this stream.
    pub(crate) fn reports(&self) -> &Arc<Reports> {
        &self.reports
    }

    /// Makes the context current if this stream's handle needs that, for a call that queues
    /// nothing.
    #[inline]
    pub(crate) fn bind_for_query(&self) -> Result<Option<Current<'_>>, DriverError> {
        self.state.bind_for_query(&self.context)
    }

    /// Makes the context current for an asynchronous copy, if a context of another device may be
    /// current: the copy could fail otherwise. See docs/safety.md, Current contexts of other
    /// devices.
    #[inline]
    pub(crate) fn bind_for_copy(&self) -> Result<Option<Current<'_>>, DriverError> {
        self.context.enter_for_copy()
    }

    /// Makes the context current if `may_be_mapped`, which is the case if a call uses memory that
    /// [may be mapped](crate::memory::Memory::may_be_mapped): a copy of it fails if no context is
    /// current.
    #[inline]
    pub(crate) fn bind_for_mapped(
        &self,
        may_be_mapped: bool,
    ) -> Result<Option<Current<'_>>, DriverError> {
        may_be_mapped.then(|| self.context.enter()).transpose()
    }

    /// Prepares a call that queues work: see [`StreamState::queueing`].
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

    /// Fails if `context` is not the context of this stream.
    #[inline]
    pub(crate) fn expect_context(&self, context: &Context, what: &'static str) -> Result<()> {
        if *context == self.context {
            Ok(())
        } else {
            Err(Error::other_context(what, context, &self.context))
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
