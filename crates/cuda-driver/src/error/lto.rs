//! Errors of linking LTO-IR.

use std::fmt;

use cuda_sys::nvjitlink::nvJitLinkResult;

use crate::types::JitLog;

/// A call of nvJitLink that failed, with the log of the linker.
#[derive(Clone, PartialEq, Eq)]
pub struct LtoError {
    status: nvJitLinkResult,
    call: &'static str,
    log: JitLog,
}

impl LtoError {
    pub(crate) fn new(status: nvJitLinkResult, call: &'static str, log: JitLog) -> Self {
        Self { status, call, log }
    }

    /// The status code.
    #[must_use]
    pub fn status(&self) -> nvJitLinkResult {
        self.status
    }

    /// The C function that returned the status.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The log of the linker.
    #[must_use]
    pub fn log(&self) -> &JitLog {
        &self.log
    }
}

impl fmt::Display for LtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.status)?;
        for line in self.log.to_string().lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LtoError {}
