//! Allocations for which memory ran out.

use std::fmt;

/// The kind of an allocation that failed with [`Error::OutOfMemory`](super::Error::OutOfMemory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocationKind {
    /// Memory of a device, or an array.
    Device,
    /// Managed memory of a device that moves pages between its own memory and that of the host. It
    /// may be larger than the memory of the device.
    Managed,
    /// Page-locked memory of the host, allocated or registered, or physical memory of the host. The
    /// driver does not report its limit, and the memory of the device has no influence on it.
    Host,
    /// Addresses without memory.
    Addresses,
}

impl AllocationKind {
    /// Whether the memory of the device is a part of the limit.
    pub(crate) fn is_on_device(self) -> bool {
        matches!(self, Self::Device | Self::Managed)
    }

    /// Writes what follows the error of the driver call. `total` is 0 if the memory of the device
    /// is not known.
    pub(super) fn write(
        self,
        f: &mut fmt::Formatter<'_>,
        bytes: usize,
        free: usize,
        total: usize,
    ) -> fmt::Result {
        match self {
            Self::Device => write!(f, " while allocating {bytes} bytes"),
            Self::Managed => write!(f, " while allocating {bytes} bytes of managed memory"),
            Self::Host => write!(
                f,
                " while page-locking {bytes} bytes of the host; the memory of the device does not \
                 limit them: free other page-locked memory, or page-lock fewer bytes"
            ),
            Self::Addresses => write!(
                f,
                " while reserving {bytes} bytes of addresses; no free range is that long: reserve \
                 fewer bytes"
            ),
        }?;
        if self.is_on_device() && total > 0 {
            write!(f, "; {free} of {total} bytes are free on the device")?;
            if self == Self::Managed {
                f.write_str(", and what does not fit there must fit on the host")?;
            }
        }
        Ok(())
    }
}
