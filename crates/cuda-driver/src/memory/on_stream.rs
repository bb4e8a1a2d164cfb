//! Copies and fills on a stream of the caller's choice.
//!
//! In C every call names a stream, and the program orders it with the other streams that use the
//! memory. Here a method of a buffer or view without a stream runs on the owning stream (of the
//! destination, if both sides are buffers). These methods name another stream, and so do calls on a
//! stream, such as `stream.copy`. Either way the call is ordered with the other uses of both sides.

use super::pitched::{Rows, Side, queue};
use super::recorder::Part;
use super::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, PitchedSlice, PitchedSliceMut,
    expect_len,
};
use crate::driver::call;
use crate::error::Result;
use crate::observer::Work;
use crate::stream::Stream;
use crate::types::WorkKind;

/// Copies and fills on a stream of the caller's choice.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Stream};
/// use cuda_driver::stream::StreamFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let copies = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
/// let source = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// let mut target = DeviceBuffer::<u32>::zeroed(&stream, 6)?;
/// let (mut lower, mut upper) = target.as_mut_slice().split_at_mut(3)?;
/// lower.copy_from_on(&source, &copies)?;
/// upper.fill_on(7, &copies)?;
/// // `to_vec` runs on the owning stream, and waits for the copy and the fill.
/// assert_eq!(target.to_vec()?, [1, 2, 3, 7, 7, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemcpyDtoDAsync(stream)`—Queues a copy from other memory of the same context on `stream`.
    /// The copy is ordered with other uses of both sides.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both views have the same
    /// length, or [`Error::OtherContext`](crate::Error::OtherContext) if the source or the stream
    /// belongs to another context.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_from_on<'s>(
        &mut self,
        source: impl Into<DeviceSlice<'s, T>>,
        stream: &Stream,
    ) -> Result<()> {
        let source = source.into();
        expect_len(source.len(), self.len())?;
        if self.is_empty() || size_of::<T>() == 0 {
            return Ok(());
        }
        let parts = [source.part(), self.part()];
        Memory::queue_all(stream, "DeviceSliceMut::copy_from", parts, |stream| {
            let _current = stream.bind_for_copy()?;
            stream.observed(Work::of_kind(WorkKind::CopyOnDevice, self.bytes()), || {
                // SAFETY: both ranges must be valid until the copy completes, and must not overlap
                // ← the lengths are equal, and both views are within their allocations, whose frees
                // wait for this use. The ranges do not overlap because this view is borrowed
                // mutably, or because the caller of `alias_mut` guarantees it.
                unsafe {
                    call!(
                        stream.driver(),
                        cuMemcpyDtoDAsync_v2(
                            self.as_raw(),
                            source.as_raw(),
                            self.bytes(),
                            stream.as_raw()
                        )
                    )
                }
            })
        })
    }

    /// `cuMemsetD8Async(0, stream)`—Queues a fill of all elements with zero bits on `stream`.
    ///
    /// # Errors
    ///
    /// Fails as [`fill_on`](Self::fill_on) does.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cudaMemsetAsync")]
    pub fn set_zero_on(&mut self, stream: &Stream) -> Result<()> {
        self.fill_on(T::zeroed(), stream)
    }

    /// `cuMemcpyHtoDAsync(stream)`—Copies `source` over the elements on `stream`. Returns when
    /// `source` may be reused, as [`copy_from_host`](Self::copy_from_host) does.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_from_host`](Self::copy_from_host), and
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream belongs to another
    /// context.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_from_host_on(&mut self, source: &[T], stream: &Stream) -> Result<()> {
        expect_context(stream, self.memory)?;
        self.upload(stream, source)
    }
}

/// Copies on a stream of the caller's choice.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuMemcpyDtoHAsync(stream)`, `cuStreamSynchronize()`—Copies the elements to `destination` on
    /// `stream`. Returns when the copy has completed, as [`copy_to_host`](Self::copy_to_host) does.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_to_host`](Self::copy_to_host), and
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream belongs to another
    /// context.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_to_host_on(&self, destination: &mut [T], stream: &Stream) -> Result<()> {
        expect_context(stream, self.memory)?;
        expect_len(self.len(), destination.len())?;
        // SAFETY: the destination must be writable for all elements ← it has the same length, and
        // is borrowed mutably.
        unsafe { self.download(stream, destination.as_mut_ptr()) }
    }
}

/// Copies and fills on a stream of the caller's choice.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// `cuMemsetD8Async(0, stream)`—Queues a fill of all elements with zero bits on `stream`. See
    /// [`DeviceSliceMut::fill_on`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::fill_on`] does.
    pub fn set_zero_on(&mut self, stream: &Stream) -> Result<()> {
        self.as_mut_slice().set_zero_on(stream)
    }

    /// `cuMemsetD8Async(value, stream)` and related calls—Queues a fill of all elements with
    /// `value` on `stream`. See [`DeviceSliceMut::fill_on`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::fill_on`] does.
    pub fn fill_on(&mut self, value: T, stream: &Stream) -> Result<()> {
        self.as_mut_slice().fill_on(value, stream)
    }

    /// `cuMemcpyDtoDAsync(stream)`—Queues a copy from another buffer or a view on `stream`. See
    /// [`DeviceSliceMut::copy_from_on`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_on`] does.
    pub fn copy_from_on<'s>(
        &mut self,
        source: impl Into<DeviceSlice<'s, T>>,
        stream: &Stream,
    ) -> Result<()> {
        self.as_mut_slice().copy_from_on(source, stream)
    }

    /// `cuMemcpyHtoDAsync(stream)`—Copies `source` into the buffer on `stream`. Returns when
    /// `source` may be reused. See [`DeviceSliceMut::copy_from_host_on`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_host_on`] does.
    pub fn copy_from_host_on(&mut self, source: &[T], stream: &Stream) -> Result<()> {
        self.as_mut_slice().copy_from_host_on(source, stream)
    }

    /// `cuMemcpyDtoHAsync(stream)`, `cuStreamSynchronize()`—Copies the buffer to `destination` on
    /// `stream`. Returns when the copy has completed. See [`DeviceSlice::copy_to_host_on`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_host_on`] does.
    pub fn copy_to_host_on(&self, destination: &mut [T], stream: &Stream) -> Result<()> {
        self.as_slice().copy_to_host_on(destination, stream)
    }
}

/// Copies on a stream of the caller's choice.
impl<T: DeviceRepr> PitchedSliceMut<'_, T> {
    /// `cuMemcpy3DAsync(stream)` or `cuMemcpy2DAsync(stream)`—Queues a copy from other memory of
    /// the same context on `stream`. The copy is ordered with other uses of both sides.
    ///
    /// # Errors
    ///
    /// [`Error::ExtentMismatch`](crate::Error::ExtentMismatch) unless both views have the same
    /// extent, or [`Error::OtherContext`](crate::Error::OtherContext) if the source or the stream
    /// belongs to another context.
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cudaMemcpy2DAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    #[doc(alias = "cudaMemcpy3DAsync")]
    pub fn copy_from_on(&mut self, source: &PitchedSlice<'_, T>, stream: &Stream) -> Result<()> {
        self.extent().expect(source.extent())?;
        if self.rows.bytes() == 0 {
            return Ok(());
        }
        let (to, from) = (Side::Device(self.rows), Side::Device(source.rows));
        let part = |memory, access, rows: Rows| Part {
            memory,
            access,
            address: rows.address,
            bytes: rows.span_bytes(),
        };
        let parts = [
            part(source.memory, source.access, source.rows),
            part(self.memory, self.access, self.rows),
        ];
        Memory::queue_all(stream, "PitchedSliceMut::copy_from", parts, |stream| {
            // SAFETY: both sides must hold the rows until the copy has completed, and must not
            // overlap ← the extents are equal, and both views are within their allocations, whose
            // frees wait for this use. The ranges do not overlap because this view is borrowed
            // mutably, or because the caller of `alias_mut` guarantees it.
            unsafe { queue(stream, to, from, &self.rows) }
        })
    }

    /// `cuMemcpy3DAsync(stream)` or `cuMemcpy2DAsync(stream)`—Copies `source`, whose rows are
    /// contiguous, over the elements on `stream`. Returns when `source` may be reused.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_host_on`] does.
    pub fn copy_from_host_on(&mut self, source: &[T], stream: &Stream) -> Result<()> {
        expect_context(stream, self.memory)?;
        self.upload(stream, source)
    }
}

/// Copies on a stream of the caller's choice.
impl<T: DeviceRepr> PitchedSlice<'_, T> {
    /// `cuMemcpy3DAsync(stream)` or `cuMemcpy2DAsync(stream)`, `cuStreamSynchronize()`—Copies the
    /// elements to `destination`, with contiguous rows, on `stream`. Returns when the copy has
    /// completed.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_host_on`] does.
    pub fn copy_to_host_on(&self, destination: &mut [T], stream: &Stream) -> Result<()> {
        expect_context(stream, self.memory)?;
        expect_len(self.extent().len::<T>()?, destination.len())?;
        // SAFETY: the destination must be writable for all elements ← it has the same length, and
        // is borrowed mutably.
        unsafe { self.download(stream, destination.as_mut_ptr()) }
    }
}

/// Fails unless `stream` belongs to the context of `memory`. A copy through the host takes a block
/// of the stream's context before the memory is acquired, so it has to check this first.
pub(crate) fn expect_context(stream: &Stream, memory: &Memory) -> Result<()> {
    stream.expect_context(memory.owning_stream().context(), "a buffer")
}
