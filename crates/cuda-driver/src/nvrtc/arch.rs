//! The architectures to compile for.

use cuda_nvrtc::Arch;

use crate::device::Device;
use crate::error::Result;

/// Available with the feature `nvrtc`.
impl Device {
    /// Returns the real architecture of the device, for machine code:
    /// [`Options::arch`](cuda_nvrtc::Options::arch).
    pub fn arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::sm(capability.major, capability.minor))
    }

    /// Returns the virtual architecture of the device, for PTX:
    /// [`Options::arch`](cuda_nvrtc::Options::arch).
    pub fn virtual_arch(&self) -> Result<Arch> {
        let capability = self.compute_capability()?;
        Ok(Arch::compute(capability.major, capability.minor))
    }
}
