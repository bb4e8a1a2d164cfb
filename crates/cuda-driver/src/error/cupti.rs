//! Errors of CUPTI.

use std::fmt;

use cuda_sys::cupti::CUptiResult;

/// The reason why the profiler cannot use CUPTI.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CuptiError {
    /// This crate does not know the layout of the records of this version.
    UnknownVersion {
        /// The file of the library.
        library: String,
        /// The version of the interface, which `cuptiGetVersion` returned.
        version: u32,
    },
    /// Another profiler of this process uses CUPTI, which has one user at a time.
    InUse,
    /// A tool, such as Nsight Systems, cuda-gdb or another library, uses CUPTI in this process.
    OtherTool {
        /// The call that failed.
        call: &'static str,
    },
    /// A call of CUPTI failed.
    Call {
        /// The call that failed.
        call: &'static str,
        /// The status code that it returned.
        status: CUptiResult,
        /// The name that CUPTI has for the status.
        text: String,
        /// The file of the library.
        library: String,
    },
}

impl fmt::Display for CuptiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVersion { library, version } => write!(
                f,
                "{library}: this is version {version} of CUPTI; this crate knows the records of \
                 versions 19 to 28 (CUDA 12) and 130000 to 130599 (CUDA 13.0 to 13.5); set \
                 CUDA_CUPTI_LIBRARY to one of those, or use the profiler with events"
            ),
            Self::InUse => f.write_str(
                "another profiler of this process uses CUPTI, which has one user at a time; finish \
                 that profiler first, or use this one with events",
            ),
            Self::OtherTool { call } => write!(
                f,
                "{call}: another tool uses CUPTI in this process, such as Nsight Systems, Nsight \
                 Compute, cuda-gdb or compute-sanitizer; run the program without it, or use the \
                 profiler with events"
            ),
            Self::Call {
                call,
                status,
                text,
                library,
            } => {
                write!(f, "{call} of {library} failed: {text} ({status})")?;
                match *status {
                    CUptiResult::CUPTI_ERROR_NOT_COMPATIBLE
                    | CUptiResult::CUPTI_ERROR_NOT_INITIALIZED => f.write_str(
                        "; CUPTI needs NVIDIA's driver, and one that is not older than CUPTI",
                    ),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl fmt::Debug for CuptiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CuptiError {}
