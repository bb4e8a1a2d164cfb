//! CUDA versions, and where these bindings come from.

use std::fmt;

/// A CUDA version as the API writes it: 12040 is 12.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u32);

impl Version {
    /// From the API's number: `1000 * major + 10 * minor`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The API's number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The part before the dot.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.0 / 1000
    }

    /// The part behind the dot.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.0 % 1000 / 10
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}

/// What these bindings were made from: decided when this crate was built.
pub const BINDINGS: Bindings = include!(concat!(env!("OUT_DIR"), "/source.rs"));

/// See [`BINDINGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bindings {
    /// The newest CUDA version whose functions and types are here.
    pub version: Version,
    /// The header or the snapshot.
    pub source: Source,
}

/// A header of the build machine, or the committed snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Generated from the header found when this crate was built; what it lacks comes from the
    /// snapshot.
    Header {
        /// The version of that header.
        version: Version,
    },
    /// The snapshot.
    Snapshot {
        /// Why no header was used.
        reason: &'static str,
    },
}

impl fmt::Display for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::Header { version } => {
                write!(f, "CUDA {} from the header of CUDA {version}", self.version)
            }
            Source::Snapshot { reason } => {
                write!(f, "CUDA {} from the snapshot ({reason})", self.version)
            }
        }
    }
}
