//! Copies within the device and fills that return a token to wait for.

use super::{Transfer, event_after};
use crate::error::{DriverError, Result};
use crate::memory::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;

/// Copies and fills whose end the program can wait for.
///
/// The transfer borrows no buffer: other uses of both sides are ordered with the copy, and the
/// memory is freed after it.
///
/// ```
/// use cuda_driver::DeviceBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let source = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// let mut target = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
/// let copies = stream.fork()?;
/// let transfer = target.copy_from_async(&source, &copies)?;
/// // Other work of the host, while the copy runs.
/// transfer.wait()?;
/// assert_eq!(target.to_vec()?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemcpyDtoDAsync(stream)`—Queues a copy as [`copy_from_on`](Self::copy_from_on) does, and
    /// returns a token to wait for.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_from_on`](Self::copy_from_on) does.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_from_async<'s>(
        &mut self,
        source: impl Into<DeviceSlice<'s, T>>,
        stream: &Stream,
    ) -> Result<Transfer<()>> {
        stream.expect_direct("DeviceSliceMut::copy_from_async")?;
        self.copy_from_on(source, stream)?;
        self.transfer_on(stream)
    }

    /// `cuMemcpyPeerAsync(stream)`—Queues a copy from another context as
    /// [`copy_from_peer_on`](Self::copy_from_peer_on) does, and returns a token to wait for.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_from_peer_on`](Self::copy_from_peer_on) does.
    #[doc(alias = "cuMemcpyPeerAsync")]
    #[doc(alias = "cudaMemcpyPeerAsync")]
    pub fn copy_from_peer_async<'s>(
        &mut self,
        source: impl Into<DeviceSlice<'s, T>>,
        stream: &Stream,
    ) -> Result<Transfer<()>> {
        stream.expect_direct("DeviceSliceMut::copy_from_peer_async")?;
        self.copy_from_peer_on(source, stream)?;
        self.transfer_on(stream)
    }

    /// `cuMemsetD8Async(value, stream)`—Queues a fill as [`fill_on`](Self::fill_on) does, and
    /// returns a token to wait for.
    ///
    /// # Errors
    ///
    /// Fails as [`fill_on`](Self::fill_on) does.
    #[doc(alias = "cuMemsetD8Async")]
    #[doc(alias = "cudaMemsetAsync")]
    #[doc(alias = "cuMemsetD16Async")]
    #[doc(alias = "cuMemsetD32Async")]
    pub fn fill_async(&mut self, value: T, stream: &Stream) -> Result<Transfer<()>> {
        stream.expect_direct("DeviceSliceMut::fill_async")?;
        self.fill_on(value, stream)?;
        self.transfer_on(stream)
    }

    /// Returns the token of the copy or fill of these elements that was queued last on `stream`.
    fn transfer_on(&self, stream: &Stream) -> Result<Transfer<()>> {
        let event = match self.bytes() {
            0 => None,
            _ => event_after(stream)?,
        };
        Ok(Transfer {
            memory: Some(()),
            event,
            completion: None,
            mark: self.memory.mark(self.access, stream),
            on_failure: keep_nothing,
            on_drop: |(), _, _, _| {},
            memory_context: None,
            context: stream.context().clone(),
        })
    }
}

/// Copies and fills whose end the program can wait for.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// `cuMemcpyDtoDAsync(stream)`—Queues a copy from another buffer or a view on `stream`, and
    /// returns a token to wait for. See [`DeviceSliceMut::copy_from_async`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_on`] does.
    pub fn copy_from_async<'s>(
        &mut self,
        source: impl Into<DeviceSlice<'s, T>>,
        stream: &Stream,
    ) -> Result<Transfer<()>> {
        self.as_mut_slice().copy_from_async(source, stream)
    }

    /// `cuMemsetD8Async(value, stream)`—Queues a fill of all elements with `value`, and returns a
    /// token to wait for. See [`DeviceSliceMut::fill_async`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::fill_on`] does.
    pub fn fill_async(&mut self, value: T, stream: &Stream) -> Result<Transfer<()>> {
        self.as_mut_slice().fill_async(value, stream)
    }
}

/// The memory of a copy within the device is in no use by the host, so nothing is kept.
fn keep_nothing((): (), _: DriverError) -> Option<()> {
    Some(())
}
