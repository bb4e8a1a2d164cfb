//! Copies of boxes between contexts.

use cuda_sys::CUDA_MEMCPY3D_PEER;

use super::rows::{Rows, Side, copy_of};
use super::{PitchedSlice, PitchedSliceMut};
use crate::context::{Context, ReplayLock};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::on_stream::expect_context;
use crate::memory::{DeviceRepr, Memory};
use crate::observer::Work;
use crate::stream::Stream;
use crate::tracking::{Access, Blocked, Scope, retry};
use crate::types::WorkKind;

/// Copies from memory of another context.
impl<T: DeviceRepr> PitchedSliceMut<'_, T> {
    /// `cuMemcpy3DPeerAsync()`—Queues a copy from memory of any context of the same driver, on the
    /// owning stream of this view's buffer. The copy works as
    /// [`DeviceSliceMut::copy_from_peer`](crate::DeviceSliceMut::copy_from_peer) does.
    ///
    /// ```
    /// use cuda_driver::memory::PitchedBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().devices(2).build()?.library()?)?;
    /// let one = driver.device(0)?.primary_context()?.default_stream()?;
    /// let two = driver.device(1)?.primary_context()?.default_stream()?;
    /// let mut image = PitchedBuffer::<u8>::zeroed(&one, (640, 480))?;
    /// image.as_mut_slice().copy_from_host(&[7; 640 * 480])?;
    /// let mut half = PitchedBuffer::<u8>::zeroed(&two, (320, 480))?;
    /// // The right half of the image, on the other device.
    /// half.as_mut_slice().copy_from_peer(&image.as_slice().region(320.., .., ..)?)?;
    /// assert_eq!(half.as_slice().to_vec()?, [7; 320 * 480]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::ExtentMismatch`] unless both views have the same extent.
    /// - [`Error::OtherContext`] if the source belongs to another driver.
    #[doc(alias = "cuMemcpy3DPeer")]
    #[doc(alias = "cuMemcpy3DPeerAsync")]
    #[doc(alias = "cudaMemcpy3DPeer")]
    #[doc(alias = "cudaMemcpy3DPeerAsync")]
    pub fn copy_from_peer(&mut self, source: &PitchedSlice<'_, T>) -> Result<()> {
        self.copy_from_peer_on(source, self.memory.owning_stream())
    }

    /// `cuMemcpy3DPeerAsync(stream)`—Queues a copy from memory of any context of the same driver on
    /// `stream`, which is a stream of the context of this view's buffer. The copy works as
    /// [`copy_from_peer`](Self::copy_from_peer) does.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_from_peer`](Self::copy_from_peer), and [`Error::OtherContext`] if the
    /// stream belongs to another context than this view's buffer.
    #[doc(alias = "cuMemcpy3DPeerAsync")]
    #[doc(alias = "cudaMemcpy3DPeerAsync")]
    pub fn copy_from_peer_on(
        &mut self,
        source: &PitchedSlice<'_, T>,
        stream: &Stream,
    ) -> Result<()> {
        expect_context(stream, self.memory)?;
        stream.expect_direct("PitchedSliceMut::copy_from_peer")?;
        let peer = source.memory.owning_stream().context();
        if peer == stream.context() {
            return self.copy_from_on(source, stream);
        }
        self.extent().expect(source.extent())?;
        stream
            .driver()
            .expect_handles_of(peer.driver(), "the source")?;
        if self.rows.bytes() == 0 {
            return Ok(());
        }
        if peer.is_borrowed() {
            // Its owner may destroy it at any time, and cannot wait for a copy in another context.
            return self.upload(stream, &source.read_all()?);
        }
        let to = PeerSide {
            memory: self.memory,
            access: self.access,
            side: Side::Device(self.rows),
        };
        let from = PeerSide {
            memory: source.memory,
            access: source.access,
            side: Side::Device(source.rows),
        };
        // SAFETY: both sides must hold the rows ← the extents are equal, and both views are within
        // their allocations.
        unsafe { queue_peer(stream, &to, &from, &self.rows) }
    }
}

/// One side of a copy between contexts.
pub(crate) struct PeerSide<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) access: Access,
    pub(crate) side: Side,
}

/// `cuMemcpy3DPeerAsync(stream)`—Queues a copy of a box with the width, height and depth of
/// `extent` on `stream`, which belongs to the context of `to`. The copy is ordered with other uses
/// of both sides.
///
/// # Safety
///
/// Both sides are within their memory and hold the box.
pub(crate) unsafe fn queue_peer(
    stream: &Stream,
    to: &PeerSide<'_>,
    from: &PeerSide<'_>,
    extent: &Rows,
) -> Result<()> {
    let peer = from.memory.owning_stream().context();
    let copy = peer_copy((to.side, stream.context()), (from.side, peer), extent);
    let _current = stream.context().enter()?;
    let contexts = [stream.context(), peer];
    let (_locks, mut scope) = retry(|| {
        // A graph may use the memory of either side.
        let locks = ReplayLock::lock_all(contexts.into_iter().map(Context::replay_lock));
        let scope = Scope::new(stream);
        scope.ready()?;
        let tracker = &from.memory.tracker;
        tracker.acquire_for_peer(&scope, from.access)?;
        to.memory.tracker.acquire(&scope, to.access)?;
        Ok::<_, Blocked<Error>>((locks, scope))
    })?;
    let work = Work::of_kind(WorkKind::CopyToPeer, extent.bytes());
    let queued = stream.observed(work, || {
        // SAFETY: both sides must hold the box and belong to the given contexts, which must be
        // alive ← the caller guarantees it; the release of both memories waits for this use, and
        // both are borrowed. The driver reads the struct during the call.
        unsafe {
            call!(
                stream.driver(),
                cuMemcpy3DPeerAsync(&raw const copy, stream.as_raw())
            )
        }
    });
    to.memory.tracker.commit(&mut scope, to.access);
    from.memory.tracker.commit(&mut scope, from.access);
    Ok(queued?)
}

/// Returns the driver's description of a copy between memory of two contexts.
fn peer_copy(
    (to, to_context): (Side, &Context),
    (from, from_context): (Side, &Context),
    extent: &Rows,
) -> CUDA_MEMCPY3D_PEER {
    let copy = copy_of(to, from, extent);
    CUDA_MEMCPY3D_PEER {
        srcXInBytes: copy.srcXInBytes,
        srcY: copy.srcY,
        srcZ: copy.srcZ,
        srcLOD: copy.srcLOD,
        srcMemoryType: copy.srcMemoryType,
        srcHost: copy.srcHost,
        srcDevice: copy.srcDevice,
        srcArray: copy.srcArray,
        srcContext: from_context.as_raw(),
        srcPitch: copy.srcPitch,
        srcHeight: copy.srcHeight,
        dstXInBytes: copy.dstXInBytes,
        dstY: copy.dstY,
        dstZ: copy.dstZ,
        dstLOD: copy.dstLOD,
        dstMemoryType: copy.dstMemoryType,
        dstHost: copy.dstHost,
        dstDevice: copy.dstDevice,
        dstArray: copy.dstArray,
        dstContext: to_context.as_raw(),
        dstPitch: copy.dstPitch,
        dstHeight: copy.dstHeight,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        Depth: copy.Depth,
    }
}
