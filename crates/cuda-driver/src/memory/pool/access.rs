//! Access of devices to the memory of a pool.

use cuda_sys::{CUmemAccess_flags, CUmemAccessDesc, CUmemoryPool};

use super::MemoryPool;
use super::pool::location_of;
use crate::device::Device;
use crate::driver::call;
use crate::error::{DriverError, Result};

/// The access of a device to the memory of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolAccess {
    /// The device has no access.
    None,
    /// The device can read.
    Read,
    /// The device can read and write.
    ReadWrite,
}

/// Access of other devices.
impl MemoryPool {
    /// `cuMemPoolGetAccess()`—Returns the access of `device` to the memory of the pool.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `device` belongs to another driver.
    #[doc(alias = "cuMemPoolGetAccess")]
    pub fn access(&self, device: &Device) -> Result<PoolAccess> {
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
        Ok(match flags {
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE => PoolAccess::None,
            CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => PoolAccess::Read,
            _ => PoolAccess::ReadWrite,
        })
    }

    /// `cuMemPoolSetAccess()`—Sets the access of `device` to the memory of the pool. The pool's own
    /// device always has full access.
    ///
    /// # Errors
    ///
    /// * [`Error::OtherContext`](crate::Error::OtherContext) if `device` belongs to another driver.
    /// * `CUDA_ERROR_INVALID_DEVICE` if `device` cannot access the pool's device, or if it is the
    ///   pool's device and `access` is [`PoolAccess::None`].
    /// * `CUDA_ERROR_NOT_SUPPORTED` if it is the pool's device and `access` is
    ///   [`PoolAccess::Read`].
    #[doc(alias = "cuMemPoolSetAccess")]
    #[doc(alias = "cudaMemPoolSetAccess")]
    pub fn set_access(&self, device: &Device, access: PoolAccess) -> Result<()> {
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
    access: PoolAccess,
) -> Result<(), DriverError> {
    let wanted = CUmemAccessDesc {
        location: location_of(device),
        flags: match access {
            PoolAccess::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            PoolAccess::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            PoolAccess::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        },
    };
    // SAFETY: the pointer must be valid and the pool alive ← it points to a local variable, and the
    // caller guarantees the pool.
    unsafe {
        call!(
            device.driver(),
            cuMemPoolSetAccess(pool, &raw const wanted, 1)
        )
    }
}
