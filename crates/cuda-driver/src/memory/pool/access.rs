//! Access of devices to the memory of a pool.

use cuda_sys::{CUmemAccess_flags, CUmemoryPool};

use super::MemoryPool;
use crate::device::Device;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::memory::{MemoryAccess, location_of};

/// Access of other devices.
impl MemoryPool {
    /// `cuMemPoolGetAccess()`—Returns the access of `device` to the memory of the pool.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `device` belongs to another driver.
    #[doc(alias = "cuMemPoolGetAccess")]
    #[doc(alias = "cudaMemPoolGetAccess")]
    pub fn access(&self, device: &Device) -> Result<MemoryAccess> {
        let driver = self.device().driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        let mut location = location_of(device);
        let mut flags = CUmemAccess_flags(0);
        // SAFETY: the pointers must be valid and the pool alive ← they point to local variables,
        // and the pool is borrowed.
        unsafe {
            call!(
                driver,
                cuMemPoolGetAccess(&raw mut flags, self.as_raw(), &raw mut location)
            )
        }?;
        Ok(MemoryAccess::of_raw(flags))
    }

    /// `cuMemPoolSetAccess()`—Sets the access of `device` to the memory of the pool. A pool of
    /// memory on a device always gives that device full access.
    ///
    /// # Errors
    ///
    /// * [`Error::OtherContext`](crate::Error::OtherContext) if `device` belongs to another driver.
    /// * `CUDA_ERROR_INVALID_DEVICE` if `device` cannot access the device with the memory, or if
    ///   the memory is on `device` and `access` is [`MemoryAccess::None`].
    /// * `CUDA_ERROR_NOT_SUPPORTED` if the memory is on `device` and `access` is
    ///   [`MemoryAccess::Read`].
    ///
    /// # Safety
    ///
    /// If the call takes access away: no queued or running work of `device` uses memory of the
    /// pool, and no view for a context of `device` exists that
    /// [`for_peer`](crate::DeviceSlice::for_peer) has returned for such memory. A kernel that still
    /// uses the access faults, after which the process cannot use the device. Granting access has
    /// no requirements; `for_peer` does it by itself.
    #[doc(alias = "cuMemPoolSetAccess")]
    #[doc(alias = "cudaMemPoolSetAccess")]
    pub unsafe fn set_access(&self, device: &Device, access: MemoryAccess) -> Result<()> {
        let driver = self.device().driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        // SAFETY: the pool must be alive ← it is borrowed.
        Ok(unsafe { set_access(self.as_raw(), device, access) }?)
    }
}

/// `cuMemPoolSetAccess()`—Sets the access of `device` to the memory of the pool.
///
/// # Safety
///
/// The pool is alive and belongs to the driver of `device`.
pub(crate) unsafe fn set_access(
    pool: CUmemoryPool,
    device: &Device,
    access: MemoryAccess,
) -> Result<(), DriverError> {
    let wanted = access.to(device);
    // SAFETY: the pointer must be valid and the pool alive ← it points to a local variable, and the
    // caller guarantees the pool.
    unsafe {
        call!(
            device.driver(),
            cuMemPoolSetAccess(pool, &raw const wanted, 1)
        )
    }
}
