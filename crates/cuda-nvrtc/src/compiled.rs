//! The result of a compilation.

use crate::{Diagnostic, Log, PchStatus, Severity};

/// The output of a compilation, with the compiler's log and the lowered names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiled<T> {
    /// The compiled image.
    pub image: T,
    /// The compiler's log. It is not empty if there are warnings.
    pub log: Log,
    /// Each name expression of the program with its name in the output, in the program's order.
    pub lowered_names: Vec<(String, String)>,
    /// Whether precompiled headers were created. [`PchStatus::NotAttempted`] if the result is from
    /// a cache.
    pub pch: PchStatus,
}

impl<T> Compiled<T> {
    /// `nvrtcGetLoweredName`—Returns the name in the output of a name expression of the program.
    #[doc(alias = "nvrtcGetLoweredName")]
    #[must_use]
    pub fn lowered_name(&self, expression: &str) -> Option<&str> {
        let found = self
            .lowered_names
            .iter()
            .find(|(known, _)| known == expression);
        found.map(|(_, name)| name.as_str())
    }

    /// Returns the warnings in the log.
    #[must_use]
    pub fn warnings(&self) -> Vec<Diagnostic> {
        let mut diagnostics = self.log.diagnostics();
        diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Warning);
        diagnostics
    }
}
