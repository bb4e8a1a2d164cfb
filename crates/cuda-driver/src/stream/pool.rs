//! A fixed set of streams that are handed out round-robin. C has no counterpart.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Stream, StreamFlags};
use crate::context::Context;
use crate::error::Result;
use crate::reports::{self, Waited};

/// A fixed number of streams of one priority, handed out round-robin.
///
/// ```
/// use cuda_driver::{DeviceBuffer, Result};
/// use cuda_driver::stream::StreamPool;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// let pool = StreamPool::new(&context, 4, 0)?;
/// let buffers = (0..8_u32)
///     .map(|value| DeviceBuffer::filled(pool.next(), 100, value))
///     .collect::<Result<Vec<_>>>()?;
/// pool.synchronize()?;
/// assert_eq!(buffers[4].stream(), buffers[0].stream());
/// assert_eq!(buffers[5].to_vec()?, [5; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamPool {
    streams: Vec<Stream>,
    next: AtomicUsize,
}

impl StreamPool {
    /// `cuStreamCreateWithPriority(NON_BLOCKING, priority)`—Creates `count` streams in `context`,
    /// but at least one.
    pub fn new(context: &Context, count: usize, priority: i32) -> Result<Self> {
        let make = |_| Stream::new(context, StreamFlags::NON_BLOCKING, priority);
        Ok(Self {
            streams: (0..count.max(1)).map(make).collect::<Result<_>>()?,
            next: AtomicUsize::new(0),
        })
    }

    /// Returns the next stream. The first stream follows the last one.
    #[must_use]
    pub fn next(&self) -> &Stream {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.streams[turn % self.streams.len()]
    }

    /// Returns all streams of the pool.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// `cuStreamSynchronize()`—Waits for all streams of the pool.
    ///
    /// # Errors
    ///
    /// The first fault. After a fault, the remaining streams are not waited for.
    /// [`Error::Violation`](crate::Error::Violation) with the violations of all
    /// [safe launches](Stream::launch_safe) on these streams that were not reported.
    pub fn synchronize(&self) -> Result<()> {
        for stream in &self.streams {
            stream.expect_direct("StreamPool::synchronize")?;
            stream.state().synchronize_explicitly(stream.context())?;
        }
        if reports::any() {
            let ids = self.streams.iter().map(|stream| stream.state().id());
            Waited::for_streams(ids).report()?;
        }
        Ok(())
    }
}
