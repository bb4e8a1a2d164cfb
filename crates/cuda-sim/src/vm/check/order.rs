//! What comes before what in a block.
//!
//! Each instruction that accesses memory gets a number, its stamp. A warp knows of each other warp
//! up to which stamp barriers have put its accesses before what follows: a vector clock. Within a
//! warp lanes are ordered by `bar.warp.sync` alone, of those that take part. Of a thread that
//! acquires by other means than a barrier (a wait for an `mbarrier`, an acquiring access, a fence
//! behind a strong read) it is not known from whom: its warp is taken to have seen everything. So
//! what is ordered is never taken for a race; some races are not seen.

use super::shared::Mark;
use crate::vm::lanes::LANES;
use crate::vm::space::bits;

/// Warps of a block.
const WARPS: usize = 32;
/// When the stamps begin again.
const WRAP: u32 = 1 << 31;

#[derive(Debug, Default)]
pub(super) struct Order {
    clock: u32,
    /// Older stamps are those of earlier blocks.
    start: u32,
    warps: Vec<Knowledge>,
}

#[derive(Clone, Debug, Default)]
struct Knowledge {
    /// What was before these stamps, in each warp, is before what comes in this one.
    seen: [u32; WARPS],
    /// The same for the other lanes of this warp, for each lane.
    lanes: [u32; LANES],
    /// Whether a lane has read what others may write strongly, with no fence since.
    has_looked: bool,
}

impl Order {
    /// A new block. Whether all stamps of earlier ones must be forgotten.
    pub(super) fn reset(&mut self, warps: usize) -> bool {
        let wraps = self.clock >= WRAP;
        if wraps {
            self.clock = 0;
        }
        self.clock += 1;
        self.start = self.clock;
        self.warps.clear();
        self.warps.resize_with(warps, Knowledge::default);
        wraps
    }

    /// The stamp of the instruction that comes now.
    pub(super) fn tick(&mut self) -> u32 {
        // Not reached in practice; there, races are missed.
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    /// Whether the mark is of this block.
    pub(super) fn is_current(&self, mark: &Mark) -> bool {
        mark.stamp >= self.start
    }

    /// Whether what left the mark is before what `lane` of `warp` does now.
    pub(super) fn is_before(&self, mark: &Mark, warp: usize, lane: usize) -> bool {
        let Some(knowledge) = self.warps.get(warp) else {
            return true;
        };
        if self.clock == u32::MAX {
            // The stamps no longer tell what came first.
            return true;
        }
        let thread = usize::from(mark.thread);
        let other = thread / LANES;
        if other != warp {
            return knowledge
                .seen
                .get(other)
                .is_none_or(|&seen| mark.stamp < seen);
        }
        thread % LANES == lane || mark.stamp < knowledge.seen[warp].max(knowledge.lanes[lane])
    }

    pub(super) fn barrier(&mut self, arrived: &[u32]) {
        let now = self.tick();
        let mut seen = [0; WARPS];
        let there = |warp: usize| arrived.get(warp).is_some_and(|&lanes| lanes != 0);
        for (warp, knowledge) in self.warps.iter().enumerate() {
            if there(warp) {
                for (all, one) in seen.iter_mut().zip(knowledge.seen) {
                    *all = one.max(*all);
                }
                seen[warp % WARPS] = now;
            }
        }
        for (warp, knowledge) in self.warps.iter_mut().enumerate() {
            if there(warp) {
                knowledge.seen = seen;
            }
        }
    }

    pub(super) fn warp_barrier(&mut self, warp: usize, mask: u32) {
        let now = self.tick();
        if let Some(knowledge) = self.warps.get_mut(warp) {
            for lane in bits(mask) {
                knowledge.lanes[lane] = now;
            }
        }
    }

    pub(super) fn acquire(&mut self, warp: usize) {
        let now = self.tick();
        if let Some(knowledge) = self.warps.get_mut(warp) {
            knowledge.seen = [now; WARPS];
            knowledge.has_looked = false;
        }
    }

    /// A lane of the warp has read strongly.
    pub(super) fn looked(&mut self, warp: usize) {
        if let Some(knowledge) = self.warps.get_mut(warp) {
            knowledge.has_looked = true;
        }
    }

    /// A fence, which acquires if something was read strongly before.
    pub(super) fn fence(&mut self, warp: usize) {
        let looked = self.warps.get(warp).is_some_and(|warp| warp.has_looked);
        if looked {
            self.acquire(warp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Order};

    #[test]
    fn stamps_that_have_run_out_make_no_race() {
        let mut order = Order::default();
        order.reset(2);
        for start in [1, u32::MAX - 6] {
            order.clock = start;
            let mut stamp = || order.tick();
            let first = Mark {
                stamp: stamp(),
                ..Mark::default()
            };
            assert!(!order.is_before(&first, 1, 0), "{start}");
            order.barrier(&[u32::MAX; 2]);
            assert!(order.is_before(&first, 1, 0), "{start}");
        }
        // Here the barrier and what comes before it and behind it have one stamp.
        for _ in 0..9 {
            order.tick();
        }
        let last = Mark {
            stamp: order.tick(),
            ..Mark::default()
        };
        assert_eq!(last.stamp, u32::MAX);
        order.barrier(&[u32::MAX; 2]);
        assert!(order.is_before(&last, 1, 0));
    }
}
