//! Errors of PTX texts that are not given to the driver.

use std::fmt;

/// The reason why a text is not given to the compiler of the driver, or to a linker.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PtxError {
    /// The bytes are not PTX text, but begin as something else. A driver would read them as machine
    /// code, or follow addresses in them.
    NotText {
        /// The kind of file that begins in this way, such as "a cubin (ELF)".
        found: &'static str,
        /// The next step, such as another function to load the file with.
        advice: &'static str,
    },
    /// The compiler could end the process.
    Defect {
        /// The line in the text, from 1.
        line: u32,
        /// The cause.
        message: String,
    },
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText { found, advice } => {
                write!(f, "the bytes are {found}, not PTX text; {advice}")
            }
            Self::Defect { line, message } => write!(
                f,
                "line {line} of the PTX text: {message}; NVIDIA's assembler can end the process \
                 because of this error, so the text was not compiled: correct it"
            ),
        }
    }
}

impl fmt::Debug for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PtxError {}
