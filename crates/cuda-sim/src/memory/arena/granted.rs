//! Memory of a [`VirtualSpace`] that this device may use, and what it costs the device that has it.

use super::Arena;
use crate::memory::map::{Range, RangeKind};
use crate::memory::virtual_space::VirtualSpace;

impl Arena {
    /// Lets the device use `size` bytes at `addr`, where something is mapped.
    pub fn grant(&self, space: &VirtualSpace, addr: u64, size: u64) {
        let mut state = self.state();
        let range = Range {
            start: addr,
            len: size,
            host: space.host(addr),
            kind: RangeKind::Virtual,
        };
        state.granted.insert(addr, range);
        state.granted_storage = Some(space.storage());
        state.map = None;
    }

    /// Ends what [`grant`](Self::grant) began.
    pub fn revoke(&self, addr: u64) {
        let mut state = self.state();
        state.granted.remove(&addr);
        state.map = None;
    }

    /// Counts memory that lies elsewhere as used; whether there was so much.
    pub fn charge(&self, size: u64, limit: u64) -> bool {
        let mut state = self.state();
        let fits = state.used.checked_add(size).is_some_and(|all| all <= limit);
        if fits {
            state.used += size;
        }
        fits
    }

    /// Ends what [`charge`](Self::charge) began.
    pub fn refund(&self, size: u64) {
        self.state().used -= size;
    }
}

/// `ranges` by rising address, with those joined that follow each other in both address spaces.
pub(super) fn joined<'a>(ranges: impl Iterator<Item = &'a Range>) -> Vec<Range> {
    let mut all: Vec<Range> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.start + last.len == range.start => last.len += range.len,
            _ => all.push(*range),
        }
    }
    all
}
