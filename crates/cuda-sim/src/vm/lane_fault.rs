//! The reason why lanes of a warp cannot continue.

use super::address::{LOCAL, PARAM, SHARED, TAG};
use super::fault::{Detail, FaultKind};
use crate::report::{Access, MemorySpace};

/// The reason why lanes cannot continue.
#[derive(Debug)]
pub(super) struct LaneFault {
    pub(super) kind: FaultKind,
    pub(super) lane: u32,
    pub(super) message: String,
    /// Boxed, so that a `Result` stays small.
    pub(super) more: Box<More>,
}

/// Further details of a [`LaneFault`].
#[derive(Debug, Default)]
pub(super) struct More {
    /// The access that failed.
    pub(super) access: Option<Access>,
    pub(super) detail: Detail,
}

impl LaneFault {
    pub(super) fn new(kind: FaultKind, mask: u32, message: impl Into<String>) -> Self {
        Self {
            kind,
            lane: mask.trailing_zeros() & 31,
            message: message.into(),
            more: Box::default(),
        }
    }

    /// Returns this fault with further details.
    pub(super) fn with(self, access: Option<Access>, detail: Detail) -> Self {
        let more = Box::new(More { access, detail });
        Self { more, ..self }
    }

    /// Creates the fault of one lane.
    pub(super) fn of(kind: FaultKind, lane: usize, message: impl Into<String>) -> Self {
        Self::new(kind, 1 << (lane & 31), message)
    }

    /// Creates the fault of an access whose address is not a multiple of `align`.
    pub(super) fn misaligned(at: u64, size: u64, align: u64, lane: usize) -> Self {
        let message = format!("{:#x} is not a multiple of {align}", at & !TAG);
        let lane_fault = Self::of(FaultKind::MisalignedAddress, lane, message);
        lane_fault.with(Some(access(at, size)), Detail::None)
    }
}

/// An access at a generic address.
pub(super) fn access(at: u64, size: u64) -> Access {
    Access {
        space: match at & TAG {
            SHARED => MemorySpace::Shared,
            LOCAL => MemorySpace::Local,
            PARAM => MemorySpace::Param,
            _ => MemorySpace::Global,
        },
        address: match at & TAG {
            SHARED | LOCAL | PARAM => at & !TAG,
            _ => at,
        },
        size,
    }
}
