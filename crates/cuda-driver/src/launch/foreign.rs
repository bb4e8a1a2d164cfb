//! Work that other code queues on a stream, ordered with the uses of buffers.

use std::fmt;
use std::marker::PhantomData;

use cuda_sys::CUstream;

use super::KernelArgs;
use super::launch::{acquire, commit};
use super::recorded::recorded_uses;
use crate::error::{Error, Result};
use crate::memory::recorder_of;
use crate::stream::Stream;
use crate::stream_state::Kind;
use crate::tracking::{ForeignScope, Scope};

/// Work of other code.
impl Stream {
    /// Calls `queue` with the raw stream, for work that other code queues there: a C library such
    /// as cuBLAS or NCCL, or raw calls.
    ///
    /// `uses` is a tuple of the buffers and views that this work uses, or an
    /// [`ArgList`](super::ArgList): `&buffer` if the work only reads it, and `&mut buffer` if it
    /// writes it. Before `queue` is called, the stream is made to wait for conflicting uses on
    /// other streams. Afterwards the uses are recorded, even if `queue` panics, so later
    /// conflicting uses wait for them. [`as_raw`](Self::as_raw) alone orders nothing.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let other = cuda_driver::Stream::new(&context, cuda_driver::stream::StreamFlags::NON_BLOCKING, 0)?;
    /// let input = DeviceBuffer::filled(&stream, 100, 7_u8)?;
    /// let mut output = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    /// let (from, to) = (input.as_raw(), output.as_raw());
    /// // SAFETY: the copy is queued on the stream, reads `input` and writes `output`.
    /// let status = unsafe {
    ///     other.using((&input, &mut output), |stream| {
    ///         driver.library().cuMemcpyDtoDAsync_v2(to, from, 100, stream)
    ///     })
    /// }?;
    /// assert_eq!(status, cuda_driver::error::Status::CUDA_SUCCESS);
    /// // `to_vec` waits for the copy.
    /// assert_eq!(output.to_vec()?, [7; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// No lock is held while `queue` runs, so it may use this crate, and wait for other threads. If
    /// a graph uses the memory, or if it may have [aliases](crate::DeviceBuffer::allow_aliases), a
    /// conflicting launch of the graph or use of an alias by another thread waits until `queue` has
    /// returned. On the thread that runs `queue` it fails with [`Error::UsedByOtherCode`], as does
    /// any other call there that would have to wait for a closure on another thread.
    ///
    /// If an [eager capture](crate::graph::EagerCapture) captures the calls on the stream, `queue`
    /// receives the stream on which the capture is made, and the graph leases the memory of `uses`.
    ///
    /// # Errors
    ///
    /// `queue` is not called if there is an error. [`Error::OtherContext`] if a buffer does not
    /// belong to the context of the stream. In an eager capture, `queue` has been called if the
    /// error is that the work has invalidated the capture.
    ///
    /// [`Error::OtherContext`]: crate::Error::OtherContext
    /// [`Error::UsedByOtherCode`]: crate::Error::UsedByOtherCode
    ///
    /// # Safety
    ///
    /// - The work uses only memory that `uses` permits, and memory that the caller orders in
    ///   another way.
    /// - When `queue` returns or panics, all of this work is queued on the stream, or on streams
    ///   that the stream has been made to wait for. The raw stream is not used for these buffers
    ///   afterwards.
    /// - While `queue` runs, it does not use this memory through copies of an
    ///   [`InPlace`](crate::memory::InPlace) argument among `uses`, and no first
    ///   [alias](crate::DeviceBuffer::alias_mut) of this memory is made on any thread.
    /// - `queue` neither begins nor ends a capture of the stream.
    /// - The work is queued on the stream that `queue` receives, not on another handle of the
    ///   stream. If an eager capture captures it, the first requirement holds for each launch of
    ///   the graph, whatever has been written to the memory by then.
    pub unsafe fn using<A: KernelArgs, R>(
        &self,
        uses: A,
        queue: impl FnOnce(CUstream) -> R,
    ) -> Result<R> {
        if let Some(recorder) = recorder_of(self, "Stream::using")? {
            let mut queue = Some(queue);
            let mut result = None;
            recorder.foreign(recorded_uses(&uses)?, &mut |raw| {
                // The recorder calls the closure once.
                result = queue.take().map(|queue| queue(raw));
            })?;
            return result.ok_or(Error::Internal {
                what: "the capture did not call the closure of `Stream::using`",
            });
        }
        let recording = ForeignUse::begin(self, "Stream::using", uses)?;
        let result = queue(self.as_raw());
        drop(recording);
        Ok(result)
    }

    /// Begins work of other code on this stream, as [`using`](Self::using) does, and returns a
    /// guard that ends it. This is for functions that return the raw handle together with such a
    /// guard; where a closure is possible, `using` has fewer requirements.
    ///
    /// Dropping the guard records the uses, so that later conflicting uses wait for the work. While
    /// the guard exists, conflicting launches of graphs and uses of aliases wait, as they do while
    /// the closure of `using` runs. The guard stays on its thread.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let other = cuda_driver::Stream::new(&context, cuda_driver::stream::StreamFlags::NON_BLOCKING, 0)?;
    /// let mut output = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    /// let to = output.as_raw();
    /// // SAFETY: the fill is queued on the stream before the guard is dropped, and writes `output`.
    /// let work = unsafe { other.begin_use((&mut output,)) }?;
    /// // SAFETY: the memory has 100 bytes.
    /// let status = unsafe { driver.library().cuMemsetD8Async(to, 7, 100, work.raw()) };
    /// assert_eq!(status, cuda_driver::error::Status::CUDA_SUCCESS);
    /// drop(work);
    /// // `to_vec` waits for the fill.
    /// assert_eq!(output.to_vec()?, [7; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::OtherContext`] if a buffer does not belong to the context of the stream.
    /// - [`Error::EagerCapture`] if calls on the stream are being captured: only `using` can
    ///   capture work of other code.
    /// - [`Error::Unsupported`] for the default streams of C, whose context is current only during
    ///   a closure.
    ///
    /// # Safety
    ///
    /// - The requirements of [`using`](Self::using) apply, with the time until the guard is dropped
    ///   in place of the time in which `queue` runs.
    /// - The guard is dropped, not forgotten.
    pub unsafe fn begin_use<A: KernelArgs>(&self, uses: A) -> Result<ForeignUse<'_, A>> {
        if self.state().kind() != Kind::Own {
            return Err(Error::Unsupported {
                what: "a guard for work of other code on a default stream of C; use \
                       `Stream::using`, or a stream of `Stream::new`",
            });
        }
        ForeignUse::begin(self, "Stream::begin_use", uses)
    }
}

/// Work of other code that has begun on a stream: see [`Stream::begin_use`]. Dropping it records
/// the uses of memory, also while a thread panics.
#[must_use = "the work ends when this guard is dropped"]
pub struct ForeignUse<'a, A: KernelArgs> {
    /// `None` only while it is dropped.
    uses: Option<A>,
    /// Dropped after the uses were recorded, while the scope may hold the replay lock.
    _foreign: ForeignScope<'a>,
    scope: Scope<'a>,
    /// Not `Send`: the uses in progress are those of a thread.
    of_thread: PhantomData<*const ()>,
}

impl<'a, A: KernelArgs> ForeignUse<'a, A> {
    /// Waits for conflicting uses on other streams, and excludes those that no borrow excludes.
    fn begin(stream: &'a Stream, call: &'static str, uses: A) -> Result<Self> {
        let mut scope = Scope::acquire(stream, call, |scope| acquire(scope, &uses))?;
        let mut foreign = ForeignScope::new(stream.context());
        uses.each_tracked(&mut |tracked| {
            if let Some(memory) = tracked.memory {
                foreign.begin(&memory.tracker, tracked.access);
            }
            Ok(())
        })?;
        // From now on `foreign` excludes the uses that the lock excluded.
        scope.unlock_replays();
        Ok(Self {
            uses: Some(uses),
            _foreign: foreign,
            scope,
            of_thread: PhantomData,
        })
    }

    /// Returns the raw stream for the work.
    #[must_use]
    pub fn raw(&self) -> CUstream {
        self.scope.stream.as_raw()
    }

    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.scope.stream
    }
}

impl<A: KernelArgs> Drop for ForeignUse<'_, A> {
    fn drop(&mut self) {
        if let Some(uses) = self.uses.take() {
            commit(&mut self.scope, uses);
        }
    }
}

impl<A: KernelArgs> fmt::Debug for ForeignUse<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignUse({:?})", self.raw())
    }
}
