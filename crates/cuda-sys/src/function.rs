//! What is known of each C function without calling it.

use std::fmt;

use crate::Version;

/// One exported function of a CUDA library: a row of [`FUNCTIONS`](crate::FUNCTIONS).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function {
    /// The exported name, with its revision: `cuCtxCreate_v4`.
    pub name: &'static str,
    /// The name without revision and stream mode, as `cuGetProcAddress` takes it: `cuCtxCreate`.
    pub base: &'static str,
    pub(crate) since: u32,
    /// Whether this is the variant for which stream 0 is the per-thread default stream.
    pub per_thread: bool,
}

impl Function {
    /// The CUDA version that introduced this revision.
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
