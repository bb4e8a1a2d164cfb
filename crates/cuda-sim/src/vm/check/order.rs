//! The happens-before relation of a block's memory accesses.
//!
//! Each instruction that accesses memory gets a number, its stamp. Each warp has a vector clock:
//! for each other warp, the stamp up to which barriers have ordered that warp's accesses before its
//! own next ones. Within a warp, only `bar.warp.sync` orders lanes, and only the participating
//! ones. If a thread acquires by other means than a barrier (a wait for an `mbarrier`, an acquiring
//! access, a fence after a strong read), the releasing thread is unknown, so the acquiring warp is
//! assumed to be ordered after all earlier accesses. Ordered accesses are therefore never reported
//! as a race, but some races are missed.

use super::shared::Mark;
use crate::vm::vector::LANES;
use crate::vm::vector::bits;

/// The number of warps in a block.
const WARPS: usize = 32;
/// The stamp at which numbering starts again.
const WRAP: u32 = 1 << 31;

#[derive(Debug, Default)]
pub(super) struct Order {
    clock: u32,
    /// Older stamps belong to earlier blocks.
    start: u32,
    warps: Vec<Knowledge>,
}

#[derive(Clone, Debug, Default)]
struct Knowledge {
    /// For each warp, accesses with lower stamps happen before the next access of this warp.
    seen: [u32; WARPS],
    /// For each lane of this warp, accesses of the other lanes with lower stamps happen before its
    /// next access.
    lanes: [u32; LANES],
    /// Whether a lane has made a strong read of a value that others may write, without a fence
    /// since then.
    has_looked: bool,
}

impl Order {
    /// Starts a new block. Returns whether the stamps of all earlier blocks must be forgotten.
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

    /// The stamp of the next instruction.
    pub(super) fn tick(&mut self) -> u32 {
        // Saturation does not occur in practice; if it does, races are missed.
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    /// Whether the mark belongs to this block.
    pub(super) fn is_current(&self, mark: &Mark) -> bool {
        mark.stamp >= self.start
    }

    /// Whether the marked access happens before the next access of `lane` of `warp`.
    pub(super) fn is_before(&self, mark: &Mark, warp: usize, lane: usize) -> bool {
        let Some(knowledge) = self.warps.get(warp) else {
            return true;
        };
        if self.clock == u32::MAX {
            // The stamps have saturated and no longer order accesses.
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

    /// Records that a lane of the warp made a strong read.
    pub(super) fn looked(&mut self, warp: usize) {
        if let Some(knowledge) = self.warps.get_mut(warp) {
            knowledge.has_looked = true;
        }
    }

    /// Records a fence, which acquires if the warp made a strong read before.
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
        // Here the barrier and the accesses before and after it have the same stamp.
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
