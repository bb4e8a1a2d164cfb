//! Static facts about each C function.

use std::fmt;

use crate::Version;

/// One exported function of a CUDA library: a row of [`FUNCTIONS`](crate::FUNCTIONS).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function {
    /// The exported name including the revision: `cuCtxCreate_v4`.
    pub name: &'static str,
    /// The name without revision and stream mode, as passed to `cuGetProcAddress`: `cuCtxCreate`.
    pub base: &'static str,
    pub(crate) since: u32,
    /// Whether this variant uses the per-thread default stream as stream 0.
    pub per_thread: bool,
}

impl Function {
    /// Returns the CUDA version that introduced this revision.
    #[must_use]
    pub const fn since(&self) -> Version {
        Version::new(self.since)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (since CUDA {})", self.name, self.since())
    }
}
