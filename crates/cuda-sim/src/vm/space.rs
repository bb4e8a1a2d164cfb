//! Generic addresses, and accesses through them.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::address::{LOCAL, NARROW, PARAM, RANK_SHIFT, SHARED, TAG, TAG_SHIFT, Window};
use super::check::Findings;
use super::code::Ins;
use super::fault::{Detail, FaultKind};
use super::lane_fault::{LaneFault, access};
use super::lanes::{Lane, MemoryOp, Row};
use super::launch_params::LaunchParams;
use super::program::Program;
use super::vector::bits;
use super::vector::{LANES, each};
use super::warp::Warp;
use crate::lock::lock;
use crate::memory::{MemoryMap, Range};

/// The number of bytes of shared memory that are reserved for the system in each block.
pub(super) const RESERVED_SHARED_BYTES: u32 = 1024;
/// The number of reserved bytes that the system uses.
pub(super) const RESERVED_SHARED_USED: u32 = 288;
/// The alignment of the reserved bytes.
pub(super) const RESERVED_SHARED_ALIGN: u32 = 128;

/// The state of a launch that all blocks use.
pub(super) struct Env<'a> {
    pub(super) program: &'a Program,
    pub(super) kernel: usize,
    pub(super) launch: &'a LaunchParams<'a>,
    /// The parameter buffer, 16-byte aligned. An access past its end fails.
    pub(super) params: Window,
    pub(super) grid_id: u64,
    /// The exposed address, in this process, of the counters of grid barriers; 0 if the launch is
    /// not cooperative.
    pub(super) workspace: u64,
    pub(super) workspace_bytes: u64,
    /// The offset of dynamic shared memory.
    pub(super) static_shared: u32,
    pub(super) shared_bytes: u32,
    /// The offset of the shared memory that is reserved for the system.
    pub(super) reserved_shared: u32,
    /// The end of shared memory, with the reserved part if the kernel asks for its address.
    pub(super) shared_end: u32,
    /// Blocks of a cluster.
    pub(super) cluster: [u32; 3],
    /// Whether the launch or the kernel specifies clusters.
    pub(super) explicit_cluster: bool,
    /// The findings of the checks.
    pub(super) findings: &'a Findings,
    /// Newer memory maps, one for each time that an address was not found in the launch's map.
    pub(super) newer: Mutex<Vec<Arc<MemoryMap>>>,
}

impl Env<'_> {
    /// The memory range that contains `at`.
    fn range(&self, at: u64) -> Option<Range> {
        if let Some(range) = self.launch.map.find(at, 1) {
            return Some(*range);
        }
        let mut newer = lock(&self.newer);
        if let Some(range) = newer.last().and_then(|map| map.find(at, 1)) {
            return Some(*range);
        }
        let now = (self.launch.newer)()?;
        let range = *now.find(at, 1)?;
        // Older maps are kept: other warps may be using ranges that only an older map contains.
        newer.push(now);
        Some(range)
    }
}

/// The number of ranges that a warp remembers.
pub(super) const HITS: usize = 8;

/// A value in memory.
pub(super) trait Cell: Copy + Default + PartialEq {
    type Reg: Row;
    fn to_reg(self) -> Self::Reg;
    fn from_reg(reg: Self::Reg) -> Self;
    /// # Safety
    ///
    /// `host` is the exposed address of a live, aligned value of this size.
    unsafe fn load(host: u64) -> Self;
    /// # Safety
    ///
    /// The requirements of `load` apply.
    unsafe fn store(self, host: u64);
}

macro_rules! cell {
    ($($ty:ty, $reg:ty, $atomic:ty;)*) => {$(
        impl Cell for $ty {
            type Reg = $reg;
            #[inline(always)]
            fn to_reg(self) -> $reg {
                <$reg>::from(self)
            }
            #[inline(always)]
            fn from_reg(reg: $reg) -> Self {
                reg as Self
            }
            #[inline(always)]
            unsafe fn load(host: u64) -> Self {
                let cell: *const $atomic = std::ptr::with_exposed_provenance(host as usize);
                // SAFETY: the caller guarantees a live aligned value; all accesses of kernels are
                // atomic.
                unsafe { &*cell }.load(Ordering::Relaxed)
            }
            #[inline(always)]
            unsafe fn store(self, host: u64) {
                let cell: *const $atomic = std::ptr::with_exposed_provenance(host as usize);
                // SAFETY: the caller guarantees a live aligned value; all accesses of kernels are
                // atomic.
                unsafe { &*cell }.store(self, Ordering::Relaxed);
            }
        }
    )*};
}

cell! {
    u8, u32, AtomicU8;
    u16, u32, AtomicU16;
    u32, u32, AtomicU32;
    u64, u64, AtomicU64;
}

impl Warp {
    /// The generic addresses: the register `slot`, plus `imm`, plus the tag of the space in `c`.
    #[inline(always)]
    pub(super) fn generic(&self, slot: u32, i: &Ins) -> [u64; LANES] {
        let tag = u64::from(i.c >> TAG_SHIFT) << 56;
        if i.c & NARROW != 0 {
            let base = self.get32(slot);
            let offset = i.imm as u32;
            return each(|lane| u64::from(base[lane].wrapping_add(offset)) | tag);
        }
        let base = self.get64(slot);
        each(|lane| base[lane].wrapping_add(i.imm) | tag)
    }

    /// The addresses in this process of the `size` bytes at the generic addresses in `slot`, for
    /// the lanes of `m`.
    ///
    /// The addresses of these lanes are exposed, live and multiples of `align + 1`; those of other
    /// lanes are meaningless.
    #[inline(always)]
    pub(super) fn hosts(
        &mut self,
        env: &Env<'_>,
        slot: u32,
        i: &Ins,
        m: u32,
        size: u64,
    ) -> Result<[u64; LANES], LaneFault> {
        let address = self.generic(slot, i);
        let align = u64::from(i.c & 0xff);
        // Accesses through one register tend to stay in one range.
        let entry = slot as usize % HITS;
        let hit = self.hits[entry];
        if let Some(hosts) = hit.hosts(&address, m, size, align) {
            return Ok(hosts);
        }
        let lane = m.trailing_zeros() as usize & 31;
        if address[lane] & TAG != LOCAL {
            let window = self.window(env, address[lane], lane);
            if let Some(hosts) = window.hosts(&address, m, size, align) {
                self.hits[entry] = window;
                return Ok(hosts);
            }
        }
        self.hosts_one_by_one(env, address, m, size, align)
    }

    #[inline(never)]
    fn hosts_one_by_one(
        &mut self,
        env: &Env<'_>,
        mut address: [u64; LANES],
        m: u32,
        size: u64,
        align: u64,
    ) -> Result<[u64; LANES], LaneFault> {
        let mut window = Window::default();
        for lane in bits(m) {
            let at = address[lane];
            if at & align != 0 {
                return Err(LaneFault::misaligned(at, size, align + 1, lane));
            }
            if !window.holds(at, size) {
                window = self.window(env, at, lane);
                if !window.holds(at, size) {
                    return Err(self.outside(env, at, size, lane));
                }
            }
            address[lane] = at.wrapping_sub(window.start).wrapping_add(window.host);
            if at & TAG == LOCAL {
                window = Window::default();
            }
        }
        Ok(address)
    }

    /// The window that contains `at`, or an empty one.
    pub(super) fn window(&self, env: &Env<'_>, at: u64, lane: usize) -> Window {
        match at & TAG {
            0 if at.wrapping_sub(env.workspace) < env.workspace_bytes && env.workspace != 0 => {
                Window {
                    start: env.workspace,
                    len: env.workspace_bytes,
                    host: env.workspace,
                }
            }
            0 => {
                let range = env.range(at);
                range.map_or(Window::default(), |range| Window {
                    start: range.start,
                    len: range.len,
                    host: range.host.expose_provenance() as u64,
                })
            }
            SHARED => self.shared_of(at),
            PARAM => env.params,
            LOCAL => Window {
                start: LOCAL,
                len: u64::from(self.stride),
                host: self.local_host() + lane as u64 * u64::from(self.stride),
            },
            _ => Window::default(),
        }
    }

    /// The shared memory, of this block or another of its cluster, that contains `at`.
    fn shared_of(&self, at: u64) -> Window {
        let number = at >> RANK_SHIFT & 0xff;
        let Some(rank) = number.checked_sub(1) else {
            return self.shared;
        };
        let own = (rank == u64::from(self.rank)).then_some(self.shared.host);
        match own.or_else(|| self.peers.get(rank as usize).copied()) {
            Some(host) => Window {
                start: SHARED | number << RANK_SHIFT,
                len: self.shared.len,
                host,
            },
            None => Window::default(),
        }
    }

    pub(super) fn outside(&self, env: &Env<'_>, at: u64, size: u64, lane: usize) -> LaneFault {
        let offset = at & !TAG;
        let mut detail = Detail::None;
        let message = match at & TAG {
            0 => {
                let error = env.launch.map.error(at, size);
                if error.freed {
                    detail = Detail::Freed;
                }
                error.to_string()
            }
            SHARED => format!(
                "invalid access to {size} bytes at {offset:#x} of shared memory, which has {} bytes",
                self.shared.len
            ),
            LOCAL => format!(
                "invalid access to {size} bytes at {offset:#x} of local memory, which has {} bytes",
                self.stride
            ),
            PARAM => format!(
                "invalid access to {size} bytes at {offset:#x} of the parameters, which have {} bytes",
                env.params.len
            ),
            _ => format!("invalid access to {size} bytes at {at:#x}: not a valid address"),
        };
        let lane_fault = LaneFault::of(FaultKind::IllegalAddress, lane, message);
        lane_fault.with(Some(access(at, size)), detail)
    }
}

/// Loads the kernel parameter at `imm` to `d`, the same for all lanes.
pub(super) struct LoadParam<T>(std::marker::PhantomData<T>);

impl<T: Cell> MemoryOp for LoadParam<T> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let size = size_of::<T>() as u64;
        let inside = i.imm <= env.params.len && size <= env.params.len - i.imm;
        if !inside || !i.imm.is_multiple_of(size) {
            return Err(w.outside(env, PARAM | i.imm, size, m.trailing_zeros() as usize));
        }
        // SAFETY: the value lies within the parameters, at a multiple of its size from a start
        // aligned to 16.
        let value = unsafe { T::load(env.params.host + i.imm) };
        T::Reg::put(w, i.d, m, [value.to_reg(); LANES]);
        Ok(())
    }
}
