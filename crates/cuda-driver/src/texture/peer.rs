//! Copies between arrays of different contexts.

use super::format::Texel;
use super::view::{ArraySlice, ArraySliceMut};
use crate::error::Result;
use crate::memory::expect_context;
use crate::memory::pitched::{PeerSide, Side, queue_peer};
use crate::stream::Stream;

/// Copies from arrays of another context.
impl<T: Texel> ArraySliceMut<'_, T> {
    /// `cuMemcpy3DPeerAsync()`—Queues a copy from an array of any context of the same driver, on
    /// the owning stream of this array. The copy works as
    /// [`DeviceSliceMut::copy_from_peer`](crate::DeviceSliceMut::copy_from_peer) does.
    ///
    /// ```
    /// use cuda_driver::texture::{Array, ArrayFlags, ArrayShape};
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().devices(2).build()?.library()?)?;
    /// let one = driver.device(0)?.primary_context()?.default_stream()?;
    /// let two = driver.device(1)?.primary_context()?.default_stream()?;
    /// let image = Array::from_host(&one, &ArrayShape::two_d(2, 2), &[1_u8, 2, 3, 4])?;
    /// // The right half of the image, on the other device.
    /// let mut half = Array::<u8>::zeroed(&two, &ArrayShape::two_d(1, 2), ArrayFlags::empty())?;
    /// half.as_mut_slice().copy_from_peer(&image.region(1.., .., ..)?)?;
    /// assert_eq!(half.to_vec()?, [2, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::ExtentMismatch`](crate::Error::ExtentMismatch) unless both views have the same
    ///   extent.
    /// - [`Error::OtherContext`](crate::Error::OtherContext) if the source belongs to another
    ///   driver.
    #[doc(alias = "cuMemcpy3DPeer")]
    #[doc(alias = "cuMemcpy3DPeerAsync")]
    #[doc(alias = "cudaMemcpy3DPeerAsync")]
    pub fn copy_from_peer(&mut self, source: &ArraySlice<'_, T>) -> Result<()> {
        self.copy_from_peer_on(source, self.memory.owning_stream())
    }

    /// `cuMemcpy3DPeerAsync(stream)`—Queues a copy from an array of any context of the same driver
    /// on `stream`, which is a stream of the context of this array. The copy works as
    /// [`copy_from_peer`](Self::copy_from_peer) does.
    ///
    /// # Errors
    ///
    /// The errors of [`copy_from_peer`](Self::copy_from_peer), and
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the stream belongs to another context
    /// than this array.
    #[doc(alias = "cuMemcpy3DPeerAsync")]
    #[doc(alias = "cudaMemcpy3DPeerAsync")]
    pub fn copy_from_peer_on(&mut self, source: &ArraySlice<'_, T>, stream: &Stream) -> Result<()> {
        expect_context(stream, self.memory)?;
        stream.expect_direct("ArraySliceMut::copy_from_peer")?;
        let peer = source.memory.owning_stream().context();
        if peer == stream.context() {
            return self.copy_from_on(*source, stream);
        }
        self.extent().expect(source.extent())?;
        stream
            .driver()
            .expect_handles_of(peer.driver(), "the source")?;
        if self.place.bytes() == 0 {
            return Ok(());
        }
        if peer.is_borrowed() {
            // Its owner may destroy it at any time, and cannot wait for a copy in another context.
            return self.copy_from_host_on(&source.read_all()?, stream);
        }
        let to = PeerSide {
            memory: self.memory,
            access: self.access,
            side: Side::Array(self.place),
        };
        let from = PeerSide {
            memory: source.memory,
            access: source.access,
            side: Side::Array(source.place),
        };
        // SAFETY: both sides must hold the elements ← the extents are equal, and both views are
        // within their arrays.
        unsafe { queue_peer(stream, &to, &from, &self.place.extent()) }
    }
}
