//! The errors of compiling and loading in one call.

use std::fmt;

/// The error of compiling and loading a program.
///
/// `Debug` prints the same text as `Display`, because `main` and `unwrap` show `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The program did not compile.
    #[error(transparent)]
    Nvrtc(#[from] cuda_nvrtc::Error),
    /// The program includes a header that was not found, and CUDA's own headers, which
    /// [`Module::from_source`](crate::Module::from_source) searches for, were not found either.
    #[error("{compile}\n{headers}")]
    NoCudaHeaders {
        /// The error of the compilation, which names the header.
        compile: Box<cuda_nvrtc::Error>,
        /// The places where CUDA's headers were searched for.
        headers: Box<cuda_nvrtc::Error>,
    },
    /// The driver did not load the compiled program, or did not return the architecture of the
    /// device.
    #[error(transparent)]
    Driver(#[from] crate::Error),
}

/// A function that compiles and launches can return [`crate::Result`]. The text stays; only
/// [`CompileError`] gives access to the messages of the compiler one by one.
impl From<CompileError> for crate::Error {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Driver(error) => error,
            other => Self::Compile {
                message: other.to_string().into(),
            },
        }
    }
}

impl fmt::Debug for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
