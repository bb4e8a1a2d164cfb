//! Launches whose number of blocks the driver has refused.

use std::fmt;

use cuda_sys::CUresult;

use super::DriverError;

/// The number of blocks that a cluster can have on every device that knows clusters.
const PORTABLE_CLUSTER: u64 = 8;

/// The driver refused a launch because of the number of its blocks. Only the driver knows the
/// limit, which depends on the registers and the shared memory of the kernel.
#[derive(Clone, PartialEq, Eq)]
pub struct LaunchLimitError {
    pub(crate) source: DriverError,
    pub(crate) kernel: String,
    pub(crate) what: &'static str,
    pub(crate) given: u64,
    pub(crate) most: u64,
}

impl LaunchLimitError {
    /// The error of the driver call.
    #[must_use]
    pub fn driver_error(&self) -> DriverError {
        self.source
    }

    /// The quantity that is too large.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The value of the launch.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The largest value that the driver reports for this kernel and this block.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }
}

impl fmt::Display for LaunchLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            kernel,
            what,
            given,
            most,
        } = self;
        write!(
            f,
            "{source}; kernel {kernel}: {what} is {given}, but at most {most} "
        )?;
        match source.status() {
            // The driver reports 8 for any kernel that may not have larger clusters.
            CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE if *most == PORTABLE_CLUSTER => f.write_str(
                "are allowed by default: pass fewer blocks, or, as some devices have room for more, \
                 call `Function::allow_non_portable_cluster_size`",
            ),
            _ => f.write_str(
                "fit on the device with blocks of this size: pass fewer blocks, or use smaller \
                 blocks or less shared memory",
            ),
        }
    }
}

impl fmt::Debug for LaunchLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LaunchLimitError {}
