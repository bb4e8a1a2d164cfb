//! Errors of launches that were rejected before the driver was called.

use std::fmt;

/// The arguments of a launch do not match the parameters of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The number of arguments is wrong.
    Count {
        /// The kernel.
        kernel: String,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments.
        given: usize,
    },
    /// The size of an argument is wrong.
    Size {
        /// The kernel.
        kernel: String,
        /// The index of the argument, counted from 0.
        index: usize,
        /// The size of the parameter in bytes.
        expected: usize,
        /// The size of the argument in bytes.
        given: usize,
    },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count {
                kernel,
                expected,
                given,
            } => {
                write!(
                    f,
                    "kernel {kernel} takes {expected} arguments, but the launch passes {given}"
                )
            }
            Self::Size {
                kernel,
                index,
                expected,
                given,
            } => write!(
                f,
                "argument {index} of kernel {kernel} must be {expected} bytes, but the launch \
                 passes {given} bytes"
            ),
        }
    }
}

impl std::error::Error for ArgumentError {}

/// A launch configuration exceeds a limit of the device or the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchConfigError {
    /// The kernel.
    pub kernel: String,
    /// The quantity that is out of range: `grid.x`, `threads per block`, …
    pub what: &'static str,
    /// The value requested.
    pub given: u64,
    /// The smallest value allowed.
    pub least: u64,
    /// The largest value allowed.
    pub most: u64,
}

impl fmt::Display for LaunchConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kernel,
            what,
            given,
            least,
            most,
        } = self;
        write!(
            f,
            "kernel {kernel}: {what} is {given}; {least} to {most} is allowed"
        )
    }
}

impl std::error::Error for LaunchConfigError {}

impl LaunchConfigError {
    /// The quantity that is out of range: `grid.x`, `threads per block`, …
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The value requested.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The largest value allowed.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }
}
