//! The barriers of a block and of a cluster, and the threads that have arrived at them.

use std::sync::Arc;

use super::check::Watch;
use super::vector::{LANES, bits};

/// The number of named barriers of a block.
const BARRIERS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarrierAction {
    Sync,
    Arrive,
    /// The number of true predicates, to `d`.
    Popc,
    /// Whether all predicates are true, to the predicate `d`.
    And,
    /// Whether any predicate is true, to the predicate `d`.
    Or,
}

/// One named barrier.
#[derive(Clone, Debug, Default)]
struct Barrier {
    /// The lanes of each warp that have arrived.
    arrived: Vec<u32>,
    /// The number of threads to wait for; `None` means all.
    expected: Option<u32>,
    phase: u32,
    popc: u32,
    threads: u32,
    /// The reduction results of the last two phases, indexed by parity: (true predicates, threads).
    results: [(u32, u32); 2],
}

impl Barrier {
    /// Forgets the threads that have arrived.
    fn clear(&mut self) {
        self.arrived.fill(0);
        self.popc = 0;
        self.threads = 0;
    }
}

/// The state that the warps of a block share.
#[derive(Debug, Default)]
pub(super) struct Common {
    barriers: [Barrier; BARRIERS],
    /// The barriers at which threads have arrived since they were last completed, as a mask. The
    /// others need no reset and no check.
    used: u32,
    /// The lanes of each warp that have not exited.
    pub(super) live: Vec<u32>,
    /// The cluster's barrier, while this block runs.
    pub(super) meeting: Meeting,
    /// The access records of the block, if accesses are checked.
    pub(super) watch: Option<Arc<Watch>>,
}

impl Common {
    pub(super) fn reset(&mut self, warps: usize) {
        for id in bits(std::mem::take(&mut self.used)) {
            self.barriers[id].clear();
        }
        if self.live.len() != warps {
            for barrier in &mut self.barriers {
                barrier.arrived.resize(warps, 0);
            }
        }
        self.live.clear();
        self.live.resize(warps, 0);
        self.meeting.reset();
    }

    /// The number of times that barrier `id` has been completed.
    pub(super) fn phase(&self, id: u32) -> u32 {
        self.barriers[id as usize % BARRIERS].phase
    }

    /// Records that the lanes `mask` of `warp` arrive; returns true if that completes the barrier.
    pub(super) fn arrive(
        &mut self,
        id: u32,
        warp: usize,
        mask: u32,
        expected: Option<u32>,
        predicate: u32,
    ) -> bool {
        let id = id as usize % BARRIERS;
        let barrier = &mut self.barriers[id];
        barrier.arrived[warp] |= mask;
        barrier.expected = expected;
        barrier.popc += (predicate & mask).count_ones();
        barrier.threads += mask.count_ones();
        self.used |= 1 << id;
        self.check(id)
    }

    /// Completes barrier number `id` if all threads that it waits for have arrived, and returns
    /// whether they have.
    fn check(&mut self, id: usize) -> bool {
        let barrier = &mut self.barriers[id];
        let complete = match barrier.expected {
            None => barrier
                .arrived
                .iter()
                .zip(&self.live)
                .all(|(&arrived, &live)| live & !arrived == 0),
            Some(expected) => {
                let pairs = barrier.arrived.iter().zip(&self.live);
                let counts = pairs.map(|(&arrived, &live)| {
                    if arrived != 0 && live & !arrived == 0 {
                        LANES as u32
                    } else {
                        arrived.count_ones()
                    }
                });
                counts.sum::<u32>() >= expected
            }
        };
        if complete {
            if let Some(watch) = &self.watch {
                watch.barrier(&barrier.arrived);
            }
            barrier.results[barrier.phase as usize & 1] = (barrier.popc, barrier.threads);
            barrier.phase = barrier.phase.wrapping_add(1);
            barrier.clear();
            self.used &= !(1 << id);
        }
        complete
    }

    /// The lanes of each warp that have arrived at barrier `id`, and the number of threads that it
    /// waits for (`None` means all).
    pub(super) fn attendance(&self, id: u32) -> (&[u32], Option<u32>) {
        let barrier = &self.barriers[id as usize % BARRIERS];
        (&barrier.arrived, barrier.expected)
    }

    /// The result of the reduction of `phase`.
    pub(super) fn result(&self, id: u32, phase: u32, action: BarrierAction) -> u32 {
        let (popc, threads) = self.barriers[id as usize % BARRIERS].results[phase as usize & 1];
        match action {
            BarrierAction::And => u32::from(popc == threads),
            BarrierAction::Or => u32::from(popc != 0),
            _ => popc,
        }
    }

    /// Records that only the lanes `live` of `warp` have not exited. `in_cluster` is the number of
    /// this warp in the cluster.
    pub(super) fn exited(&mut self, warp: usize, in_cluster: usize, live: u32) {
        self.live[warp] = live;
        self.meeting.exited(in_cluster, live);
        for id in bits(self.used) {
            self.check(id);
        }
    }
}

/// The barrier of a cluster: `barrier.cluster`.
#[derive(Debug, Default)]
pub(super) struct Meeting {
    /// The lanes of each warp that have arrived.
    arrived: Vec<u32>,
    /// The lanes of each warp that have not exited.
    live: Vec<u32>,
}

impl Meeting {
    /// Clears the barrier: no lane has arrived.
    pub(super) fn reset(&mut self) {
        self.arrived.clear();
        self.live.clear();
    }

    /// Adds a warp with these live lanes.
    pub(super) fn add(&mut self, live: u32) {
        self.arrived.push(0);
        self.live.push(live);
    }

    /// Records that the lanes `mask` of `warp` arrive.
    pub(super) fn arrive(&mut self, warp: usize, mask: u32) {
        self.arrived[warp] |= mask;
        self.check();
    }

    /// Whether lanes in `mask` of `warp` have arrived while others have not.
    pub(super) fn waits(&self, warp: usize, mask: u32) -> bool {
        self.arrived[warp] & mask != 0
    }

    /// Records that only the lanes `live` of `warp` have not exited.
    pub(super) fn exited(&mut self, warp: usize, live: u32) {
        self.live[warp] = live;
        self.check();
    }

    fn check(&mut self) {
        let mut all = self.arrived.iter().zip(&self.live);
        if all.all(|(&arrived, &live)| live & !arrived == 0) {
            self.arrived.fill(0);
        }
    }
}
