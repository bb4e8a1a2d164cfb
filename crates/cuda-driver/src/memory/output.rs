//! Buffers that are created in an eager capture and outlive it: see
//! [`EagerCapture::outputs`](crate::graph::EagerCapture::outputs).

use super::fill::fill_range;
use super::{Memory, Source};
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::tracking::{Access, Blocked, Scope, retry};

impl Memory {
    /// Allocates `bytes` bytes, at least one, at once, although an eager capture may capture the
    /// calls on `owner`. Only nodes of the graph with this number can use the memory until that
    /// graph is launched.
    ///
    /// The memory is filled with zero bits: a launch need not write all of it, because nodes can be
    /// disabled, and bodies of conditional nodes need not run.
    #[track_caller]
    pub(crate) fn allocate_output(owner: &Stream, bytes: usize, graph: u64) -> Result<Self> {
        let source = Source::allocated(owner);
        // Without memory pools the driver call is `cuMemAlloc`, which would invalidate the capture.
        let relaxed = matches!(source, Source::Plain).then(|| owner.driver().relaxed());
        let memory = Self::allocate_of(owner, bytes, source)?;
        drop(relaxed);
        // Not `use_on`, which fails while the calls on the stream are captured.
        let mut scope = retry(|| {
            let scope = Scope::new(owner);
            scope.ready()?;
            memory.tracker.acquire(&scope, Access::WRITE)?;
            Ok::<_, Blocked<Error>>(scope)
        })?;
        // SAFETY: the range must be writable ← it is the range of `memory`, which has no other user
        // yet.
        let filled = unsafe { fill_range(owner, memory.address, &[0], bytes) };
        memory.tracker.commit(&mut scope, Access::WRITE);
        drop(scope);
        filled?;
        memory.tracker.expect_launch_of(graph);
        Ok(memory)
    }

    /// Fails if only nodes of a graph can use the memory.
    pub(crate) fn expect_usable(&self) -> Result<()> {
        if self.tracker.graph() != 0 {
            return Err(Error::MemoryOfCapture);
        }
        if self.tracker.unwritten_by() != 0 {
            return Err(Error::NotYetWritten);
        }
        Ok(())
    }
}
