//! Access of kernels of one context to the memory of another device.

use cuda_sys::CUresult;

use super::Context;
use crate::driver::call;
use crate::error::Result;

impl Context {
    /// `cuCtxEnablePeerAccess(peer)`—Lets kernels of this context use memory of `peer`, on another
    /// device.
    ///
    /// One way: the other way has a call of its own. That it was enabled already is fine. It
    /// concerns memory of `cuMemAlloc`; memory that was allocated in the order of a stream, as that
    /// of [`DeviceBuffer`](crate::DeviceBuffer), follows the access of its pool.
    /// [Copies](crate::DeviceSliceMut::copy_from_peer) need neither.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED` unless
    /// [`Device::can_access_peer`](crate::Device::can_access_peer), `CUDA_ERROR_TOO_MANY_PEERS`,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `peer` is of another driver.
    #[doc(alias = "cuCtxEnablePeerAccess")]
    pub fn enable_peer_access(&self, peer: &Self) -> Result<()> {
        let driver = self.driver();
        driver.expect_handles_of(peer.driver(), "the peer")?;
        let _current = self.enter()?;
        // SAFETY: the peer must be alive and of this driver ← it is borrowed, and was checked.
        match unsafe { call!(driver, cuCtxEnablePeerAccess(peer.as_raw(), 0)) } {
            Err(error) if error.status() == CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {
                Ok(())
            }
            result => Ok(result?),
        }
    }

    /// `cuCtxDisablePeerAccess(peer)`—Ends that access, for all code that uses this context. That
    /// there was none is fine.
    ///
    /// A kernel that still uses it faults.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `peer` is of another driver, or what
    /// the call answers.
    #[doc(alias = "cuCtxDisablePeerAccess")]
    pub fn disable_peer_access(&self, peer: &Self) -> Result<()> {
        let driver = self.driver();
        driver.expect_handles_of(peer.driver(), "the peer")?;
        let _current = self.enter()?;
        // SAFETY: the peer must be alive and of this driver ← it is borrowed, and was checked.
        match unsafe { call!(driver, cuCtxDisablePeerAccess(peer.as_raw())) } {
            Err(error) if error.status() == CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED => Ok(()),
            result => Ok(result?),
        }
    }
}
