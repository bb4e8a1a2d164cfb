//! What can go wrong when a library is looked for, told so that it can be mended.

use std::error::Error;
use std::fmt;

use crate::{CUresult, Function, Version};

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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// NVIDIA makes no such library for this system.
    UnsupportedPlatform {
        /// Which library.
        library: &'static str,
    },
    /// None of the places had a library that could be loaded.
    NotFound {
        /// Which library.
        library: &'static str,
        /// Every place, in the order of the search.
        tried: Vec<Attempt>,
        /// What usually mends it.
        hint: &'static str,
    },
    /// The file that an environment variable names cannot be used. Nothing else was tried.
    Variable {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// Why the file cannot be used.
        error: Box<LoadError>,
    },
    /// The file is a library, but lacks what every library of its kind has.
    NotTheLibrary {
        /// The file.
        library: String,
        /// The first function that was not there.
        missing: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// The library is older than this crate supports.
    TooOld {
        /// The file.
        library: String,
        /// Its version.
        found: Version,
        /// The oldest version that is supported.
        oldest: Version,
    },
    /// The library did not say its version.
    VersionUnknown {
        /// The file.
        library: String,
        /// The call that failed.
        function: &'static Function,
        /// What it answered: 0 if the call succeeded, and the version it told is none.
        code: u32,
    },
}

// By hand: deriving it would build a Rust parser before this crate, which then takes twice as long.
impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedPlatform { library } => write!(
                f,
                "{library}: NVIDIA makes none for this operating system; the software device (cuda-sim) runs here"
            ),
            Self::NotFound {
                library,
                tried,
                hint,
            } => {
                write!(f, "{library} could not be loaded; tried:")?;
                for attempt in tried {
                    write!(f, "\n  {attempt}")?;
                }
                f.write_str(hint)
            }
            Self::Variable {
                variable,
                value,
                error,
            } => write!(
                f,
                "{variable} is set to {value}, which cannot be used: {error}\nCorrect the value, or \
                 unset {variable} to search the usual places."
            ),
            Self::NotTheLibrary {
                library,
                missing,
                expected,
            } => write!(
                f,
                "{library}: no function {missing}, so it is not {expected}"
            ),
            Self::TooOld {
                library,
                found,
                oldest,
            } => write!(
                f,
                "{library}: CUDA {found} is older than {oldest}, the oldest that is supported"
            ),
            Self::VersionUnknown {
                library,
                function,
                code: 0,
            } => write!(f, "{library}: {function} told no CUDA version"),
            Self::VersionUnknown {
                library,
                function,
                code,
            } if function.name.starts_with("cu") => {
                write!(f, "{library}: {function} failed: {}", CUresult(*code))
            }
            Self::VersionUnknown {
                library,
                function,
                code,
            } => write!(f, "{library}: {function} failed with status {code}"),
        }
    }
}

impl Error for LoadError {}
