//! A record of freed allocations, to distinguish stale addresses from ones that were never valid.

use std::collections::VecDeque;
use std::time::Instant;

/// The number of freed allocations that are remembered.
const MAX_FREED: usize = 1024;

/// A freed allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freed {
    pub(super) start: u64,
    pub(super) len: u64,
    /// The caller that freed it, for messages.
    by: &'static str,
    when: Instant,
    /// The first address of the part that has not been reused since; `to` is its end.
    from: u64,
    to: u64,
}

impl Freed {
    /// Whether `addr` was in this allocation and is in a part that has not been reused.
    pub(super) fn holds(&self, addr: u64) -> bool {
        (self.from..self.to).contains(&addr)
    }

    /// Describes the offset of `addr` in the allocation, who freed it and when.
    pub(super) fn describe(&self, addr: u64) -> String {
        let ago = self.when.elapsed();
        format!(
            "{} bytes into an allocation of {} bytes at {:#x} that was freed by {} {ago:.1?} before",
            addr - self.start,
            self.len,
            self.start,
            self.by,
        )
    }
}

/// The most recently freed allocations, oldest first.
#[derive(Debug, Default)]
pub(super) struct FreedAllocations {
    all: VecDeque<Freed>,
}

impl FreedAllocations {
    /// Records that `len` bytes at `start` were freed.
    pub(super) fn add(&mut self, start: u64, len: u64, by: &'static str) {
        if self.all.len() == MAX_FREED {
            self.all.pop_front();
        }
        self.all.push_back(Freed {
            start,
            len,
            by,
            when: Instant::now(),
            from: start,
            to: start + len,
        });
    }

    /// Records that `len` bytes at `start` are allocated again.
    pub(super) fn reuse(&mut self, start: u64, len: u64) {
        let end = start + len;
        for freed in &mut self.all {
            if freed.to <= start || end <= freed.from {
                continue;
            }
            if start <= freed.from {
                freed.from = end;
            } else {
                freed.to = start;
            }
        }
        self.all.retain(|freed| freed.from < freed.to);
    }

    /// Whether a freed allocation started at `addr`.
    pub(super) fn started_at(&self, addr: u64) -> bool {
        self.all.iter().any(|freed| freed.start == addr)
    }

    pub(super) fn to_vec(&self) -> Vec<Freed> {
        self.all.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::FreedAllocations;

    #[test]
    fn reused_ranges_are_forgotten_in_part() {
        let mut freed = FreedAllocations::default();
        freed.add(1000, 100, "a test");
        freed.reuse(980, 40);
        let holds =
            |freed: &FreedAllocations, addr| freed.to_vec().iter().any(|freed| freed.holds(addr));
        assert!(!holds(&freed, 1019) && holds(&freed, 1020) && holds(&freed, 1099));
        freed.reuse(1050, 10);
        assert!(holds(&freed, 1049) && !holds(&freed, 1050) && !holds(&freed, 1060));
        assert!(freed.started_at(1000));
        freed.reuse(0, 2000);
        assert!(freed.to_vec().is_empty());
    }
}
