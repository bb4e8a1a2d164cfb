//! The identifier of a device on Windows (`cuDeviceGetLuid`).

use super::Device;
use crate::driver::call;
use crate::error::Result;

/// The locally unique identifier of a device on Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Luid {
    /// The bytes of the `LUID` of Windows.
    pub bytes: [u8; 8],
    /// The nodes of a linked adapter that are this device, one bit for each.
    pub node_mask: u32,
}

/// The identifier on Windows.
impl Device {
    /// `cuDeviceGetLuid()`—Returns the locally unique identifier that Windows gives the device, for
    /// example to find the same device in Direct3D.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` where devices have no such identifier, as on Linux.
    #[doc(alias = "cuDeviceGetLuid")]
    pub fn luid(&self) -> Result<Luid> {
        let (mut bytes, mut node_mask) = ([0; 8], 0);
        // SAFETY: 8 bytes and the mask must be writable ← they are locals of these sizes.
        unsafe {
            call!(
                self.driver(),
                cuDeviceGetLuid(bytes.as_mut_ptr(), &raw mut node_mask, self.as_raw())
            )
        }?;
        Ok(Luid {
            bytes: bytemuck::cast(bytes),
            node_mask,
        })
    }
}
