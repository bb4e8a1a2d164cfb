//! The launches that were in flight on a stream at some moment.

use std::fmt;
use std::sync::Arc;

/// The launches of one stream that are not known to be complete, latest first: at most the last 64.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LaunchesInFlight {
    stream: usize,
    kernels: Vec<Arc<str>>,
}

impl LaunchesInFlight {
    /// `stream` is the address of the handle of the stream.
    pub(crate) fn new(stream: usize, kernels: Vec<Arc<str>>) -> Self {
        Self { stream, kernels }
    }

    /// Returns the address of the handle of the stream.
    pub(crate) fn stream(&self) -> usize {
        self.stream
    }

    /// Returns the names of the kernels, latest launch first. The launch of a graph has a name such
    /// as `a graph (mix, copy)`.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.kernels.iter().map(|name| &**name)
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }
}

impl fmt::Display for LaunchesInFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.kernels().peekable();
        while let Some(name) = names.next() {
            f.write_str(name)?;
            let mut times = 1;
            while names.next_if_eq(&name).is_some() {
                times += 1;
            }
            if times > 1 {
                write!(f, " ×{times}")?;
            }
            if names.peek().is_some() {
                f.write_str(", ")?;
            }
        }
        write!(f, " on Stream({:#x})", self.stream)
    }
}

impl fmt::Debug for LaunchesInFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
