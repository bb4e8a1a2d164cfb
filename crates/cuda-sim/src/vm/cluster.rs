//! A cluster: blocks that run concurrently, access each other's shared memory and share a barrier.
//!
//! A block of a launch without clusters forms its own cluster. All blocks of a cluster run on one
//! host thread.

use std::sync::Arc;

use super::Image;
use super::barrier::Meeting;
use super::block::{Block, Turn};
use super::lane_fault::LaneFault;
use super::space::Env;
use super::warp::Warp;

/// The number of instructions that a block runs before the next block of its cluster gets a turn.
const SLICE: u64 = 1 << 14;
/// The largest number of blocks in a cluster.
pub(super) const MAX_BLOCKS: u32 = 16;

/// A cluster whose execution can be suspended and resumed at any point.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    blocks: Vec<Block>,
    count: usize,
    meeting: Meeting,
    next: usize,
    idle: usize,
    /// The number of instructions that were executed, counted once per warp.
    executed: u64,
}

/// A lane that cannot continue: its block in the cluster, its warp, and the reason.
pub(super) type Stopped = Box<(usize, usize, LaneFault)>;

impl Cluster {
    /// Resets this to cluster number `index` of a launch.
    pub(super) fn reset(&mut self, env: &Env<'_>, image: &Image, index: u64) {
        let size = env.cluster;
        self.count = size.iter().product::<u32>() as usize;
        self.next = 0;
        self.idle = 0;
        self.executed = 0;
        if self.blocks.len() < self.count {
            self.blocks.resize_with(self.count, Block::default);
        }
        let grid = env.launch.grid;
        let clusters = [0, 1, 2].map(|axis| u64::from(grid[axis] / size[axis]));
        let [x, y, _] = clusters;
        let place = [index % x, index / x % y, index / (x * y)];
        for rank in 0..self.count as u32 {
            let inside = [
                rank % size[0],
                rank / size[0] % size[1],
                rank / (size[0] * size[1]),
            ];
            let ctaid = [0, 1, 2].map(|axis| place[axis] as u32 * size[axis] + inside[axis]);
            self.blocks[rank as usize].reset(env, image, ctaid);
        }
        if self.count == 1 {
            return;
        }
        let shared = self.blocks[..self.count].iter().map(Block::shared_host);
        let shared: Arc<[u64]> = shared.collect();
        let watches = self.blocks[..self.count].iter().filter_map(Block::watch);
        let watches = watches.cloned().collect();
        self.meeting.reset();
        for (rank, block) in self.blocks[..self.count].iter_mut().enumerate() {
            block.join(rank as u32, &shared, &watches, &mut self.meeting);
        }
    }

    /// Runs about `budget` instructions.
    pub(super) fn turn(&mut self, env: &Env<'_>, budget: &mut u64) -> Result<Turn, Stopped> {
        if self.count == 1 {
            let turn = self.blocks[0].turn(env, budget);
            return match turn.map_err(|stopped| Box::new((0, stopped.0, stopped.1)))? {
                Turn::Stuck => Err(self.stuck(0, env)),
                turn => Ok(turn),
            };
        }
        let mut stuck = None;
        while *budget > 0 {
            let index = self.next;
            let block = &mut self.blocks[index];
            let slice = SLICE.min(*budget);
            let mut fuel = slice;
            block.exchange(&mut self.meeting);
            let turn = block.turn(env, &mut fuel);
            block.exchange(&mut self.meeting);
            let used = slice - fuel;
            *budget -= used;
            match turn.map_err(|stopped| Box::new((index, stopped.0, stopped.1)))? {
                Turn::Stuck => stuck = Some(index),
                Turn::Done | Turn::More => {}
            }
            self.idle = if used == 0 { self.idle + 1 } else { 0 };
            self.next = (index + 1) % self.count;
            if self.idle >= self.count {
                let blocks = self.blocks[..self.count].iter();
                if blocks.filter(|block| block.is_live()).count() == 0 {
                    return Ok(Turn::Done);
                }
                return Err(self.stuck(stuck.unwrap_or_default(), env));
            }
        }
        Ok(Turn::More)
    }

    fn stuck(&self, block: usize, env: &Env<'_>) -> Stopped {
        let (warp, lane_fault) = self.blocks[block].stuck(env);
        Box::new((block, warp, lane_fault))
    }

    /// Reports findings that are only known once the cluster has ended.
    pub(super) fn finish(&self, env: &Env<'_>) {
        for block in &self.blocks[..self.count] {
            block.finish(env);
        }
    }

    pub(super) fn warp(&self, block: usize, warp: usize) -> &Warp {
        self.blocks[block].warp(warp)
    }

    /// Returns the number of instructions that were executed, counted once per warp, up to the last
    /// [`take_counts`](Self::take_counts).
    pub(super) fn executed(&self) -> u64 {
        self.executed
    }

    /// Returns and resets the instruction counts: (per warp, per lane).
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        let mut all = (0, 0);
        for block in &mut self.blocks[..self.count] {
            let counts = block.take_counts();
            all = (all.0 + counts.0, all.1 + counts.1);
        }
        self.executed += all.0;
        all
    }
}
