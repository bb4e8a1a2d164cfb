//! The reason why a software driver could not be built.

use std::fmt;
use std::io;

/// The reason why a software driver could not be built.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` show `Debug`.
#[non_exhaustive]
pub enum BuildError {
    /// The process already holds the maximum number of software drivers; drop one first.
    TooMany {
        /// The maximum number of software drivers in a process.
        limit: usize,
    },
    /// The system has no address space left for the memory of the devices.
    NoAddressSpace(io::Error),
    /// A setting has an invalid value; the text names the setting, the value and the limits.
    BadSetting(String),
}

// `main` and `unwrap` show `Debug`.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { limit } => {
                write!(
                    f,
                    "all {limit} software drivers of this process are in use; drop one first"
                )
            }
            Self::NoAddressSpace(error) => {
                write!(
                    f,
                    "cannot reserve address space for the device memory: {error}; reduce `memory`"
                )
            }
            Self::BadSetting(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoAddressSpace(error) => Some(error),
            _ => None,
        }
    }
}
