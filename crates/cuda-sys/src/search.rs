//! Errors of the search for a library. Each message lists the causes and the remedy.

use std::error::Error;
use std::fmt;

use crate::{CUresult, Function, Version};

/// A place that was tried, and the reason why it was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The path, as it was passed to the system's loader.
    pub library: String,
    /// The reason, from the system's loader or from this crate.
    pub reason: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.library, self.reason)
    }
}

/// The reason why no library could be loaded.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` show `Debug`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// NVIDIA has no such library for this operating system.
    UnsupportedPlatform {
        /// The library.
        library: &'static str,
    },
    /// No place had a library that could be loaded.
    NotFound {
        /// The library.
        library: &'static str,
        /// Every place that was tried, in search order.
        tried: Vec<Attempt>,
        /// The usual remedy.
        hint: &'static str,
    },
    /// The file that an environment variable names cannot be used. No other place was tried.
    Variable {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The reason why the file cannot be used.
        error: Box<LoadError>,
    },
    /// The file is a library, but lacks a function that every library of its kind has.
    NotTheLibrary {
        /// The file.
        library: String,
        /// The first missing function.
        missing: &'static str,
        /// The expected kind of library.
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
    /// The library did not report its version.
    VersionUnknown {
        /// The file.
        library: String,
        /// The call that failed.
        function: &'static Function,
        /// The status that it returned: 0 if the call succeeded but returned an invalid version.
        code: u32,
    },
}

impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// Implemented by hand, because a derive macro would build a Rust parser before this crate and
// double its build time.
impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedPlatform { library } => write!(
                f,
                "{library}: NVIDIA does not support this operating system; use the software device (cuda-sim) here"
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
                "{library}: it has no function {missing}, so it is not {expected}"
            ),
            Self::TooOld {
                library,
                found,
                oldest,
            } => write!(
                f,
                "{library}: it is of CUDA {found}; the oldest supported version is {oldest}: \
                 install a newer version"
            ),
            Self::VersionUnknown {
                library,
                function,
                code: 0,
            } => write!(f, "{library}: {function} returned an invalid CUDA version"),
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
