//! Which devices can use memory of a pool.

use cuda_sys::{CUmemAccess_flags, CUmemAccessDesc};

use super::{MemoryPool, location_of};
use crate::device::Device;
use crate::driver::call;
use crate::error::Result;

/// What a device may do with memory of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolAccess {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Read and write it.
    ReadWrite,
}

impl MemoryPool {
    /// `cuMemPoolGetAccess()`—What `device` may do with memory of the pool.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `device` is of another driver, or
    /// what the call answers.
    #[doc(alias = "cuMemPoolGetAccess")]
    pub fn access(&self, device: &Device) -> Result<PoolAccess> {
        let driver = self.device().driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        let mut location = location_of(device);
        let mut flags = CUmemAccess_flags(0);
        // SAFETY: the pointers must be valid and the pool alive ← locals, and borrowed.
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

    /// `cuMemPoolSetAccess()`—Says what `device` may do with memory of the pool. Its own always may
    /// do all.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `device` is of another driver,
    /// `CUDA_ERROR_INVALID_DEVICE` if it cannot access the pool's device, or is that and shall have
    /// none; `CUDA_ERROR_NOT_SUPPORTED` if it is that and shall only read; or what else the call
    /// answers.
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn set_access(&self, device: &Device, access: PoolAccess) -> Result<()> {
        let driver = self.device().driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        let wanted = CUmemAccessDesc {
            location: location_of(device),
            flags: match access {
                PoolAccess::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
                PoolAccess::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
                PoolAccess::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            },
        };
        // SAFETY: the pointer must be valid and the pool alive ← a local, and borrowed.
        Ok(unsafe {
            call!(
                driver,
                cuMemPoolSetAccess(self.as_raw(), &raw const wanted, 1)
            )
        }?)
    }
}
