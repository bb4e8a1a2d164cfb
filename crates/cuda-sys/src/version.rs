//! CUDA versions, and the origin of these bindings.

use std::fmt;

/// A CUDA version in the API's encoding: 12040 is 12.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u32);

impl Version {
    /// Creates a version from the API's number: `1000 * major + 10 * minor`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the API's number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the part before the dot.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.0 / 1000
    }

    /// Returns the part after the dot.
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

/// The origin of these bindings, which was determined when this crate was built.
pub const BINDINGS: Bindings = include!(concat!(env!("OUT_DIR"), "/source.rs"));

/// The origin of the bindings ([`BINDINGS`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bindings {
    /// The newest CUDA version whose functions and types the bindings include.
    pub version: Version,
    /// The source from which they were generated.
    pub source: Source,
}

/// The source of the bindings: a header of the build machine, or the committed snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The bindings were generated from the header found when this crate was built. Items that the
    /// header lacks come from the snapshot.
    Header {
        /// The version of that header.
        version: Version,
    },
    /// The bindings are the committed snapshot.
    Snapshot {
        /// The reason why no header was used.
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
