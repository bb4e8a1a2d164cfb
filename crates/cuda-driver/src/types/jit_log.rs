//! The log of the driver's compiler or linker.

use std::fmt;
use std::time::Duration;

use cuda_sys::log::{Diagnostic, Log};

/// The log of the driver's compiler or linker. It is available on success as well as in an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitLog {
    info: Log,
    errors: Log,
    wall_time: Duration,
}

impl JitLog {
    /// Creates a log. `wall_time` is zero for a linker that does not report the time it took.
    pub(crate) fn new(info: Log, errors: Log, wall_time: Duration) -> Self {
        Self {
            info,
            errors,
            wall_time,
        }
    }

    /// Informational messages: remarks, and the details that
    /// [`JitOptions::verbose`](crate::jit::JitOptions::verbose) requests.
    #[must_use]
    pub fn info(&self) -> &Log {
        &self.info
    }

    /// Errors and warnings.
    #[must_use]
    pub fn errors(&self) -> &Log {
        &self.errors
    }

    /// The diagnostics of both logs, errors first, each with its line in the PTX.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found = self.errors.diagnostics();
        found.extend(self.info.diagnostics());
        found
    }

    /// The time that compiling and linking took, as measured by the driver; zero if there was
    /// nothing to compile or link.
    #[must_use]
    pub fn wall_time(&self) -> Duration {
        self.wall_time
    }
}

impl fmt::Display for JitLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logs = [&self.errors, &self.info].map(|log| log.as_str().trim());
        f.write_str(logs.join("\n").trim())
    }
}
