//! Reports on lost devices: the first error, and the launches in flight at that time.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use cuda_sys::{CUresult, Function};

use crate::lock::{Mutex, rank};
use crate::types::LaunchesInFlight;

/// The report on a device that was lost to this process: the call that first reported the loss, and
/// the launches that were in flight at that time.
///
/// If a kernel launched through this crate caused the loss, the report lists its launch, or that of
/// its graph, unless more than 64 launches were in flight on its stream, or two threads launched on
/// that stream at the same instant.
#[derive(Clone)]
pub struct DeviceLoss(Arc<Facts>);

struct Facts {
    device: u32,
    status: CUresult,
    call: &'static Function,
    launches: Vec<LaunchesInFlight>,
}

/// The index of a [`DeviceLoss`] in [`LOSSES`], for errors that are `Copy`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossId(NonZeroU32);

/// The losses of this process, at most [`MAX_LOSSES`]. Each device adds at most one, so the limit
/// matters only to a process that keeps creating and losing software devices.
static LOSSES: Mutex<Vec<DeviceLoss>, { rank::LOSSES }> = Mutex::new(Vec::new());
const MAX_LOSSES: usize = 4096;

impl LossId {
    /// Stores `loss`. Returns `None` if the list is full.
    pub(crate) fn new(loss: DeviceLoss) -> Option<Self> {
        let mut losses = LOSSES.lock();
        if losses.len() == MAX_LOSSES {
            return None;
        }
        losses.push(loss);
        NonZeroU32::new(u32::try_from(losses.len()).ok()?).map(Self)
    }

    pub(super) fn loss(self) -> Option<DeviceLoss> {
        let losses = LOSSES.lock();
        losses.get(self.0.get() as usize - 1).cloned()
    }
}

impl DeviceLoss {
    pub(crate) fn new(
        device: u32,
        status: CUresult,
        call: &'static Function,
        launches: Vec<LaunchesInFlight>,
    ) -> Self {
        Self(Arc::new(Facts {
            device,
            status,
            call,
            launches,
        }))
    }

    /// The ordinal of the device.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.0.device
    }

    /// The status that the driver returned first.
    #[must_use]
    pub fn status(&self) -> CUresult {
        self.0.status
    }

    /// The call that returned that status.
    #[must_use]
    pub fn call(&self) -> &'static Function {
        self.0.call
    }

    /// The launches that were not known to be complete at that time, for each stream of the device.
    #[must_use]
    pub fn launches(&self) -> &[LaunchesInFlight] {
        &self.0.launches
    }
}

impl fmt::Display for DeviceLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts {
            device,
            call,
            launches,
            ..
        } = &*self.0;
        write!(
            f,
            "this process can no longer use device {device} (first reported by {call}); "
        )?;
        let Some((first, others)) = launches.split_first() else {
            return f.write_str("no launch was in flight");
        };
        write!(f, "launches in flight, latest first: {first}")?;
        others.iter().try_for_each(|other| write!(f, "; {other}"))
    }
}

impl fmt::Debug for DeviceLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
