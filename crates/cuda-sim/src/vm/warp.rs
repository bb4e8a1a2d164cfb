//! A warp: registers, and the fragments into which its lanes have diverged.

use super::image::Image;
use super::load_store::Recent;
use super::vector::Over;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::{TAG, Window};
use super::barrier::Common;
use super::check::{BarrierHistory, Groups, Watch};
use super::code::{FunctionCode, Place};
use super::space::HITS;
use super::vector::LANES;
use super::vector::bits;

/// The start of a frame's registers and local variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) r32: u32,
    pub(super) r64: u32,
    pub(super) preds: u32,
    pub(super) local: u32,
    pub(super) function: u32,
}

/// The state that a return restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) base: Base,
    pub(super) pc: u32,
    pub(super) site: u32,
}

/// The event that a fragment waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Ready,
    /// Waits until the phase of the barrier changes.
    Barrier {
        id: u32,
        phase: u32,
    },
    /// Waits like `Barrier`, and then receives the result of the reduction.
    Reduction {
        id: u32,
        phase: u32,
    },
    /// Waits for the other lanes of the member mask.
    Sync,
    /// Waits for all other lanes of the warp.
    Convergence,
    /// Waits for the other threads of the cluster.
    Cluster,
}

/// Lanes that run together.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) mask: u32,
    pub(super) pc: u32,
    pub(super) base: Base,
    pub(super) frames: Vec<Frame>,
    pub(super) wait: Wait,
    /// The time of its last run.
    pub(super) stamp: u64,
}

impl Fragment {
    /// The instruction that it waits at, or executes next.
    pub(super) fn standing(&self) -> u32 {
        match self.wait {
            // The program counter of these has already advanced.
            Wait::Barrier { .. } | Wait::Cluster => self.pc.saturating_sub(1),
            _ => self.pc,
        }
    }
}

/// A warp.
#[derive(Debug, Default)]
pub(super) struct Warp {
    pub(super) r32: Vec<[u32; LANES]>,
    pub(super) r64: Vec<[u64; LANES]>,
    /// For each predicate, the lanes where it is true.
    pub(super) preds: Vec<u32>,
    pub(super) consts32: Arc<[u32]>,
    pub(super) consts64: Arc<[u64]>,
    /// The frame of the running fragment.
    pub(super) base: Base,
    pub(super) fragments: Vec<Fragment>,
    /// The index of the running fragment.
    pub(super) current: usize,
    /// The number of the warp in the block.
    pub(super) index: usize,
    /// The number of the block in the cluster.
    pub(super) rank: u32,
    /// The number of the warp in the cluster.
    pub(super) in_cluster: usize,
    /// The exposed addresses, in this process, of the shared memory of each block of a cluster;
    /// empty for a cluster of one block.
    pub(super) peers: Arc<[u64]>,
    /// The lanes that have not exited.
    pub(super) live: u32,
    pub(super) tid: [[u32; LANES]; 3],
    pub(super) ctaid: [u32; 3],
    /// The ranges of memory that recent accesses hit.
    pub(super) hits: [Window; HITS],
    /// The address registers of recent accesses.
    pub(super) recent: [Recent; HITS],
    /// The number of the launch that `hits` is valid for.
    launch: u64,
    /// The carry flag of each lane.
    pub(super) carry: u32,
    pub(super) shared: Window,
    local: Vec<u64>,
    /// The bytes of local memory per lane.
    pub(super) stride: u32,
    pub(super) warp_instructions: u64,
    pub(super) lane_instructions: u64,
    clock: u64,
    /// Requests that other fragments and other warps run first.
    pub(super) paused: bool,
    /// The end of a `nanosleep`.
    pub(super) sleeps_until: Option<Instant>,
    /// The access records of its block, if accesses are checked.
    pub(super) watch: Option<Arc<Watch>>,
    /// The access records of all blocks of the cluster.
    pub(super) peer_watches: Arc<[Arc<Watch>]>,
    /// The barrier attendance of its lanes, if that is checked.
    pub(super) attendance: Option<Box<BarrierHistory>>,
    /// Its asynchronous products, if races are checked.
    pub(super) groups: Option<Box<Groups>>,
    /// The shape of a block and the warp number for which `tid` is valid.
    shape: ([u32; 3], usize),
}

/// The longest `nanosleep`, in nanoseconds.
const MAX_SLEEP: u32 = 1_000_000;

impl Warp {
    /// Begins a `nanosleep`.
    pub(super) fn sleep(&mut self, nanoseconds: u32) {
        let time = Duration::from_nanos(nanoseconds.min(MAX_SLEEP).into());
        self.sleeps_until = Some(Instant::now() + time);
    }

    /// Whether the warp is in a `nanosleep`.
    pub(super) fn is_asleep(&mut self) -> bool {
        let is_asleep = self.sleeps_until.is_some_and(|end| Instant::now() < end);
        if !is_asleep {
            self.sleeps_until = None;
        }
        is_asleep
    }

    /// Resets this to warp number `index` of a block of a launch. All threads start at the first
    /// instruction of `code`.
    pub(super) fn reset(
        &mut self,
        launch: u64,
        index: usize,
        function: usize,
        code: &FunctionCode,
        live: u32,
    ) {
        self.index = index;
        self.rank = 0;
        self.in_cluster = index;
        if !self.peers.is_empty() {
            self.peers = Arc::default();
        }
        self.live = live;
        if !self.peer_watches.is_empty() {
            self.peer_watches = Arc::default();
        }
        for hit in &mut self.hits {
            // Ranges of device memory stay as they are for the whole launch.
            if launch != self.launch || hit.start & TAG != 0 {
                *hit = Window::default();
            }
        }
        self.launch = launch;
        self.paused = false;
        self.sleeps_until = None;
        self.base = Base {
            function: function as u32,
            ..Base::default()
        };
        self.reserve(code);
        self.fragments.clear();
        self.fragments.push(Fragment {
            mask: live,
            pc: code.entry.unwrap_or(0),
            base: self.base,
            frames: Vec::new(),
            wait: Wait::Ready,
            stamp: 0,
        });
        self.current = 0;
    }

    /// Sets `threadIdx` of each lane for a block of this shape.
    pub(super) fn set_threads(&mut self, block: [u32; 3]) {
        if self.shape == (block, self.index) {
            return;
        }
        self.shape = (block, self.index);
        let [x, y, _] = block;
        for lane in 0..LANES {
            let linear = (self.index * LANES + lane) as u32;
            self.tid[0][lane] = linear % x;
            self.tid[1][lane] = linear / x % y;
            self.tid[2][lane] = linear / (x * y);
        }
    }

    /// Makes room for the registers of `code` at the current base.
    pub(super) fn reserve(&mut self, code: &FunctionCode) {
        let r32 = (self.base.r32 + code.r32) as usize;
        let r64 = (self.base.r64 + code.r64) as usize;
        let preds = (self.base.preds + code.preds) as usize;
        if self.r32.len() < r32 {
            self.r32.resize(r32, [0; LANES]);
        }
        if self.r64.len() < r64 {
            self.r64.resize(r64, [0; LANES]);
        }
        if self.preds.len() < preds {
            self.preds.resize(preds, 0);
        }
    }

    /// Uses the constants of `image`.
    pub(super) fn set_constants(&mut self, image: &Image) {
        if !Arc::ptr_eq(&self.consts32, image.consts32()) {
            self.consts32 = Arc::clone(image.consts32());
        }
        if !Arc::ptr_eq(&self.consts64, image.consts64()) {
            self.consts64 = Arc::clone(image.consts64());
        }
    }

    pub(super) fn clear_registers(&mut self) {
        self.r32.fill([0; LANES]);
        self.r64.fill([0; LANES]);
        self.preds.fill(0);
    }

    /// Gives each lane `stride` bytes of local memory; the first `poison` bytes are filled with the
    /// pattern of fresh memory.
    pub(super) fn set_local(&mut self, stride: u32, poison: u32) {
        let words = stride as usize / 8 * LANES;
        if self.local.len() < words {
            self.local = vec![0; words];
        }
        self.stride = stride;
        if poison > 0 {
            let row = stride as usize / 8;
            let used = (poison as usize).div_ceil(8).min(row);
            for lane in 0..LANES {
                self.local[lane * row..lane * row + used].fill(0xcdcd_cdcd_cdcd_cdcd);
            }
        }
    }

    /// The exposed address, in this process, of the local memory of lane 0.
    pub(super) fn local_host(&self) -> u64 {
        // The kernel writes through this address, with atomic accesses, until `local` is resized.
        self.local.as_ptr().expose_provenance() as u64
    }

    /// Copies arguments or results between two frames, for the lanes of `mask`.
    pub(super) fn pass(&mut self, from: (Base, &[Place]), to: (Base, &[Place]), mask: u32) {
        let running = self.base;
        for (&source, &target) in from.1.iter().zip(to.1) {
            self.base = from.0;
            let mut wide = [0u64; LANES];
            let mut bytes = Vec::new();
            match source {
                Place::R32(slot) => wide = self.get32(slot).over(u64::from),
                Place::R64(slot) => wide = self.get64(slot),
                Place::Pred(slot) => {
                    let bits = self.get_pred(slot);
                    for (lane, value) in wide.iter_mut().enumerate() {
                        *value = u64::from(bits >> lane & 1);
                    }
                }
                Place::Local { offset, size } => {
                    for lane in bits(mask) {
                        let start = self.local_index(lane, from.0.local + offset);
                        let all = self.local_bytes();
                        let part = all.get(start..start + size as usize).unwrap_or(&[]);
                        let mut word = [0; 8];
                        let len = part.len().min(8);
                        word[..len].copy_from_slice(&part[..len]);
                        wide[lane] = u64::from_le_bytes(word);
                        bytes.extend_from_slice(part);
                    }
                }
            }
            self.base = to.0;
            match target {
                Place::R32(slot) => self.put32(slot, mask, &wide.map(|value| value as u32)),
                Place::R64(slot) => self.put64(slot, mask, &wide),
                Place::Pred(slot) => {
                    let mut value = 0;
                    for (lane, &bit) in wide.iter().enumerate() {
                        value |= u32::from(bit != 0) << lane;
                    }
                    self.put_pred(slot, mask, value);
                }
                Place::Local { offset, size } => {
                    let per_lane = bytes.len() / (mask.count_ones().max(1) as usize);
                    for (order, lane) in bits(mask).enumerate() {
                        let start = self.local_index(lane, to.0.local + offset);
                        let word = wide[lane].to_le_bytes();
                        let value = match source {
                            Place::Local { .. } => &bytes[order * per_lane..(order + 1) * per_lane],
                            _ => &word[..],
                        };
                        let len = value.len().min(size as usize);
                        let all = self.local_bytes_mut();
                        if let Some(part) = all.get_mut(start..start + len) {
                            part.copy_from_slice(&value[..len]);
                        }
                        if let Some(watch) = &self.watch {
                            watch.wrote_local(self.index, lane, to.0.local + offset, len);
                        }
                    }
                }
            }
        }
        self.base = running;
    }

    /// The index in [`local_bytes`](Self::local_bytes) of byte `offset` of a lane's local memory.
    pub(super) fn local_index(&self, lane: usize, offset: u32) -> usize {
        lane * self.stride as usize + offset as usize
    }

    pub(super) fn local_bytes(&self) -> &[u8] {
        let len = self.local.len() * 8;
        // SAFETY: any initialized u64 is 8 initialized bytes; the slice covers exactly `local`,
        // borrowed as `self`.
        unsafe { std::slice::from_raw_parts(self.local.as_ptr().cast(), len) }
    }

    /// Writes bytes of one lane's local memory, if they are in its bounds.
    pub(super) fn write_local(&mut self, lane: usize, offset: u32, bytes: &[u8]) {
        let start = self.local_index(lane, offset);
        let all = self.local_bytes_mut();
        if let Some(part) = all.get_mut(start..start + bytes.len()) {
            part.copy_from_slice(bytes);
        }
        if let Some(watch) = &self.watch {
            watch.wrote_local(self.index, lane, offset, bytes.len());
        }
    }

    fn local_bytes_mut(&mut self) -> &mut [u8] {
        let len = self.local.len() * 8;
        // SAFETY: as in `local_bytes`, and `self` is borrowed mutably; any bytes are a valid u64.
        unsafe { std::slice::from_raw_parts_mut(self.local.as_mut_ptr().cast(), len) }
    }

    /// Splits `mask` off the current fragment, which keeps the rest. Returns `None` if `mask` is
    /// the whole fragment.
    pub(super) fn split(&mut self, mask: u32) -> Option<usize> {
        let current = &mut self.fragments[self.current];
        if current.mask == mask {
            return None;
        }
        current.mask &= !mask;
        let part = Fragment {
            mask,
            ..current.clone()
        };
        self.fragments.push(part);
        Some(self.fragments.len() - 1)
    }

    /// Chooses the fragment that runs next and merges others into it. Returns the program counter
    /// of another fragment that could merge with it later, or `None` if no fragment can run.
    pub(super) fn select(&mut self, common: &Common, rotate: bool) -> Option<u32> {
        if self.fragments.len() > 1 {
            self.fragments.retain(|fragment| fragment.mask != 0);
        }
        let mut best: Option<usize> = None;
        for index in 0..self.fragments.len() {
            let fragment = &mut self.fragments[index];
            if let Wait::Barrier { id, phase } = fragment.wait
                && common.phase(id) != phase
            {
                fragment.wait = Wait::Ready;
            }
            if fragment.wait == Wait::Cluster
                && !common.meeting.waits(self.in_cluster, fragment.mask)
            {
                fragment.wait = Wait::Ready;
                if let Some(watch) = &self.watch {
                    watch.acquire(self.index);
                }
            }
            if fragment.wait != Wait::Ready || fragment.mask == 0 {
                continue;
            }
            let fragment = &self.fragments[index];
            let better = best.is_none_or(|best| {
                let best = &self.fragments[best];
                if rotate {
                    return fragment.stamp < best.stamp;
                }
                let key = |f: &Fragment| (std::cmp::Reverse(f.frames.len()), f.pc);
                key(fragment) < key(best)
            });
            if better {
                best = Some(index);
            }
        }
        let best = best?;
        self.clock += 1;
        self.fragments[best].stamp = self.clock;
        self.current = best;
        self.base = self.fragments[best].base;
        if self.fragments.len() == 1 {
            return Some(u32::MAX);
        }
        self.merge_into(best, rotate)
    }

    fn merge_into(&mut self, best: usize, rotate: bool) -> Option<u32> {
        let mut limit = u32::MAX;
        let mut joined = 0;
        let (before, rest) = self.fragments.split_at_mut(best);
        let (chosen, after) = rest.split_first_mut()?;
        for other in before.iter_mut().chain(after) {
            if other.mask == 0 || other.wait != Wait::Ready {
                continue;
            }
            if other.pc == chosen.pc && other.base == chosen.base && other.frames == chosen.frames {
                joined |= other.mask;
                other.mask = 0;
            } else if !rotate && other.frames.len() == chosen.frames.len() && other.pc > chosen.pc {
                limit = limit.min(other.pc);
            }
        }
        chosen.mask |= joined;
        Some(limit)
    }
}
