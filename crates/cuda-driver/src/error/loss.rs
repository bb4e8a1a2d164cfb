//! Devices that were lost, and what was running on them.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use cuda_sys::{CUresult, Function};

use super::DriverError;
use crate::launch::LaunchesInFlight;
use crate::lock::{Mutex, rank};

/// What is known of a device that was lost to this process: who told so first, and which launches
/// were in flight then.
///
/// If a kernel of this crate has caused it, that is one of them, unless more than 64 waited on its
/// stream.
#[derive(Clone)]
pub struct DeviceLoss(Arc<Facts>);

struct Facts {
    device: u32,
    status: CUresult,
    call: &'static Function,
    launches: Vec<LaunchesInFlight>,
}

/// The number of a loss: what an error that can be copied has of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossId(NonZeroU32);

/// Those of this process. So many are kept: as few as it has devices, unless it makes software ones
/// again and again.
static LOSSES: Mutex<Vec<DeviceLoss>, { rank::LOSSES }> = Mutex::new(Vec::new());
const MOST: usize = 4096;

impl LossId {
    /// Keeps `loss`; `None` if there is no room.
    pub(crate) fn new(loss: DeviceLoss) -> Option<Self> {
        let mut losses = LOSSES.lock();
        if losses.len() == MOST {
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
    pub(crate) fn new(device: u32, error: &DriverError, launches: Vec<LaunchesInFlight>) -> Self {
        Self(Arc::new(Facts {
            device,
            status: error.status(),
            call: error.call(),
            launches,
        }))
    }

    /// The ordinal of the device.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.0.device
    }

    /// What the driver answered first.
    #[must_use]
    pub fn status(&self) -> CUresult {
        self.0.status
    }

    /// The call that it answered it to.
    #[must_use]
    pub fn call(&self) -> &'static Function {
        self.0.call
    }

    /// For each stream of the device the launches that were not known to be done by then.
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
            "the device is lost to this process: device {device}, as {call} was "
        )?;
        let Some((first, others)) = launches.split_first() else {
            return f.write_str("told first; no launch was in flight");
        };
        write!(f, "told first; in flight were, the last first: {first}")?;
        others.iter().try_for_each(|other| write!(f, "; {other}"))
    }
}

impl fmt::Debug for DeviceLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
