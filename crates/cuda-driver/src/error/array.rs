//! Errors of arrays, textures and surfaces.

use std::fmt;

use super::DriverError;

/// An array, a texture or a surface violates a limit of the device or a rule of CUDA. Each error
/// names the value, the limit and what to do instead.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArrayError {
    /// A size is out of range.
    Size {
        /// The quantity, such as the width.
        what: &'static str,
        /// The object, such as a two-dimensional array.
        of: &'static str,
        /// The value.
        given: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
        /// The next step if the value is too large.
        next: &'static str,
    },
    /// An address or a pitch is not a multiple of what the device requires.
    NotMultiple {
        /// The quantity.
        what: &'static str,
        /// The value.
        given: u64,
        /// The divisor.
        of: u64,
        /// The next step.
        next: &'static str,
    },
    /// Two settings contradict each other.
    Contradiction {
        /// The rule.
        rule: &'static str,
        /// The next step.
        next: &'static str,
    },
    /// A range of levels or layers of a view is empty, or exceeds the array.
    View {
        /// The quantity: levels or layers.
        what: &'static str,
        /// The first one selected.
        first: u32,
        /// The last one selected.
        last: u32,
        /// The number that the array has.
        count: u32,
    },
    /// An argument of a launch writes an array that another argument uses. The number of an
    /// argument is counted from 1, and is 0 for memory that is not an argument.
    Conflict {
        /// The argument that writes the array.
        written: u8,
        /// The other argument.
        other: u8,
    },
    /// The driver does not have a feature that the request needs.
    NotSupported {
        /// The feature, such as block-compressed views.
        what: &'static str,
        /// The next step.
        next: &'static str,
        /// The error of the driver.
        source: DriverError,
    },
}

impl ArrayError {
    /// The error of the driver, if a driver call failed.
    #[must_use]
    pub fn driver_error(&self) -> Option<DriverError> {
        match self {
            Self::NotSupported { source, .. } => Some(*source),
            _ => None,
        }
    }
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size {
                what,
                of,
                given,
                least,
                most,
                next,
            } => {
                write!(
                    f,
                    "the {what} of {of} is {given}; {least} to {most} is allowed; "
                )?;
                match given < least {
                    true => write!(f, "use at least {least}"),
                    false => f.write_str(next),
                }
            }
            Self::NotMultiple {
                what,
                given,
                of,
                next,
            } => write!(
                f,
                "the {what} of a texture is {given:#x}, which is not a multiple of {of}; {next}"
            ),
            Self::Contradiction { rule, next } => write!(f, "{rule}; {next}"),
            Self::View {
                what,
                first,
                last,
                count,
            } => write!(
                f,
                "the view selects the {what} {first} to {last}; the array has {count}: 0 to {}",
                count.saturating_sub(1)
            ),
            Self::Conflict { written, other } => {
                let name = |argument: u8| match argument {
                    0 => String::from("other memory of the launch"),
                    argument => format!("argument {argument}"),
                };
                write!(
                    f,
                    "{} writes an array that {} uses; copy the array, or launch two kernels",
                    name(*written),
                    name(*other)
                )
            }
            Self::NotSupported { what, next, source } => {
                write!(f, "this device does not support {what}; {next} ({source})")
            }
        }
    }
}

impl std::error::Error for ArrayError {}
