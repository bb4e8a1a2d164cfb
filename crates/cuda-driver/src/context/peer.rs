//! Peer access: kernels of one context use the memory of another device.

use cuda_sys::CUresult;

use super::Context;
use crate::driver::call;
use crate::error::Result;

/// Access to the memory of other devices.
impl Context {
    /// `cuCtxEnablePeerAccess(peer)`—Lets kernels of this context use memory of `peer`, on another
    /// device.
    ///
    /// The access is one-way: the other direction needs its own call. If the access is enabled
    /// already, the call succeeds. It applies to memory of `cuMemAlloc`; stream-ordered memory,
    /// such as that of [`DeviceBuffer`](crate::DeviceBuffer), follows the access settings of its
    /// memory pool. [Copies](crate::DeviceSliceMut::copy_from_peer) need neither.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED` unless
    /// [`Device::can_access_peer`](crate::Device::can_access_peer) returns `true`,
    /// `CUDA_ERROR_TOO_MANY_PEERS`, [`Error::OtherContext`](crate::Error::OtherContext) if `peer`
    /// belongs to another driver.
    #[doc(alias = "cuCtxEnablePeerAccess")]
    #[doc(alias = "cudaDeviceEnablePeerAccess")]
    pub fn enable_peer_access(&self, peer: &Self) -> Result<()> {
        let driver = self.driver();
        driver.expect_handles_of(peer.driver(), "the peer")?;
        let _current = self.enter()?;
        // SAFETY: the peer must be alive and belong to this driver ← it is borrowed, and the driver
        // was checked.
        match unsafe { call!(driver, cuCtxEnablePeerAccess(peer.as_raw(), 0)) } {
            Err(error) if error.status() == CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {
                Ok(())
            }
            result => Ok(result?),
        }
    }

    /// `cuCtxDisablePeerAccess(peer)`—Disables this access, for all code that uses this context. If
    /// the access is not enabled, the call succeeds.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `peer` belongs to another driver.
    ///
    /// # Safety
    ///
    /// No queued or running work of this context uses memory of `peer`, and no view for this
    /// context exists that [`for_peer`](crate::DeviceSlice::for_peer) has returned for such memory:
    /// a kernel that still uses the access faults, after which the process cannot use the device.
    #[doc(alias = "cuCtxDisablePeerAccess")]
    #[doc(alias = "cudaDeviceDisablePeerAccess")]
    pub unsafe fn disable_peer_access(&self, peer: &Self) -> Result<()> {
        let driver = self.driver();
        driver.expect_handles_of(peer.driver(), "the peer")?;
        let _current = self.enter()?;
        // SAFETY: the peer must be alive and belong to this driver ← it is borrowed, and the driver
        // was checked.
        match unsafe { call!(driver, cuCtxDisablePeerAccess(peer.as_raw())) } {
            Err(error) if error.status() == CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED => Ok(()),
            result => Ok(result?),
        }
    }
}
