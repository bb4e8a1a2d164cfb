//! Calls that wait for memory return the violations of the launches that used it.

use smallvec::SmallVec;

use super::Memory;
use crate::error::Result;
use crate::reports::{self, Mark, MemoryUse, Waited};
use crate::stream::Stream;

impl Memory {
    /// Fails with the violations of safe launches that used this memory, or that are on `stream`,
    /// and that were not reported. The caller has waited for both.
    ///
    /// # Errors
    ///
    /// [`Error::Violation`](crate::Error::Violation).
    #[inline]
    pub(crate) fn report_violations(&self, stream: Option<&Stream>) -> Result<()> {
        match reports::any() {
            true => self.report_found(stream),
            false => Ok(()),
        }
    }

    #[cold]
    fn report_found(&self, stream: Option<&Stream>) -> Result<()> {
        let mut waited = Waited::for_streams(stream.map(|stream| stream.state().id()));
        let (memory, replays) = self.uses();
        waited.add_memory(memory, replays);
        waited.report()
    }

    /// Marks the launches so far that used this memory, or that are on `stream`, for a later wait
    /// for both.
    #[inline]
    pub(crate) fn mark(&self, stream: &Stream) -> Option<Mark> {
        let mut mark = stream.mark()?;
        self.add_to(&mut mark);
        Some(mark)
    }

    /// Adds the launches that used this memory.
    pub(crate) fn add_to(&self, mark: &mut Mark) {
        let (memory, replays) = self.uses();
        mark.add_memory(memory, replays);
    }

    /// The range of this memory, and the executables whose nodes use it.
    fn uses(&self) -> (MemoryUse, SmallVec<[usize; 1]>) {
        let memory = MemoryUse {
            driver: self.owning_stream().driver().identity(),
            address: self.address,
            bytes: self.bytes as u64,
        };
        (memory, self.tracker.replays())
    }
}
