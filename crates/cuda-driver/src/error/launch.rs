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
        /// The index of the argument, counted from 0. The message counts from 1.
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
                    "kernel {kernel} takes {expected} argument{}, but the launch passes {given}",
                    plural(*expected)
                )
            }
            Self::Size {
                kernel,
                index,
                expected,
                given,
            } => write!(
                f,
                "argument {} of kernel {kernel} has {given} byte{}{}, but the parameter has {expected} \
                 byte{}{}",
                index + 1,
                plural(*given),
                types_of(*given),
                plural(*expected),
                types_of(*expected),
            ),
        }
    }
}

impl std::error::Error for ArgumentError {}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Returns the usual types of this size in bytes, in parentheses.
fn types_of(size: usize) -> &'static str {
    match size {
        1 => " (u8 or i8)",
        2 => " (u16, i16 or f16)",
        4 => " (u32, i32 or f32)",
        8 => " (u64, i64, f64 or a buffer)",
        _ => "",
    }
}

/// A launch configuration that the device or the kernel does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchConfigError {
    /// A quantity exceeds a limit.
    OutOfRange {
        /// The kernel.
        kernel: String,
        /// The quantity: `grid.x`, `the number of threads per block`, …
        what: &'static str,
        /// The value requested.
        given: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// The grid cannot be divided into clusters.
    PartialCluster {
        /// The kernel.
        kernel: String,
        /// The dimension of the grid: `grid.x`, `grid.y` or `grid.z`.
        what: &'static str,
        /// The number of blocks in this dimension of the grid.
        given: u32,
        /// The number of blocks in this dimension of a cluster.
        cluster: u32,
    },
}

impl fmt::Display for LaunchConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange {
                kernel,
                what,
                given,
                least,
                most,
            } => write!(
                f,
                "kernel {kernel}: {what} is {given}; {least} to {most} is allowed"
            ),
            Self::PartialCluster {
                kernel,
                what,
                given,
                cluster,
            } => write!(
                f,
                "kernel {kernel}: {what} is {given} blocks, which is not a multiple of the cluster \
                 size in this dimension, {cluster}; round it up and let the extra blocks return"
            ),
        }
    }
}

impl std::error::Error for LaunchConfigError {}

impl LaunchConfigError {
    /// The quantity that is not allowed: `grid.x`, `the number of threads per block`, …
    #[must_use]
    pub fn what(&self) -> &'static str {
        match self {
            Self::OutOfRange { what, .. } | Self::PartialCluster { what, .. } => what,
        }
    }

    /// The value requested.
    #[must_use]
    pub fn given(&self) -> u64 {
        match self {
            Self::OutOfRange { given, .. } => *given,
            Self::PartialCluster { given, .. } => u64::from(*given),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LaunchConfigError;

    #[test]
    fn a_partial_cluster_names_the_grid_and_the_cluster() {
        let error = LaunchConfigError::PartialCluster {
            kernel: "add".to_owned(),
            what: "grid.y",
            given: 10,
            cluster: 4,
        };
        assert_eq!(
            error.to_string(),
            "kernel add: grid.y is 10 blocks, which is not a multiple of the cluster size in this \
             dimension, 4; round it up and let the extra blocks return"
        );
    }
}
