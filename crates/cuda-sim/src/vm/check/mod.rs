//! Checks that cost time and are off unless asked for: bytes that nobody has written, races in
//! shared memory, threads that miss a barrier.
//!
//! Code that is decoded for them tells each access to an [`Observer`]. What it needs to know of a
//! block is its
//! [`Watch`]: for each byte of shared memory who used it last, for each byte of local memory whether it was written,
//! and what the barriers have put into order. Of global memory the
//! [`Shadow`](crate::memory::Shadow) says what was written.

mod barrier;
mod findings;
mod local;
mod observer;
mod order;
mod shared;

use std::sync::{Mutex, MutexGuard};

use crate::lock::lock;

pub(super) use barrier::{Attendance, divergent, missed_barriers, threads};
pub(super) use findings::Findings;
use local::LocalShadow;
pub(super) use observer::{Acquired, Observer, Touch};
use order::Order;
use shared::SharedShadow;

/// Which checks are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Reads of bytes that nobody has written.
    pub uninitialised: bool,
    /// Unordered accesses of several threads to shared memory.
    pub races: bool,
    /// Barriers that some threads miss.
    pub barriers: bool,
}

impl Checks {
    /// Whether code must tell its accesses.
    pub fn of_accesses(self) -> bool {
        self.uninitialised || self.races
    }
}

/// What is known of a block that runs.
#[derive(Debug, Default)]
pub(super) struct Watch {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    order: Order,
    shared: SharedShadow,
    local: LocalShadow,
}

impl Watch {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A new block of so many warps, with so much shared memory, and of local memory so much for
    /// each thread.
    pub(super) fn reset(&self, warps: usize, shared_bytes: u32, stride: u32) {
        let state = &mut *self.state();
        if state.order.reset(warps) {
            state.shared.clear();
        }
        state.shared.resize(shared_bytes as usize);
        state.local.reset(warps, stride as usize);
    }

    /// A barrier is complete, for the warps of which a lane is in `arrived`.
    pub(super) fn barrier(&self, arrived: &[u32]) {
        self.state().order.barrier(arrived);
    }

    /// `bar.warp.sync` among the lanes `mask` of a warp.
    pub(super) fn warp_barrier(&self, warp: usize, mask: u32) {
        self.state().order.warp_barrier(warp, mask);
    }

    /// The lanes of `warp` may see all that anyone has done.
    pub(super) fn acquire(&self, warp: usize) {
        self.state().order.acquire(warp);
    }

    /// Nobody has written `len` bytes at `offset` of the local memory of these lanes.
    pub(super) fn forget_local(&self, warp: usize, mask: u32, offset: u32, len: u32) {
        self.state().local.forget(warp, mask, offset, len);
    }

    /// `len` bytes at `offset` of the local memory of a lane were written.
    pub(super) fn wrote_local(&self, warp: usize, lane: usize, offset: u32, len: usize) {
        let mut state = self.state();
        state.local.wrote(warp, lane, offset.into(), len as u64);
    }
}
