//! A launch that was not made.

use std::fmt;

/// The arguments of a launch against the kernel's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// Too many or too few.
    Count {
        /// The kernel.
        kernel: String,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments.
        given: usize,
    },
    /// One of another size.
    Size {
        /// The kernel.
        kernel: String,
        /// Which argument, from 0.
        index: usize,
        /// The bytes of the parameter.
        expected: usize,
        /// The bytes of the argument.
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
                    "kernel {kernel} takes {expected} arguments, {given} were given"
                )
            }
            Self::Size {
                kernel,
                index,
                expected,
                given,
            } => write!(
                f,
                "argument {index} of kernel {kernel} is of {expected} bytes, {given} were given"
            ),
        }
    }
}

impl std::error::Error for ArgumentError {}

/// A launch configuration against the limits of device and kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchConfigError {
    /// The kernel.
    pub kernel: String,
    /// What is out of its range.
    pub what: &'static str,
    /// What it is.
    pub given: u64,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be.
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
            "kernel {kernel}: {what} is {given}, allowed is {least} to {most}"
        )
    }
}

impl std::error::Error for LaunchConfigError {}

impl LaunchConfigError {
    /// Which quantity: `grid.x`, `threads per block`, …
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// What was asked for.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// The limit.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }
}
