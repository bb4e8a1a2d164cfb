//! Copies that borrow page-locked memory, in a scope that waits for them. C has no counterpart.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;

use super::expect_locked;
use crate::error::{Error, Result};
use crate::memory::{
    DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, PageLocked, expect_len, resolve,
};
use crate::reports::Mark;
use crate::stream::Stream;
use crate::tracking::Access;

/// A scope for copies that borrow page-locked memory: see [`Stream::copy_scope`].
///
/// ```
/// use cuda_driver::{DeviceBuffer, PinnedBuffer};
/// use cuda_driver::memory::PinnedFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let source = PinnedBuffer::from_host(&context, &[1_u32, 2, 3], PinnedFlags::DEFAULT)?;
/// let mut target = PinnedBuffer::<u32>::zeroed(&context, 3, PinnedFlags::DEFAULT)?;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
/// stream.copy_scope(|scope| {
///     scope.copy_from_host(&mut buffer.as_mut_slice(), &source)?;
///     scope.copy_to_host(&buffer.as_slice(), &mut target)
///     // Other work of the host, while the copies run.
/// })?;
/// assert_eq!(target[..], source[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CopyScope<'scope, 'env: 'scope> {
    stream: &'scope Stream,
    /// Whether a copy was queued.
    is_used: Cell<bool>,
    /// The memory of the copies, while violations may be unread.
    mark: RefCell<Option<Mark>>,
    /// The lifetimes are invariant, like those of `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Asynchronous copies that borrow their memory.
impl Stream {
    /// `cuStreamSynchronize()`—Calls `f` with a scope in which copies can borrow page-locked memory
    /// of the program. Waits for the copies before it returns, even if `f` panics.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, PinnedBuffer};
    /// use cuda_driver::memory::PinnedFlags;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let buffer = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0])?;
    /// let mut pinned = PinnedBuffer::<f32>::zeroed(&context, 3, PinnedFlags::DEFAULT)?;
    /// stream.copy_scope(|scope| {
    ///     scope.copy_to_host(&buffer.as_slice(), &mut pinned)
    ///     // Other work of the host, while the copy runs.
    /// })?;
    /// assert_eq!(pinned[..], [1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If waiting for the stream fails, because the device is lost, the process is aborted: the
    /// copies may still be writing memory that the program would access again. A
    /// [`Transfer`](crate::memory::Transfer) owns its memory and returns an error instead.
    ///
    /// The error type of `f` is [`Error`], so that `Ok(())` needs no type annotation.
    /// [`try_copy_scope`](Self::try_copy_scope) accepts other error types.
    ///
    /// # Errors
    ///
    /// The error that `f` returns. [`Error::Violation`] with the violations of
    /// [safe launches](Self::launch_safe) that used the same memory or stream and that were not
    /// reported. The copies have completed then.
    pub fn copy_scope<'env, R>(
        &'env self,
        f: impl for<'scope> FnOnce(&'scope CopyScope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.try_copy_scope(f)
    }

    /// Does the same as [`copy_scope`](Self::copy_scope) for a closure that fails with an error of
    /// the caller.
    ///
    /// ```
    /// use cuda_driver::{DeviceBuffer, PinnedBuffer};
    /// use cuda_driver::memory::PinnedFlags;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let text = "1 2 x";
    /// let buffer = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0])?;
    /// let mut pinned = PinnedBuffer::<f32>::zeroed(&context, 3, PinnedFlags::DEFAULT)?;
    /// let parsed = stream.try_copy_scope(|scope| {
    ///     scope.copy_to_host(&buffer.as_slice(), &mut pinned)?;
    ///     // While the copy runs, other work of the host, which fails in its own way.
    ///     let numbers: Vec<f32> = text.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    ///     Ok::<_, Box<dyn std::error::Error>>(numbers)
    /// });
    /// assert!(parsed.unwrap_err().is::<std::num::ParseFloatError>());
    /// assert_eq!(pinned[..], [1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`copy_scope`](Self::copy_scope) does.
    pub fn try_copy_scope<'env, R, E: From<Error>>(
        &'env self,
        f: impl for<'scope> FnOnce(&'scope CopyScope<'scope, 'env>) -> Result<R, E>,
    ) -> Result<R, E> {
        let scope = CopyScope {
            stream: self,
            is_used: Cell::new(false),
            mark: RefCell::new(None),
            scope: PhantomData,
            env: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        // The work in a borrowed context is complete when its owner declares it dead, which
        // `Context::borrow_raw` requires.
        if scope.is_used.get()
            && let Err(error) = self
                .state()
                .synchronize(self.context())
                .map_err(Error::from)
            && !matches!(error, Error::ContextGone { .. })
        {
            // Not `eprintln!`, which panics if stderr is closed.
            let _ = writeln!(
                io::stderr(),
                "cuda-driver: abort: waiting for copies of borrowed memory failed, and they may still be running: {error}"
            );
            process::abort();
        }
        let result = result.unwrap_or_else(|panic| resume_unwind(panic))?;
        if scope.is_used.get() {
            match scope.mark.take() {
                Some(mark) => mark.report_until_now()?,
                None => self.report_violations()?,
            }
        }
        Ok(result)
    }
}

impl<'scope> CopyScope<'scope, '_> {
    /// `cuMemcpyDtoHAsync()`—Queues a copy of the elements of `source` to page-locked memory.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] if the lengths differ. [`Error::OtherContext`] if the stream and
    /// the buffer belong to different contexts, or if the page-locked memory belongs to another
    /// driver or to another context that is borrowed.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_to_host<'s, T: DeviceRepr, P: PageLocked<T>>(
        &'scope self,
        source: impl Into<DeviceSlice<'s, T>>,
        destination: &'scope mut P,
    ) -> Result<()> {
        self.copy_to_host_part(source, destination, ..)
    }

    /// Queues a copy of the elements of `source` to the elements of `range` of page-locked memory.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_to_host`](Self::copy_to_host) does. [`Error::OutOfRange`] if `range` is
    /// outside of the memory.
    pub fn copy_to_host_part<'s, T: DeviceRepr, P: PageLocked<T>>(
        &'scope self,
        source: impl Into<DeviceSlice<'s, T>>,
        destination: &'scope mut P,
        range: impl RangeBounds<usize>,
    ) -> Result<()> {
        let source = source.into();
        expect_locked(self.stream, destination.context())?;
        let len = destination.len();
        let (start, len) = resolve(range, len)?;
        expect_len(source.len(), len)?;
        let first = destination.start().cast::<T>().wrapping_add(start);
        // SAFETY: `first` must have room that nothing else accesses until the copy is complete ←
        // the range is within the memory, which is borrowed for the whole scope, and the scope ends
        // after the copy.
        let is_queued = unsafe { source.queue_to_host(first, self.stream) }?;
        self.note((source.memory, source.access), is_queued);
        Ok(())
    }

    /// `cuMemcpyHtoDAsync()`—Queues a copy from page-locked memory to the elements of
    /// `destination`.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] if the lengths differ. [`Error::OtherContext`] if the stream and
    /// the buffer belong to different contexts, or if the page-locked memory belongs to another
    /// driver or to another context that is borrowed.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_from_host<'s, T: DeviceRepr, P: PageLocked<T>>(
        &'scope self,
        destination: impl Into<DeviceSliceMut<'s, T>>,
        source: &'scope P,
    ) -> Result<()> {
        self.copy_from_host_part(destination, source, ..)
    }

    /// Queues a copy from the elements of `range` of page-locked memory to the elements of
    /// `destination`.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_from_host`](Self::copy_from_host) does. [`Error::OutOfRange`] if `range` is
    /// outside of the memory.
    pub fn copy_from_host_part<'s, T: DeviceRepr, P: PageLocked<T>>(
        &'scope self,
        destination: impl Into<DeviceSliceMut<'s, T>>,
        source: &'scope P,
        range: impl RangeBounds<usize>,
    ) -> Result<()> {
        let mut destination = destination.into();
        expect_locked(self.stream, source.context())?;
        let len = source.len();
        let (start, len) = resolve(range, len)?;
        expect_len(len, destination.len())?;
        let first = source.start().cast_const().cast::<T>().wrapping_add(start);
        // SAFETY: `first` must hold as many elements, which nothing writes until the copy is
        // complete ← the range is within the memory, which is borrowed for the whole scope, and the
        // scope ends after the copy.
        let is_queued = unsafe { destination.queue_from_host(first, self.stream) }?;
        self.note((destination.memory, destination.access), is_queued);
        Ok(())
    }

    /// Records whether a copy of this memory was queued.
    pub(super) fn note(&self, (memory, access): (&Memory, Access), is_queued: bool) {
        if !is_queued {
            return;
        }
        self.is_used.set(true);
        let mut mark = self.mark.borrow_mut();
        match &mut *mark {
            Some(mark) => memory.add_to(mark, access),
            None => *mark = memory.mark(access, self.stream),
        }
    }

    /// Returns the stream of the scope.
    #[must_use]
    pub fn stream(&self) -> &'scope Stream {
        self.stream
    }
}

impl fmt::Debug for CopyScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyScope")
            .field("stream", self.stream)
            .finish_non_exhaustive()
    }
}
