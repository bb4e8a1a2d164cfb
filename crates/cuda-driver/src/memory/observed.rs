//! Allocations and frees, as memory reports, profiles and `tracing` record them.

use std::mem;
use std::panic::Location;

use cuda_sys::CUdeviceptr;

use super::allocation::{Block, Memory, Source};
use crate::memory_ledger::{Entry, MemoryKind};
use crate::stream::Stream;
use crate::subscriber::event;

impl Memory {
    /// Creates an allocation of memory that the driver allocated just now.
    ///
    /// # Safety
    ///
    /// The requirements of [`of_source`](Self::of_source) apply.
    #[track_caller]
    pub(super) unsafe fn of_new(
        owner: &Stream,
        address: CUdeviceptr,
        bytes: usize,
        source: Source,
    ) -> Self {
        event!(
            debug,
            bytes,
            address,
            stream = owner.as_raw().addr(),
            "allocate"
        );
        // SAFETY: the memory must be usable, from `source`, and freed by no other code ← the caller
        // guarantees it.
        unsafe { Self::of_source(owner, address, bytes, source) }
    }

    /// Adds the memory to the ledger of its context, if `Context::track_memory` is on.
    #[inline]
    #[track_caller]
    pub(crate) fn record(&self) {
        self.record_at(Location::caller());
    }

    /// Adds the memory to the ledger as that of a buffer which was created at `location`.
    #[inline]
    fn record_at(&self, location: &'static Location<'static>) {
        let owner = self.owning_stream();
        let ledger = owner.context().memory_ledger();
        if !ledger.is_on() || self.bytes == 0 {
            return;
        }
        let (kind, pool) = match &self.source {
            Source::Nothing => return,
            Source::Ordered => (MemoryKind::StreamOrdered, 0),
            Source::Plain => (MemoryKind::Unpooled, 0),
            Source::Managed(_) => (MemoryKind::Managed, 0),
            Source::Mapped(_) => (MemoryKind::Mapped, 0),
            Source::Other(owner) => owner.origin(),
        };
        let entry = Entry {
            bytes: self.bytes,
            location,
            kind,
            pool,
            stream: owner.as_raw().addr() as u64,
        };
        ledger.add(self.address, entry);
    }

    /// Changes the number of bytes of a buffer that was created at `location`. All of them must be
    /// memory that the context can use.
    pub(super) fn set_bytes(&mut self, bytes: usize, location: &'static Location<'static>) {
        let before = mem::replace(&mut self.bytes, bytes);
        let owner = self.owning_stream();
        let ledger = owner.context().memory_ledger();
        if ledger.is_on() && bytes == 0 {
            ledger.remove(self.address);
        }
        self.record_at(location);
        owner.memory_changed(bytes as i64 - before as i64);
        event!(
            debug,
            bytes = bytes.abs_diff(before),
            address = self.address,
            stream = owner.as_raw().addr(),
            "{}",
            if bytes > before { "allocate" } else { "free" }
        );
    }
}

impl Source {
    /// Returns whether giving the memory back frees it in the driver. A caching pool keeps it, and
    /// graphs, modules and other code free it by themselves.
    pub(super) fn is_of_driver(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Ordered | Self::Plain | Self::Managed(_) | Self::Mapped(_) => true,
            Self::Other(owner) => owner.origin().0 == MemoryKind::Pool,
        }
    }
}

impl Block {
    /// Reports that the memory is about to be freed.
    pub(super) fn report_free(&self) {
        self.report_given_up();
        event!(
            debug,
            bytes = self.bytes,
            address = self.address,
            stream = self.tracker.owning_stream().as_raw().addr(),
            "free"
        );
    }

    /// Reports that the memory no longer belongs to this crate.
    pub(super) fn report_given_up(&self) {
        let owner = self.tracker.owning_stream();
        owner.memory_changed(-(self.bytes as i64));
    }
}
