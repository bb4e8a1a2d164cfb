//! The kinds of work that a stream executes.

use std::fmt;

/// A kind of work that is queued on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WorkKind {
    /// A kernel.
    Kernel,
    /// A copy from the host to the device.
    CopyToDevice,
    /// A copy from the device to the host.
    CopyToHost,
    /// A copy between memory of one device.
    CopyOnDevice,
    /// A copy between memory of two contexts.
    CopyToPeer,
    /// A fill.
    Fill,
    /// An executable graph.
    Graph,
    /// A host function.
    HostFunction,
}

impl WorkKind {
    /// The name of the kind, as reports print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::CopyToDevice => "copy to device",
            Self::CopyToHost => "copy to host",
            Self::CopyOnDevice => "copy on device",
            Self::CopyToPeer => "copy to peer",
            Self::Fill => "fill",
            Self::Graph => "graph",
            Self::HostFunction => "host function",
        }
    }
}

impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
