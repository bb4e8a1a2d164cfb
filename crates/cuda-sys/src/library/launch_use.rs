//! Statements of a program about the memory of a launch, for software drivers.

use crate::{CUdeviceptr, DriverLibrary};

/// Memory that a kernel accesses through one of its arguments, as the program states it.
///
/// `cuda.h` has no place for it: an address does not say whether the kernel may write there. A
/// software driver can compare it with what the kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchUse {
    /// The argument, counted from 1; 0 for memory whose address is inside another argument.
    pub argument: u32,
    /// The address of the first byte.
    pub address: CUdeviceptr,
    /// The size in bytes.
    pub bytes: usize,
    /// Whether the kernel may write the memory.
    pub is_written: bool,
}

impl DriverLibrary {
    /// Sets a function that receives the memory of each launch, directly before the launch and on
    /// the same thread. Only software drivers have this function.
    #[must_use]
    pub fn with_launch_uses(self, receive: fn(&[LaunchUse])) -> Self {
        Self {
            launch_uses: Some(receive),
            ..self
        }
    }

    /// Returns the function that receives the memory of each launch, if the driver has one.
    #[must_use]
    pub fn launch_uses(&self) -> Option<fn(&[LaunchUse])> {
        self.launch_uses
    }
}
