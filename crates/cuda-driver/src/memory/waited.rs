//! Calls that wait for memory return the violations of the launches that used it.

use super::Memory;
use crate::error::Result;
use crate::reports::{Mark, MemoryUse, Waited};
use crate::stream::Stream;
use crate::tracking::Access;

impl Memory {
    /// Fails with the violations of safe launches that used this memory, or that are on `stream`,
    /// and that were not reported. The caller has waited for the stream and for the uses that
    /// conflict with `access`, and got `begun` from [`begin`](crate::reports::begin) before.
    ///
    /// # Errors
    ///
    /// [`Error::Violation`](crate::Error::Violation).
    #[inline]
    pub(crate) fn report_violations(
        &self,
        begun: Option<u64>,
        access: Access,
        stream: Option<&Stream>,
    ) -> Result<()> {
        match begun {
            Some(begun) => self.report_found(begun, access, stream),
            None => Ok(()),
        }
    }

    #[cold]
    fn report_found(&self, begun: u64, access: Access, stream: Option<&Stream>) -> Result<()> {
        let mut waited = Waited::for_streams(stream.map(|stream| stream.state().id()));
        waited.add_memory(
            self.range(),
            access.is_write(),
            self.tracker.replays(),
            begun,
        );
        waited.report()
    }

    /// Marks the launches so far that used this memory, or that are on `stream`, for a later wait
    /// for both.
    #[inline]
    pub(crate) fn mark(&self, access: Access, stream: &Stream) -> Option<Mark> {
        let mut mark = stream.mark()?;
        self.add_to(&mut mark, access);
        Some(mark)
    }

    /// Adds the launches that used this memory.
    pub(crate) fn add_to(&self, mark: &mut Mark, access: Access) {
        mark.add_memory(self.range(), access.is_write(), self.tracker.replays());
    }

    /// The addresses of this memory.
    fn range(&self) -> MemoryUse {
        MemoryUse {
            driver: self.owning_stream().driver().identity(),
            address: self.address,
            bytes: self.bytes as u64,
        }
    }
}
