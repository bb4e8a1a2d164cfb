//! Copies between device memory and page-locked host memory that continue after the call has
//! returned (`cuMemcpyHtoDAsync`, `cuMemcpyDtoHAsync`).
//!
//! In C the program must not access or free the memory during the copy. Here a [`Transfer`] owns
//! the host memory until the copy is complete, and a [`CopyScope`] borrows it and waits at its end.

mod scope;

mod batch;
mod boxes;
mod device;
mod error;
mod host_batch;
mod queue_batch;

pub use batch::CopyBatch;
pub use error::TransferError;
pub use host_batch::HostCopyBatch;
pub use scope::CopyScope;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use crate::context::{Context, KeptContext};
use crate::deferred::is_inside_host_function;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::fence::Fence;
use crate::memory::pinned::{expect_locked_for, sealed::Lock, sealed::TOKEN};
use crate::memory::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, PageLocked, expect_len,
};
use crate::observer::Work;
use crate::pending::{self, Completion, Entry, KeepAlive};
use crate::reports::Mark;
use crate::stream::Stream;
use crate::tracking::Access;
use crate::types::WorkKind;

/// A copy in progress, with the page-locked memory that it reads or writes. For copies within the
/// device and for fills, `P` is `()`.
///
/// [`wait`](Self::wait) or `.await` returns the memory. Dropping a transfer does not wait: the
/// memory is freed when the copy is complete.
///
/// If the device is lost, or the copy cannot be waited for, the memory is never freed: the device
/// may still be accessing it.
///
/// ```
/// use cuda_driver::{DeviceBuffer, PinnedBuffer};
/// use cuda_driver::memory::PinnedFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let source = PinnedBuffer::from_host(&context, &[1_u32, 2, 3], PinnedFlags::DEFAULT)?;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
/// let transfer = buffer.copy_from_pinned_async(source, &stream)?;
/// // Other work of the host, while the copy runs.
/// let mut memory = transfer.wait()?;
///
/// memory.fill(0);
/// let back = buffer.copy_to_pinned_async(memory, &stream)?.wait()?;
/// assert_eq!(back[..], [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it owns the memory; dropping it frees that memory after the copy"]
pub struct Transfer<P> {
    memory: Option<P>,
    /// The event after the copy. `None` if there was nothing to copy.
    event: Option<Fence>,
    completion: Option<Completion>,
    /// The checked launches that the copy waits for.
    mark: Option<Mark>,
    on_failure: OnFailure<P>,
    on_drop: fn(P, Fence, &Context, Option<KeptContext>),
    /// The context of the memory, if the copy runs in another context.
    memory_context: Option<KeptContext>,
    /// Declared last: it has to be dropped after the events.
    context: Context,
}

/// Takes the memory of a copy that failed. Returns it if it is not in use any more.
type OnFailure<P> = fn(P, DriverError) -> Option<P>;

impl<P> Transfer<P> {
    /// Returns the context of the stream that runs the copy.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// `cuEventQuery()`—Returns whether the copy is complete.
    ///
    /// # Errors
    ///
    /// A fault of the device.
    #[doc(alias = "cuEventQuery")]
    #[doc(alias = "cudaEventQuery")]
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.event.as_ref().map_or(Ok(true), Fence::query)?)
    }

    /// `cuEventSynchronize()`—Waits until the copy is complete, and returns the memory.
    ///
    /// # Errors
    ///
    /// A fault of the device. The memory is then leaked. [`Error::Violation`] with the violations
    /// of [safe launches](Stream::launch_safe) that used the same memory or stream and that were
    /// not reported. The copy has completed then, and the error has the memory.
    #[doc(alias = "cuEventSynchronize")]
    #[doc(alias = "cudaEventSynchronize")]
    pub fn wait(mut self) -> Result<P, TransferError<P>> {
        let result = self
            .event
            .take()
            .map_or(Ok(()), |event| event.synchronize());
        self.finish(result.map_err(Error::from))
    }

    /// Takes the memory after a wait with this result.
    fn finish(&mut self, result: Result<()>) -> Result<P, TransferError<P>> {
        let memory = self.memory.take();
        match (result, memory) {
            (Ok(()), Some(memory)) => {
                let reported = self.mark.take().map_or(Ok(()), |mark| mark.report());
                match reported {
                    Ok(()) => Ok(memory),
                    Err(error) => Err(TransferError {
                        error,
                        memory: Some(memory),
                    }),
                }
            }
            (Ok(()), None) => Err(TransferError {
                error: Error::AlreadyTaken {
                    what: "the memory of the transfer",
                },
                memory: None,
            }),
            (Err(error), None) => Err(TransferError {
                error,
                memory: None,
            }),
            (Err(error), Some(memory)) => {
                let other = self.memory_context.take();
                Err(failed(error, memory, other, self.on_failure))
            }
        }
    }
}

/// Creates the error of a wait for a copy. It contains `memory` if the memory is not in use any
/// more: the work in a borrowed context is complete when its owner declares it dead
/// ([`Context::borrow_raw`] requires that). Otherwise the memory is leaked, and so is
/// `memory_context`, the context of the memory if the copy runs in another one.
fn failed<P>(
    error: Error,
    memory: P,
    memory_context: Option<KeptContext>,
    on_failure: OnFailure<P>,
) -> TransferError<P> {
    let is_in_use = !matches!(error, Error::ContextGone { .. });
    if is_in_use {
        std::mem::forget(memory_context);
    }
    let memory = match error {
        Error::ContextGone { .. } => Some(memory),
        Error::Driver(error) => on_failure(memory, error),
        // Waiting fails with no other error.
        _ => {
            std::mem::forget(memory);
            None
        }
    };
    TransferError { error, memory }
}

impl<P: Unpin> Future for Transfer<P> {
    type Output = Result<P, TransferError<P>>;

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Result<P, TransferError<P>>> {
        let this = &mut *self;
        if this.completion.is_none()
            && let Some(event) = &this.event
        {
            this.completion = Some(Completion::behind(&this.context, event.clone()));
        }
        let result = match &mut this.completion {
            Some(completion) => ready!(Pin::new(completion).poll(context)),
            None => Ok(()),
        };
        this.event = None;
        Poll::Ready(this.finish(result))
    }
}

impl<P> Drop for Transfer<P> {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        if let Some(event) = self.event.take() {
            let other = self.memory_context.take();
            (self.on_drop)(memory, event, &self.context, other);
        }
    }
}

impl<P> fmt::Debug for Transfer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}

/// Memory of a dropped [`Transfer`] that is freed after its copy, and the context of the memory if
/// the copy runs in another one.
struct Left<P>(P, Option<KeptContext>);

impl<P: Lock + Send> KeepAlive for Left<P> {
    fn abandon(mut self: Box<Self>, error: DriverError) {
        self.0.abandon(error, TOKEN);
        // The copy may still be running, so its memory must not be freed with the context.
        std::mem::forget(self.1.take());
    }
}

fn leave<P: Lock + Send + 'static>(
    memory: P,
    event: Fence,
    context: &Context,
    memory_context: Option<KeptContext>,
) {
    let is_done = !is_inside_host_function() && event.is_done();
    if is_done {
        return drop(memory);
    }
    let mut entry = Entry::new(context);
    entry.fence = Some(event);
    entry.memory = Some(Box::new(Left(memory, memory_context)));
    pending::add(entry);
}

/// Calls `queue` to queue a copy between `memory` and `device` on `stream`, and records an event
/// after it.
///
/// `queue` returns whether it queued anything.
fn start<T: DeviceRepr, P: PageLocked<T> + 'static>(
    memory: P,
    (device, access): (&Memory, Access),
    stream: &Stream,
    queue: impl FnOnce(&P) -> Result<bool>,
) -> Result<Transfer<P>, TransferError<P>> {
    let give_back = |error, memory| {
        Err(TransferError {
            error,
            memory: Some(memory),
        })
    };
    let checked = stream
        .expect_direct("an asynchronous copy of page-locked memory")
        .and_then(|()| expect_locked(stream, memory.context()));
    if let Err(error) = checked {
        return give_back(error, memory);
    }
    let is_elsewhere = memory.context() != stream.context();
    let memory_context = is_elsewhere.then(|| KeptContext::new(memory.context()));
    let event = match queue(&memory) {
        Err(error) => return give_back(error, memory),
        Ok(false) => None,
        Ok(true) => match event_after(stream) {
            Ok(event) => event,
            Err(error) => return Err(failed(error, memory, memory_context, abandon_lock::<P>)),
        },
    };
    Ok(Transfer {
        memory: Some(memory),
        event,
        completion: None,
        mark: device.mark(access, stream),
        on_failure: abandon_lock::<P>,
        on_drop: leave::<P>,
        memory_context,
        context: stream.context().clone(),
    })
}

/// Records an event after the work on `stream`. Returns `None` if the work is complete.
///
/// # Errors
///
/// The error of a wait for the stream: without an event, only that shows that the work is complete.
fn event_after(stream: &Stream) -> Result<Option<Fence>> {
    match stream.state().record(stream.context()) {
        Ok(event) => Ok(Some(event)),
        Err(_) => {
            stream.state().synchronize(stream.context())?;
            Ok(None)
        }
    }
}

fn abandon_lock<P: Lock>(mut memory: P, error: DriverError) -> Option<P> {
    memory.abandon(error, TOKEN);
    None
}

/// Fails if copies on `stream` must not use page-locked memory of `context`.
fn expect_locked(stream: &Stream, context: &Context) -> Result<()> {
    expect_locked_for(stream.context(), context, "the page-locked memory")
}

/// Asynchronous copies to page-locked memory.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// Queues the copy on `stream`. Returns whether there was anything to copy.
    ///
    /// # Safety
    ///
    /// `to` has room for as many elements until the copy is complete, and nothing else accesses
    /// them.
    unsafe fn queue_to_host(&self, to: *mut T, stream: &Stream) -> Result<bool> {
        if self.is_empty() || size_of::<T>() == 0 {
            return Ok(false);
        }
        let bytes = self.len() * size_of::<T>();
        self.memory.use_on(
            stream,
            "an asynchronous copy to page-locked memory",
            self.access,
            || {
                let _current = stream.bind_for_copy()?;
                stream.observed(Work::of_kind(WorkKind::CopyToHost, bytes), || {
                    // SAFETY: both sides must hold `bytes` until the copy is complete ← the view is
                    // within its allocation, whose free waits for this use; the caller guarantees
                    // it for `to`.
                    unsafe {
                        call!(
                            stream.driver(),
                            cuMemcpyDtoHAsync_v2(to.cast(), self.as_raw(), bytes, stream.as_raw())
                        )
                    }
                })
            },
        )?;
        Ok(true)
    }

    /// `cuMemcpyDtoHAsync()`—Queues a copy of the elements to page-locked memory on `stream`. The
    /// copy is ordered with other uses of the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] if the lengths differ. [`Error::OtherContext`] if the stream and
    /// the buffer belong to different contexts, or if the page-locked memory belongs to another
    /// driver or to another context that is borrowed.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_to_pinned_async<P: PageLocked<T> + 'static>(
        &self,
        destination: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        start(
            destination,
            (self.memory, self.access),
            stream,
            |destination| {
                expect_len(self.len(), destination.len())?;
                // SAFETY: `destination` must have room that nothing else accesses until the copy is
                // complete ← the lengths are equal, and the transfer owns the memory until then.
                unsafe { self.queue_to_host(destination.start().cast(), stream) }
            },
        )
    }
}

/// Asynchronous copies from page-locked memory.
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// Queues the copy on `stream`. Returns whether there was anything to copy.
    ///
    /// # Safety
    ///
    /// `from` holds as many elements until the copy is complete, and nothing writes them.
    unsafe fn queue_from_host(&mut self, from: *const T, stream: &Stream) -> Result<bool> {
        if self.is_empty() || size_of::<T>() == 0 {
            return Ok(false);
        }
        let bytes = self.len() * size_of::<T>();
        self.memory.use_on(
            stream,
            "an asynchronous copy from page-locked memory",
            self.access,
            || {
                let _current = stream.bind_for_copy()?;
                stream.observed(Work::of_kind(WorkKind::CopyToDevice, bytes), || {
                    // SAFETY: both sides must hold `bytes` until the copy is complete ← the view is
                    // within its allocation, whose free waits for this use; the caller guarantees
                    // it for `from`.
                    unsafe {
                        call!(
                            stream.driver(),
                            cuMemcpyHtoDAsync_v2(
                                self.as_raw(),
                                from.cast(),
                                bytes,
                                stream.as_raw()
                            )
                        )
                    }
                })
            },
        )?;
        Ok(true)
    }

    /// `cuMemcpyHtoDAsync()`—Queues a copy from page-locked memory to the elements on `stream`. The
    /// copy is ordered with other uses of the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] if the lengths differ. [`Error::OtherContext`] if the stream and
    /// the buffer belong to different contexts, or if the page-locked memory belongs to another
    /// driver or to another context that is borrowed.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_from_pinned_async<P: PageLocked<T> + 'static>(
        &mut self,
        source: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        start(source, (self.memory, self.access), stream, |source| {
            expect_len(source.len(), self.len())?;
            // SAFETY: `source` must hold as many elements, which nothing writes until the copy is
            // complete ← the lengths are equal, and the transfer owns the memory until then.
            unsafe { self.queue_from_host(source.start().cast_const().cast(), stream) }
        })
    }
}

/// Asynchronous copies from and to page-locked memory.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// Queues a copy of all elements to page-locked memory: see
    /// [`DeviceSlice::copy_to_pinned_async`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_pinned_async`] does.
    pub fn copy_to_pinned_async<P: PageLocked<T> + 'static>(
        &self,
        destination: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        self.as_slice().copy_to_pinned_async(destination, stream)
    }

    /// Queues a copy from page-locked memory to all elements: see
    /// [`DeviceSliceMut::copy_from_pinned_async`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_pinned_async`] does.
    pub fn copy_from_pinned_async<P: PageLocked<T> + 'static>(
        &mut self,
        source: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        self.as_mut_slice().copy_from_pinned_async(source, stream)
    }
}
