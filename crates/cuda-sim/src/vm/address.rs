//! Generic addresses: the tags of the state spaces, and ranges of addresses.
//!
//! In the interpreter, an *exposed address* is the address of bytes in this process, as a number
//! from `expose_provenance`, so that `with_exposed_provenance` can make a pointer of it. It is not
//! an address of a state space of PTX.

use super::vector::{LANES, each};

/// The top byte of a generic address selects the space; 0 is device or host memory. Each space has
/// its own bit, so that adding the tag of one space to an address in another gives an address in
/// neither.
pub(super) const SHARED: u64 = 1 << 56;
/// The position of the block number in a shared-memory address: the rank in the cluster plus one; 0
/// is the block's own memory.
pub(super) const RANK_SHIFT: u32 = 24;
/// The tag of generic addresses of local memory.
pub(super) const LOCAL: u64 = 2 << 56;
/// The tag of generic addresses of kernel parameters.
pub(super) const PARAM: u64 = 4 << 56;
/// The tag of function addresses; the function's number is added.
pub(super) const FUNCTION: u64 = 8 << 56;
/// The bits of an address that hold its tag.
pub(super) const TAG: u64 = 0xff << 56;

/// A bit of `Ins::c` in memory accesses: the address register is 32 bits wide.
pub(super) const NARROW: u32 = 1 << 8;
/// The position of the tag in `Ins::c` of memory accesses. The tag is added to the address.
pub(super) const TAG_SHIFT: u32 = 9;

/// A range of generic addresses and its place in this process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) len: u64,
    /// The exposed address, in this process, of the byte at `start`.
    pub(super) host: u64,
}

impl Window {
    /// Whether `size` bytes at `address` are inside.
    pub(super) fn holds(&self, address: u64, size: u64) -> bool {
        let offset = address.wrapping_sub(self.start);
        offset < self.len && size <= self.len - offset
    }

    /// Converts each element of `address` to an address in this process. Returns `None` unless
    /// those of the lanes of `m` are inside and aligned.
    #[inline(always)]
    pub(super) fn hosts(
        &self,
        address: &[u64; LANES],
        m: u32,
        size: u64,
        align: u64,
    ) -> Option<[u64; LANES]> {
        let limit = self.len.checked_sub(size)?;
        let mut bad = 0;
        for (lane, &address) in address.iter().enumerate() {
            let outside = address.wrapping_sub(self.start) > limit;
            bad |= u32::from(outside | (address & align != 0)) << lane;
        }
        let distance = self.host.wrapping_sub(self.start);
        (bad & m == 0).then(|| each(|lane| address[lane].wrapping_add(distance)))
    }

    /// Returns the address in this process of `len` bytes at `address`. Returns `None` unless they
    /// are inside and aligned.
    #[inline(always)]
    pub(super) fn host_of(&self, address: u64, len: u64, align: u64) -> Option<u64> {
        let limit = self.len.checked_sub(len)?;
        let offset = address.wrapping_sub(self.start);
        (offset <= limit && address & align == 0).then(|| self.host.wrapping_add(offset))
    }
}

/// The addresses in this process of the values of half a warp.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    /// All lanes have this address.
    Uniform(u64),
    /// The values lie side by side from this address on.
    Contiguous(u64),
}
