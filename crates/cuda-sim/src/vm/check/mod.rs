//! Checks that cost time and are therefore off by default: reads of unwritten bytes, races in
//! shared memory, threads that miss a barrier, and writes to read-only arguments.
//!
//! Code that is decoded for these checks reports each access to an [`Observer`]. The state of a
//! block is its [`Watch`]: the last accesses to each byte of shared memory, whether each byte of
//! local memory was written, and the happens-before relation that the barriers have established.
//! For global memory, the [`MemoryMap`](crate::memory::MemoryMap) tracks which bytes were written.

mod barrier;
mod findings;
mod groups;
mod local;
mod observer;
mod order;
mod shared;

use std::sync::{Mutex, MutexGuard};

use crate::lock::lock;

pub(super) use barrier::{BarrierHistory, divergent, missed_barriers, threads};
pub(super) use findings::Findings;
pub(super) use groups::{
    GroupEvent, Groups, MoveRegister, Started, UseRegisters, misused, number_of,
};
use local::LocalShadow;
pub(super) use observer::{Acquired, ObservedAccess, Observer};
use order::Order;
use shared::SharedShadow;

/// The enabled checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Reads of bytes that have not been written.
    pub uninitialized: bool,
    /// Unordered accesses of several threads to shared memory.
    pub races: bool,
    /// Barriers that some threads miss.
    pub barriers: bool,
    /// Writes to memory that the program has passed as read-only.
    pub read_only: bool,
    /// Loads and stores outside of memory, which are then skipped.
    pub skip_invalid: bool,
}

impl Checks {
    /// Whether the code must report its memory accesses.
    pub fn of_accesses(self) -> bool {
        self.uninitialized || self.races || self.read_only || self.skip_invalid
    }
}

/// The access records of a running block.
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

    /// Resets the records for a new block of this many warps, with `shared_bytes` bytes of shared
    /// memory and `stride` bytes of local memory per thread.
    pub(super) fn reset(&self, warps: usize, shared_bytes: u32, stride: u32) {
        let state = &mut *self.state();
        if state.order.reset(warps) {
            state.shared.clear();
        }
        state.shared.resize(shared_bytes as usize);
        state.local.reset(warps, stride as usize);
    }

    /// Records that a barrier is complete, for the warps with a lane in `arrived`.
    pub(super) fn barrier(&self, arrived: &[u32]) {
        self.state().order.barrier(arrived);
    }

    /// Records a `bar.warp.sync` among the lanes `mask` of a warp.
    pub(super) fn warp_barrier(&self, warp: usize, mask: u32) {
        self.state().order.warp_barrier(warp, mask);
    }

    /// Records that everything done so far happens before what the lanes of `warp` do next.
    pub(super) fn acquire(&self, warp: usize) {
        self.state().order.acquire(warp);
    }

    /// Marks `len` bytes at `offset` of the local memory of these lanes as unwritten.
    pub(super) fn forget_local(&self, warp: usize, mask: u32, offset: u32, len: u32) {
        self.state().local.forget(warp, mask, offset, len);
    }

    /// Records that `len` bytes at `offset` of a lane's local memory were written.
    pub(super) fn wrote_local(&self, warp: usize, lane: usize, offset: u32, len: usize) {
        let mut state = self.state();
        state.local.wrote(warp, lane, offset.into(), len as u64);
    }
}
