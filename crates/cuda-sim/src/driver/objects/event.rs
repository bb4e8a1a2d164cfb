//! Events: markers in streams, and the work that they have recorded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use cuda_sys::CUresult;

use crate::driver::objects::device::Device;
use crate::driver::objects::edge::Edge;
use crate::driver::objects::shared_event::SharedEvent;
use crate::driver::status::{CAPTURED_EVENT, INVALID_VALUE, Status};
use crate::engine::OpId;
use crate::lock::lock;

/// `CU_EVENT_DISABLE_TIMING`
pub(in crate::driver) const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`
pub(in crate::driver) const INTERPROCESS: u32 = 4;

/// An event.
#[derive(Debug)]
pub(in crate::driver) struct Event {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) context: u64,
    pub(in crate::driver) device: Arc<Device>,
    pub(in crate::driver) flags: u32,
    pub(in crate::driver) record: Mutex<Option<Record>>,
    /// The part that other processes see, if the event is for them and the system supports it.
    pub(in crate::driver) shared: Option<Arc<SharedEvent>>,
}

/// The latest recording.
#[derive(Clone, Debug)]
pub(in crate::driver) enum Record {
    /// The recording was queued as an operation.
    Queued(Recording),
    /// The recording was captured: it is a set of nodes of the graph under construction.
    Captured(CapturedRecord),
}

impl CapturedRecord {
    /// Returns the error of a call that cannot use an event of a capture. An H100 returns
    /// `INVALID_VALUE` once the capture is broken or has ended, however it ended.
    pub(in crate::driver) fn error(&self) -> CUresult {
        if self.is_over.load(Ordering::Acquire) {
            INVALID_VALUE
        } else {
            CAPTURED_EVENT
        }
    }
}

/// A recording made while its stream was captured.
#[derive(Clone, Debug)]
pub(in crate::driver) struct CapturedRecord {
    pub(in crate::driver) capture: u64,
    /// Whether the capture has failed or ended.
    pub(in crate::driver) is_over: Arc<AtomicBool>,
    /// The nodes that a wait for the event depends on.
    pub(in crate::driver) after: Vec<(u64, Edge)>,
}

/// A recording that was queued.
#[derive(Clone, Debug)]
pub(in crate::driver) struct Recording {
    pub(in crate::driver) op: OpId,
    pub(in crate::driver) at: Mark,
    /// The number among the recordings of all processes, if the event is shared.
    pub(in crate::driver) number: u64,
}

/// The time at which a recording was reached, if it was.
#[derive(Clone, Debug, Default)]
pub(in crate::driver) struct Mark(pub(in crate::driver) Arc<Mutex<Option<Instant>>>);

impl Mark {
    /// Stores the current time; called when the recording runs in stream order.
    pub(in crate::driver) fn reach(&self) {
        *lock(&self.0) = Some(Instant::now());
    }
}

impl Event {
    pub(in crate::driver) fn record(&self) -> MutexGuard<'_, Option<Record>> {
        lock(&self.record)
    }

    /// Returns whether the event was created with the interprocess flag.
    pub(in crate::driver) fn is_interprocess(&self) -> bool {
        self.flags & INTERPROCESS != 0
    }

    /// Returns the latest queued recording. Fails if the latest recording belongs to a capture.
    pub(in crate::driver) fn recording(&self) -> Status<Option<Recording>> {
        match &*self.record() {
            None => Ok(None),
            Some(Record::Queued(recording)) => Ok(Some(recording.clone())),
            Some(Record::Captured(marked)) => Err(marked.error()),
        }
    }

    /// Begins a recording that other processes see. Returns its number.
    pub(in crate::driver) fn begin(&self) -> Option<(Arc<SharedEvent>, u64)> {
        let shared = Arc::clone(self.shared.as_ref()?);
        let number = shared.begin();
        Some((shared, number))
    }

    /// Returns the latest recording if another process made it. `own` is the latest one of this
    /// process.
    pub(in crate::driver) fn elsewhere(
        &self,
        own: Option<&Recording>,
    ) -> Option<(Arc<SharedEvent>, u64)> {
        let shared = self.shared.as_ref()?;
        let latest = shared.latest();
        let own = own.map_or(0, |recording| recording.number);
        (latest != own).then(|| (Arc::clone(shared), latest))
    }
}
