//! Copies between contexts.
//!
//! C requires both contexts in the call and leaves the order with other streams to the program.
//! Here each view knows its context, and the copy is ordered with the uses of both sides.

use cuda_sys::CUdeviceptr;

use super::on_stream::expect_context;
use super::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, expect_len};
use crate::context::{Context, ReplayLock};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::observer::Work;
use crate::stream::Stream;
use crate::tracking::{Blocked, Scope, retry};
use crate::types::WorkKind;

/// Copies from memory of another context.
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemcpyPeerAsync()`—Queues a copy from memory of any context of the same driver, on the
    /// owning stream of this view's buffer.
    ///
    /// The devices do not need peer access to each other: without it, the driver copies through
    /// host memory. The copy waits for conflicting uses of both sides on other streams, and later
    /// uses wait for the copy, as within one context. Until the source is used again, the copy may
    /// keep the context of this buffer alive. If all handles of that context were dropped by then,
    /// it is destroyed on a separate thread.
    ///
    /// If the context of the source is [borrowed](crate::Context::borrow_raw), the elements are
    /// copied to the host in that context and from the host in this one, and the call returns when
    /// the source has been read. The reason is that the owner of a borrowed context may destroy it
    /// at any time and cannot wait for a copy that was queued in another context.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both views have the same
    /// length, or [`Error::OtherContext`](crate::Error::OtherContext) if the source belongs to
    /// another driver.
    #[doc(alias = "cuMemcpyPeerAsync")]
    #[doc(alias = "cudaMemcpyPeerAsync")]
    pub fn copy_from_peer<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> Result<()> {
        self.copy_from_peer_on(source, self.memory.owning_stream())
    }

    /// `cuMemcpyPeerAsync(stream)`—Queues a copy from memory of any context of the same driver on
    /// `stream`, which is a stream of the context of this view's buffer. The copy works as
    /// [`copy_from_peer`](Self::copy_from_peer) does.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_from_peer`](Self::copy_from_peer), and
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream belongs to another context
    /// than this view's buffer.
    #[doc(alias = "cuMemcpyPeerAsync")]
    #[doc(alias = "cudaMemcpyPeerAsync")]
    pub fn copy_from_peer_on<'s>(
        &mut self,
        source: impl Into<DeviceSlice<'s, T>>,
        stream: &Stream,
    ) -> Result<()> {
        let source = source.into();
        expect_context(stream, self.memory)?;
        stream.expect_direct("DeviceSliceMut::copy_from_peer")?;
        let peer = source.memory.owning_stream().context();
        if peer == stream.context() {
            return self.copy_from_on(source, stream);
        }
        expect_len(source.len(), self.len())?;
        stream
            .driver()
            .expect_handles_of(peer.driver(), "the source")?;
        if self.is_empty() || size_of::<T>() == 0 {
            return Ok(());
        }
        if peer.is_borrowed() {
            return self.copy_through_host(&source, stream);
        }
        let (to, from): (CUdeviceptr, CUdeviceptr) = (self.as_raw(), source.as_raw());
        let bytes = self.len() * size_of::<T>();
        let _current = stream.context().enter()?;
        let contexts = [stream.context(), peer];
        let (_locks, mut scope) = retry(|| {
            // A graph may use the memory of either side.
            let locks = ReplayLock::lock_all(contexts.into_iter().map(Context::replay_lock));
            let scope = Scope::new(stream);
            scope.ready()?;
            source
                .memory
                .tracker
                .acquire_for_peer(&scope, source.access)?;
            self.memory.tracker.acquire(&scope, self.access)?;
            Ok::<_, Blocked<Error>>((locks, scope))
        })?;
        let queued = stream.observed(Work::of_kind(WorkKind::CopyToPeer, bytes), || {
            // SAFETY: both ranges must hold `bytes` bytes and belong to the given contexts, which
            // must be alive ← the lengths are equal, both views are within their allocations, whose
            // frees wait for this use, and both buffers are borrowed.
            unsafe {
                call!(
                    stream.driver(),
                    cuMemcpyPeerAsync(
                        to,
                        stream.context().as_raw(),
                        from,
                        peer.as_raw(),
                        bytes,
                        stream.as_raw()
                    )
                )
            }
        });
        self.memory.tracker.commit(&mut scope, self.access);
        source.memory.tracker.commit(&mut scope, source.access);
        Ok(queued?)
    }

    /// Copies from memory of another context through the host: a download in that context, then an
    /// upload in this one, on `stream`. The lengths must be equal.
    fn copy_through_host(&mut self, source: &DeviceSlice<'_, T>, stream: &Stream) -> Result<()> {
        let piece = (MOST_ON_HOST / size_of::<T>().max(1)).max(1);
        let mut start = 0;
        while start < self.len() {
            let elements = source.piece(start, piece).read_all()?;
            let range = start..start + elements.len();
            start = range.end;
            self.reborrow()
                .into_slice(range)?
                .upload(stream, &elements)?;
        }
        Ok(())
    }
}

/// Copies between contexts.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// `cuMemAllocAsync()`, `cuMemcpyPeerAsync()`—Allocates a buffer and queues a copy of `source`
    /// into it, which is memory of this or of any other context of the same driver. `stream`
    /// becomes the owning stream of the new buffer.
    ///
    /// ```
    /// use cuda_driver::prelude::*;
    ///
    /// # let driver = Driver::new(cuda_sim::Builder::new().devices(2).build()?.library()?)?;
    /// # let [first, second] = [driver.device(0)?, driver.device(1)?];
    /// # let first = first.primary_context()?.default_stream()?;
    /// # let second = second.primary_context()?.default_stream()?;
    /// // The streams belong to two devices.
    /// let x = DeviceBuffer::from_host(&first, &[1.0_f32, 2.0, 3.0])?;
    /// let y = DeviceBuffer::from_device(&second, x.slice(1..)?)?;
    /// assert_eq!(y.to_vec()?, [2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) and [`DeviceSliceMut::copy_from_peer`] do.
    #[doc(alias = "cuMemcpyPeerAsync")]
    #[doc(alias = "cuMemcpyDtoDAsync")]
    #[doc(alias = "cudaMemcpyPeerAsync")]
    #[doc(alias = "clone_dtod")]
    #[track_caller]
    pub fn from_device<'s>(stream: &Stream, source: impl Into<DeviceSlice<'s, T>>) -> Result<Self> {
        let source = source.into();
        // SAFETY: the elements must be written before they are read ← they are filled below, on the
        // same stream; if that fails, the buffer is dropped.
        let mut copy = unsafe { Self::uninit(stream, source.len()) }?;
        copy.copy_from_peer(source)?;
        Ok(copy)
    }

    /// `cuMemcpyPeerAsync()`—Queues a copy from memory of any context of the same driver, on the
    /// owning stream of this buffer. See [`DeviceSliceMut::copy_from_peer`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_peer`] does.
    #[doc(alias = "cuMemcpyPeer")]
    #[doc(alias = "cudaMemcpyPeer")]
    pub fn copy_from_peer<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> Result<()> {
        self.as_mut_slice().copy_from_peer(source)
    }
}

/// The maximum number of bytes of a copy through the host that are held on the host at one time.
const MOST_ON_HOST: usize = 4 << 20;
