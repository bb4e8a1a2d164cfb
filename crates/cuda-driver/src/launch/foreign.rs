//! Work that other code queues on a stream, ordered with the uses of buffers.

use cuda_sys::CUstream;

use super::launch::{acquire, commit};
use super::{KernelArgs, Tracked};
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::tracking::Scope;

/// Work of other code.
impl Stream {
    /// Calls `queue` with the raw stream, for work that other code queues there: a C library such as
    /// cuBLAS or NCCL, or raw calls.
    ///
    /// `uses` is a tuple of the buffers and views that this work uses, or an
    /// [`ArgList`](super::ArgList): `&buffer` if the work only reads it, and `&mut buffer` if it
    /// writes it. Before `queue` is called, the stream is made to wait for conflicting uses on other
    /// streams. Afterwards the uses are recorded, also if `queue` panics, so later conflicting uses
    /// wait for them. [`as_raw`](Self::as_raw) alone orders nothing.
    ///
    /// ```
    /// use cuda_driver::DeviceBuffer;
    ///
    /// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// # let other = cuda_driver::Stream::new(&context, cuda_driver::stream::StreamFlags::NON_BLOCKING, 0)?;
    /// let input = DeviceBuffer::filled(&stream, 100, 7_u8)?;
    /// let mut output = DeviceBuffer::<u8>::zeroed(&stream, 100)?;
    /// let (from, to) = (input.as_raw(), output.as_raw());
    /// // SAFETY: the copy is queued on the stream, reads `input` and writes `output`.
    /// let status = unsafe {
    ///     other.using((&input, &mut output), |stream| {
    ///         driver.library().cuMemcpyDtoDAsync_v2(to, from, 100, stream)
    ///     })
    /// }?;
    /// assert_eq!(status, cuda_driver::error::Status::CUDA_SUCCESS);
    /// // `to_vec` waits for the copy.
    /// assert_eq!(output.to_vec()?, [7; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// No lock is held while `queue` runs, so it may use this crate, and wait for other threads.
    ///
    /// # Errors
    ///
    /// `queue` is not called if there is an error. [`Error::OtherContext`] if a buffer does not
    /// belong to the context of the stream. [`Error::GraphMemory`] if a graph uses the memory, or if
    /// it may have [aliases](crate::DeviceBuffer::allow_aliases): a replay or an alias could use it
    /// while `queue` runs.
    ///
    /// # Safety
    ///
    /// - The work uses only memory that `uses` permits, and memory that the caller orders in another
    ///   way.
    /// - When `queue` returns or panics, all of this work is queued on the stream, or on streams that
    ///   the stream has been made to wait for. The raw stream is not used for these buffers
    ///   afterwards.
    /// - While `queue` runs, this memory is used in no other way that conflicts: not through copies of
    ///   an [`InPlace`](crate::memory::InPlace) argument or new aliases.
    /// - `queue` neither begins nor ends a capture of the stream.
    pub unsafe fn using<A: KernelArgs, R>(
        &self,
        uses: A,
        queue: impl FnOnce(CUstream) -> R,
    ) -> Result<R> {
        let scope = Scope::acquire(self, |scope| {
            uses.each_tracked(&mut expect_unleased)?;
            acquire(scope, &uses)?;
            // A graph may have leased the memory meanwhile. Then the scope may have taken the replay
            // lock, which must not be held while `queue` runs.
            Ok(uses.each_tracked(&mut expect_unleased)?)
        })?;
        // A graph that leases the memory from now on does not conflict: `uses` borrows the memory.
        let recording = RecordOnDrop {
            scope,
            uses: Some(uses),
        };
        let result = queue(self.as_raw());
        drop(recording);
        Ok(result)
    }
}

/// Fails if replays or aliases may use the memory without a borrow.
fn expect_unleased(tracked: Tracked<'_>) -> Result<()> {
    match tracked.memory {
        Some(memory) if memory.tracker.is_leased() => Err(Error::GraphMemory),
        _ => Ok(()),
    }
}

/// Records the uses when it is dropped: after the work was queued, and if queueing it panicked.
struct RecordOnDrop<'a, A: KernelArgs> {
    scope: Scope<'a>,
    /// `None` only while it is dropped.
    uses: Option<A>,
}

impl<A: KernelArgs> Drop for RecordOnDrop<'_, A> {
    fn drop(&mut self) {
        if let Some(uses) = self.uses.take() {
            commit(&mut self.scope, uses);
        }
    }
}
