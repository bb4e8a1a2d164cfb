//! Streams that are made once and used in turn.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Stream, StreamFlags};
use crate::context::Context;
use crate::error::Result;

/// So many streams of one priority, handed out in turn.
#[derive(Debug)]
pub struct StreamPool {
    streams: Vec<Stream>,
    next: AtomicUsize,
}

impl StreamPool {
    /// `cuStreamCreateWithPriority(NON_BLOCKING, priority)`—`count` streams in `context`, at least
    /// one.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn new(context: &Context, count: usize, priority: i32) -> Result<Self> {
        let make = |_| Stream::new(context, StreamFlags::NON_BLOCKING, priority);
        Ok(Self {
            streams: (0..count.max(1)).map(make).collect::<Result<_>>()?,
            next: AtomicUsize::new(0),
        })
    }

    /// The next stream, and after the last the first again.
    #[must_use]
    pub fn next(&self) -> &Stream {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.streams[turn % self.streams.len()]
    }

    /// All of them.
    #[must_use]
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// `cuStreamSynchronize()`—Waits for all of them.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn synchronize(&self) -> Result<()> {
        self.streams.iter().try_for_each(Stream::synchronize)
    }
}
