//! A thread block: its warps, shared memory and barriers.

use std::sync::Arc;

use super::address::{SHARED, Window};
use super::barrier::{Common, Meeting};
use super::check::{BarrierHistory, Groups, Watch, missed_barriers};
use super::lane_fault::LaneFault;
use super::run::Stop;
use super::space::Env;
use super::stuck::stuck;
use super::vector::LANES;
use super::warp::Warp;

/// The number of instructions that a warp runs before the next warp of its block gets a turn.
const WARP_SLICE: u64 = 1 << 16;

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
        let words = (env.shared_end as usize).div_ceil(16);
        self.shared.clear();
        self.shared.resize(words, u128::from_ne_bytes([0xcd; 16]));
        let shared = Window {
            start: SHARED,
            len: u64::from(env.shared_end),
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
            watch.reset(self.count, env.shared_end, stride);
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
            warp.reset(env.grid_id, index, function, code, live);
            warp.set_local(stride, code.frame);
            warp.watch.clone_from(&self.common.watch);
            if let Some(watch) = &warp.watch {
                watch.forget_local(index, u32::MAX, 0, code.frame);
            }
            // A program without barriers runs faster without the history.
            let has_barriers = checks.barriers && env.program.has_barriers();
            warp.attendance = has_barriers.then(Box::<BarrierHistory>::default);
            warp.groups = checks.races.then(Box::<Groups>::default);
            warp.set_constants(image);
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
            if self.common.live[index] != 0 {
                let slice = WARP_SLICE.min(*budget);
                let mut fuel = slice;
                let stop = self.warps[index].run(env, &mut self.common, &mut fuel);
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
            // A division would take as long as some instructions of a kernel.
            self.next = if index + 1 == self.count {
                0
            } else {
                index + 1
            };
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
        self.common.live.iter().any(|&live| live != 0)
    }

    /// The exposed address, in this process, of shared memory.
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
