//! What a compilation gave.

use crate::{Diagnostic, Log, PchStatus, Severity};

/// The output of a compilation, with what the compiler said and the names it gave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiled<T> {
    /// The output.
    pub image: T,
    /// What the compiler said. Not empty when there are warnings.
    pub log: Log,
    /// Each name expression of the program with its name in the output, in the program's order.
    pub lowered_names: Vec<(String, String)>,
    /// What became of precompiled headers. From a cache: nothing was attempted.
    pub pch: PchStatus,
}

impl<T> Compiled<T> {
    /// `nvrtcGetLoweredName`—The name in the output of a name expression of the program.
    #[doc(alias = "nvrtcGetLoweredName")]
    #[must_use]
    pub fn lowered_name(&self, expression: &str) -> Option<&str> {
        let found = self
            .lowered_names
            .iter()
            .find(|(known, _)| known == expression);
        found.map(|(_, name)| name.as_str())
    }

    /// The warnings of the compiler.
    #[must_use]
    pub fn warnings(&self) -> Vec<Diagnostic> {
        let mut diagnostics = self.log.diagnostics();
        diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Warning);
        diagnostics
    }
}
