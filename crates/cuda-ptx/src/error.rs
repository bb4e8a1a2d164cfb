//! Errors in PTX text.

use std::fmt;

/// A syntax error in PTX text. Its `Display` has the form of a message of `ptxas`.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
    /// The message.
    pub message: String,
}

/// Prints the text of `Display`, because `main` and `unwrap` print this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
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
