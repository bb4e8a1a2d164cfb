//! A thread block: its warps, shared memory and barriers.

use std::sync::Arc;

use super::check::{Attendance, Watch, missed_barriers};
use super::cluster::Meeting;
use super::code::{BarrierAction, LaneFault};
use super::lanes::LANES;
use super::run::Stop;
use super::space::{Env, SHARED, Window};
use super::stuck::stuck;
use super::warp::Warp;

/// The number of named barriers of a block.
const BARRIERS: usize = 16;
/// The number of instructions that a warp runs before the next warp of its block gets a turn.
const WARP_SLICE: u64 = 1 << 16;

/// One named barrier.
#[derive(Clone, Debug, Default)]
struct Barrier {
    /// The lanes of each warp that have arrived.
    arrived: Vec<u32>,
    any_arrived: bool,
    /// The number of threads to wait for; `None` means all.
    expected: Option<u32>,
    phase: u32,
    popc: u32,
    threads: u32,
    /// The reduction results of the last two phases, indexed by parity: (true predicates, threads).
    results: [(u32, u32); 2],
}

/// The state that the warps of a block share.
#[derive(Debug, Default)]
pub(super) struct Common {
    barriers: Vec<Barrier>,
    live: Vec<u32>,
    /// The cluster's barrier, while this block runs.
    pub(super) meeting: Meeting,
    watch: Option<Arc<Watch>>,
}

impl Common {
    fn reset(&mut self, warps: usize) {
        self.barriers.resize_with(BARRIERS, Barrier::default);
        for barrier in &mut self.barriers {
            barrier.arrived.clear();
            barrier.arrived.resize(warps, 0);
            barrier.any_arrived = false;
            barrier.popc = 0;
            barrier.threads = 0;
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
        let barrier = &mut self.barriers[id as usize % BARRIERS];
        barrier.arrived[warp] |= mask;
        barrier.any_arrived = true;
        barrier.expected = expected;
        barrier.popc += (predicate & mask).count_ones();
        barrier.threads += mask.count_ones();
        Self::check(barrier, &self.live, self.watch.as_deref())
    }

    fn check(barrier: &mut Barrier, live: &[u32], watch: Option<&Watch>) -> bool {
        let complete = match barrier.expected {
            None => barrier
                .arrived
                .iter()
                .zip(live)
                .all(|(&arrived, &live)| live & !arrived == 0),
            Some(expected) => {
                let counts = barrier.arrived.iter().zip(live).map(|(&arrived, &live)| {
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
            if let Some(watch) = watch {
                watch.barrier(&barrier.arrived);
            }
            barrier.results[barrier.phase as usize & 1] = (barrier.popc, barrier.threads);
            barrier.phase = barrier.phase.wrapping_add(1);
            barrier.arrived.fill(0);
            barrier.any_arrived = false;
            barrier.popc = 0;
            barrier.threads = 0;
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
        for barrier in &mut self.barriers {
            if barrier.any_arrived {
                Self::check(barrier, &self.live, self.watch.as_deref());
            }
        }
    }
}

/// A block whose execution can be suspended and resumed at any point.
#[derive(Debug, Default)]
pub(super) struct Block {
    warps: Vec<Warp>,
    count: usize,
    common: Common,
    shared: Vec<u128>,
    next: usize,
    idle: usize,
}

/// The outcome of a turn of a block.
pub(super) enum Turn {
    Done,
    /// The block has more instructions to run.
    More,
    /// Threads wait, and no other thread can run.
    Stuck,
}

impl Block {
    /// Resets this to the block `ctaid` of a launch.
    pub(super) fn reset(&mut self, env: &Env<'_>, image: &super::Image, ctaid: [u32; 3]) {
        let [x, y, z] = env.launch.block;
        let threads = x * y * z;
        self.count = threads.div_ceil(LANES as u32) as usize;
        self.next = 0;
        self.idle = 0;
        self.common.reset(self.count);
        let words = (env.shared_bytes as usize).div_ceil(16);
        self.shared.clear();
        self.shared.resize(words, u128::from_ne_bytes([0xcd; 16]));
        let shared = Window {
            start: SHARED,
            len: u64::from(env.shared_bytes),
            host: self.shared.as_mut_ptr().expose_provenance() as u64,
        };
        if self.warps.len() < self.count {
            self.warps.resize_with(self.count, Warp::default);
        }
        let function = env.program.entries[env.kernel];
        let code = &env.program.functions[function];
        let stride = if code.calls {
            env.launch.stack_limit.max(code.frame + 16)
        } else {
            code.frame
        };
        let stride = stride.next_multiple_of(16);
        let checks = env.findings.checks;
        self.common.watch = checks.of_accesses().then(|| {
            let watch = self.common.watch.take().unwrap_or_default();
            watch.reset(self.count, env.shared_bytes, stride);
            watch
        });
        for (index, warp) in self.warps[..self.count].iter_mut().enumerate() {
            let first = index as u32 * LANES as u32;
            let live = match threads - first {
                rest if rest >= LANES as u32 => u32::MAX,
                rest => (1 << rest) - 1,
            };
            if checks.of_accesses() {
                // The value of an unwritten register must not depend on the block that ran here
                // before, so that findings are reproducible.
                warp.clear_registers();
            }
            warp.reset(index, function, code, live);
            warp.set_local(stride, code.frame);
            warp.watch.clone_from(&self.common.watch);
            if let Some(watch) = &warp.watch {
                watch.forget_local(index, u32::MAX, 0, code.frame);
            }
            warp.attendance = checks.barriers.then(Box::<Attendance>::default);
            image.lend_constants(warp);
            warp.shared = shared;
            warp.ctaid = ctaid;
            self.common.live[index] = live;
            self.common.meeting.add(live);
            warp.set_threads(env.launch.block);
        }
    }

    /// Runs about `budget` instructions.
    pub(super) fn turn(
        &mut self,
        env: &Env<'_>,
        budget: &mut u64,
    ) -> Result<Turn, Box<(usize, LaneFault)>> {
        self.idle = 0;
        while *budget > 0 {
            let index = self.next;
            let warp = &mut self.warps[index];
            if warp.live != 0 {
                let slice = WARP_SLICE.min(*budget);
                let mut fuel = slice;
                let stop = warp.run(env, &mut self.common, &mut fuel);
                let used = slice - fuel;
                *budget -= used;
                match stop {
                    Ok(Stop::Blocked) if used == 0 => self.idle += 1,
                    Ok(_) => self.idle = 0,
                    Err(lane_fault) => return Err(Box::new((index, lane_fault))),
                }
            } else {
                self.idle += 1;
            }
            self.next = (index + 1) % self.count;
            if self.idle >= self.count {
                return Ok(if self.is_live() {
                    Turn::Stuck
                } else {
                    Turn::Done
                });
            }
        }
        Ok(Turn::More)
    }

    /// The reason why no thread can make progress, as a fault of one warp, with the number of
    /// that warp.
    pub(super) fn stuck(&self, env: &Env<'_>) -> (usize, LaneFault) {
        stuck(&self.warps[..self.count], &self.common, env)
    }

    /// Reports findings that are only known once the block has ended.
    pub(super) fn finish(&self, env: &Env<'_>) {
        if env.findings.checks.barriers {
            missed_barriers(&self.warps[..self.count], env);
        }
    }

    /// The access records of this block, if accesses are checked.
    pub(super) fn watch(&self) -> Option<&Arc<Watch>> {
        self.common.watch.as_ref()
    }

    /// Whether any thread has not exited.
    pub(super) fn is_live(&self) -> bool {
        self.warps[..self.count].iter().any(|warp| warp.live != 0)
    }

    /// The exposed address of shared memory.
    pub(super) fn shared_host(&self) -> u64 {
        self.shared.as_ptr().expose_provenance() as u64
    }

    /// Makes this the block with number `rank` of a cluster whose blocks have their shared memory
    /// at the addresses `shared`.
    pub(super) fn join(
        &mut self,
        rank: u32,
        shared: &Arc<[u64]>,
        watches: &Arc<[Arc<Watch>]>,
        meeting: &mut Meeting,
    ) {
        for (index, warp) in self.warps[..self.count].iter_mut().enumerate() {
            warp.rank = rank;
            warp.in_cluster = rank as usize * self.count + index;
            warp.peers = Arc::clone(shared);
            warp.peer_watches = Arc::clone(watches);
            meeting.add(warp.live);
        }
    }

    /// Swaps the state of the cluster's barrier with `meeting`.
    pub(super) fn exchange(&mut self, meeting: &mut Meeting) {
        std::mem::swap(&mut self.common.meeting, meeting);
    }

    pub(super) fn warp(&self, index: usize) -> &Warp {
        &self.warps[index]
    }

    /// Returns and resets the instruction counts: (per warp, per lane).
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        let mut counts = (0, 0);
        for warp in &mut self.warps[..self.count] {
            counts.0 += std::mem::take(&mut warp.warp_instructions);
            counts.1 += std::mem::take(&mut warp.lane_instructions);
        }
        counts
    }
}
