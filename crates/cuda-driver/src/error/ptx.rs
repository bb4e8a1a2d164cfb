//! Errors of PTX texts that are not given to the driver.

use std::fmt;

/// The reason why a text is not given to the compiler of the driver, or to a linker.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PtxError {
    /// The bytes are not PTX text, but begin as something else. A driver would read them as machine
    /// code, or follow addresses in them.
    NotText {
        /// What they begin as, such as "a cubin (ELF)".
        found: &'static str,
        /// What to do instead.
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
                write!(
                    f,
                    "the bytes are not PTX text: they begin as {found}; {advice}"
                )
            }
            Self::Defect { line, message } => write!(
                f,
                "the PTX text has an error by which NVIDIA's assembler can end the process: line \
                 {line}: {message}"
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
