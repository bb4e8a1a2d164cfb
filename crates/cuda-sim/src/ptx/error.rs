//! Errors in PTX text.

use std::fmt;

/// Where a PTX text is wrong, and how. Displays as `ptxas` would say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ptxas application ptx input, line {}; error   : {}",
            self.line, self.message
        )
    }
}

impl std::error::Error for Error {}
