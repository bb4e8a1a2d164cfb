//! What can go wrong when a library is looked for, told so that it can be mended.

use std::fmt;

use crate::{Function, Version};

/// One place that was looked at, and why it would not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file, as it was given to the system's loader.
    pub library: String,
    /// What the system's loader, or this crate, had against it.
    pub reason: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.library, self.reason)
    }
}

/// Why no library could be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// NVIDIA makes no such library for this system.
    #[error(
        "{library}: NVIDIA makes none for this operating system; the software device (cuda-sim) runs here"
    )]
    UnsupportedPlatform {
        /// Which library.
        library: &'static str,
    },
    /// None of the places had a library that could be loaded.
    #[error("{library} could not be loaded; tried:{}{hint}", list(tried))]
    NotFound {
        /// Which library.
        library: &'static str,
        /// Every place, in the order of the search.
        tried: Vec<Attempt>,
        /// What usually mends it.
        hint: &'static str,
    },
    /// The file is a library, but lacks what every library of its kind has.
    #[error("{library}: no function {missing}, so it is not {expected}")]
    NotTheLibrary {
        /// The file.
        library: String,
        /// The first function that was not there.
        missing: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// The library is older than this crate supports.
    #[error("{library}: CUDA {found} is older than {oldest}, the oldest that is supported")]
    TooOld {
        /// The file.
        library: String,
        /// Its version.
        found: Version,
        /// The oldest version that is supported.
        oldest: Version,
    },
    /// The library did not say its version.
    #[error("{library}: {function} failed with status {code}")]
    VersionUnknown {
        /// The file.
        library: String,
        /// The call that failed.
        function: &'static Function,
        /// What it answered.
        code: u32,
    },
}

fn list(tried: &[Attempt]) -> String {
    tried
        .iter()
        .map(|attempt| format!("\n  {attempt}"))
        .collect()
}
