//! Memory of a [`VirtualSpace`] that this device may use, and its cost to the device that owns it.

use std::sync::Arc;

use super::Arena;
use crate::memory::map::{Range, RangeKind};
use crate::memory::shared_file::SharedFile;
use crate::memory::virtual_space::{MappedPart, VirtualSpace};

impl Arena {
    /// Lets the device use `size` bytes at `addr`, which must be mapped.
    pub fn grant(&self, space: &VirtualSpace, addr: u64, size: u64) {
        let mut state = self.state();
        let range = Range {
            start: addr,
            len: size,
            host: space.host(addr),
            kind: RangeKind::Virtual,
        };
        state.granted.insert(addr, (range, None));
        state.granted_storage = Some(space.storage());
        state.map = None;
    }

    /// Lets the device use the `size` bytes of `part`. Each map of the memory that contains them
    /// keeps them mapped.
    pub fn grant_part(&self, part: &Arc<MappedPart>, size: u64) {
        let mut state = self.state();
        let range = Range {
            start: part.addr(),
            len: size,
            host: part.host(),
            kind: RangeKind::Virtual,
        };
        let owner = Arc::clone(part);
        state.granted.insert(range.start, (range, Some(owner)));
        state.map = None;
    }

    /// The file that holds the memory of the device, if other processes can map it, and the offset
    /// of `addr` in it.
    pub fn shared(&self, addr: u64) -> Option<(&SharedFile, u64)> {
        let offset = addr.checked_sub(self.base)?;
        Some((self.storage.file()?, offset))
    }

    /// Revokes the access that [`grant`](Self::grant) granted.
    pub fn revoke(&self, addr: u64) {
        let mut state = self.state();
        state.granted.remove(&addr);
        state.map = None;
    }

    /// Counts `size` bytes of memory outside the arena as used, unless that would exceed `limit`;
    /// returns whether it fits.
    pub fn charge(&self, size: u64, limit: u64) -> bool {
        let mut state = self.state();
        let fits = state.used.checked_add(size).is_some_and(|all| all <= limit);
        if fits {
            state.used += size;
        }
        fits
    }

    /// Subtracts the bytes that [`charge`](Self::charge) counted.
    pub fn refund(&self, size: u64) {
        self.state().used -= size;
    }
}

/// `ranges`, in ascending order of addresses, with adjacent ranges merged.
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
