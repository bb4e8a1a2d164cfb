//! A hook that sees the work that is queued on a stream, for the profiler. C has no counterpart.
//!
//! A stream without an observer pays one relaxed load per copy, and nothing per launch: launches
//! test a flag of the stream anyway (`StreamState::launches_directly`).

#![cfg_attr(
    not(feature = "profile"),
    allow(dead_code, reason = "only the profiler observes streams")
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cuda_sys::CUstream;

use crate::driver::Driver;
use crate::error::DriverError;
use crate::fence::RawEvent;
use crate::handle::Handle;
use crate::lock::{Mutex, rank};
use crate::types::{LaunchConfig, WorkKind};

/// A call that queues work.
pub(crate) struct Work<'a> {
    pub(crate) kind: WorkKind,
    /// The name of the kernel or the graph; otherwise the kind of work.
    pub(crate) name: &'a str,
    /// The bytes that are copied or filled, or those of the arguments of a kernel.
    pub(crate) bytes: u64,
    pub(crate) kernel: Option<KernelLaunch<'a>>,
}

/// A launch of a kernel.
pub(crate) struct KernelLaunch<'a> {
    pub(crate) config: LaunchConfig,
    /// Queries the resources of the kernel.
    pub(crate) resources: &'a dyn Fn() -> KernelResources,
}

/// The resources of a kernel, and its occupancy with one configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct KernelResources {
    pub(crate) registers: u32,
    pub(crate) static_shared: u32,
    pub(crate) local: u32,
    /// The share of the warps of a multiprocessor that can be active, from 0 to 1.
    pub(crate) occupancy: f32,
}

/// The stream on which work is queued.
pub(crate) struct Site<'a> {
    pub(crate) driver: &'a Driver,
    /// The handle of the stream. If it is a default stream of C, its context is current.
    pub(crate) raw: CUstream,
    /// The id of the queue.
    pub(crate) id: u64,
    /// Creates this number of events that record the time.
    pub(crate) create: &'a dyn Fn(usize) -> Result<Vec<Handle<RawEvent>>, DriverError>,
}

/// Work between [`Observer::begin`] and [`Observer::end`].
pub(crate) struct Ticket {
    /// The event before the work, and one to record after it; `None` if that could not be done.
    pub(crate) events: Option<(Handle<RawEvent>, Handle<RawEvent>)>,
    pub(crate) begun: Instant,
}

/// Sees the work that is queued on a stream.
pub(crate) trait Observer: Send + Sync {
    /// Called right before the work is queued.
    fn begin(&self, site: &Site<'_>, work: &Work<'_>) -> Ticket;

    /// Called right after the call that queued the work.
    fn end(&self, site: &Site<'_>, work: &Work<'_>, ticket: Ticket, is_queued: bool);

    /// Called when `change` bytes of device memory were allocated, or freed if it is negative.
    fn memory(&self, change: i64);
}

/// The place for an observer.
#[derive(Default)]
pub(crate) struct ObserverSlot {
    is_set: AtomicBool,
    observer: Mutex<Option<Arc<dyn Observer>>, { rank::OBSERVER }>,
}

impl ObserverSlot {
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn Observer>> {
        if self.is_set() {
            self.observer.lock().clone()
        } else {
            None
        }
    }

    /// Sets the observer.
    pub(crate) fn set(&self, observer: Option<Arc<dyn Observer>>) {
        let is_set = observer.is_some();
        let mut slot = self.observer.lock();
        let former = std::mem::replace(&mut *slot, observer);
        self.is_set.store(is_set, Ordering::Relaxed);
        drop(slot);
        // Dropping an observer destroys events.
        drop(former);
    }
}
