//! Pools that other processes import.

use super::MemoryPool;
use crate::device::Device;
use crate::driver::call;
use crate::error::Result;
use crate::memory::ipc::{HANDLE_TYPE, ShareableHandle, owned};

/// Other processes.
impl MemoryPool {
    /// `cuMemPoolCreate(handleTypes)`—Creates a pool on `device` whose memory can be
    /// [exported](crate::DeviceBuffer::export) to other processes.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device cannot export pools by handles of this operating
    /// system: [`Device::mem_pool_handle_types`] is 0.
    #[doc(alias = "cuMemPoolCreate")]
    pub fn exportable(device: &Device) -> Result<Self> {
        Self::create(device, 0, HANDLE_TYPE)
    }

    /// `cuMemPoolExportToShareableHandle()`—Returns a handle of the pool, by which another process
    /// [imports](crate::memory::ImportedPool::import) it. The handle does not keep the pool.
    ///
    /// Export the pool before its [buffers](crate::DeviceBuffer::export).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the pool was not created with
    /// [`exportable`](Self::exportable).
    #[doc(alias = "cuMemPoolExportToShareableHandle")]
    #[doc(alias = "cudaMemPoolExportToShareableHandle")]
    pub fn export(&self) -> Result<ShareableHandle> {
        let driver = self.device().driver();
        let export = |place| {
            // SAFETY: the pointer must be to a place for a handle of the type, and the pool alive ←
            // `owned` provides the place, and the pool is borrowed.
            unsafe {
                call!(
                    driver,
                    cuMemPoolExportToShareableHandle(place, self.as_raw(), HANDLE_TYPE, 0)
                )
            }
        };
        // SAFETY: the handle must be a new one that no other code closes ← the driver creates it.
        let handle = unsafe { owned(export) }?;
        self.set_awaits_export(false);
        Ok(handle)
    }
}
