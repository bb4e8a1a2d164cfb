//! Records the memory accesses of an instruction.

use std::sync::MutexGuard;

use cuda_sys::LaunchUse;

use super::groups::number_of;
use super::shared::{ELSEWHERE, Mark};
use super::{Checks, State};
use crate::report::{Access, Hazard, MemorySpace, Report, ReportKind};
use crate::vm::address::{LOCAL, RANK_SHIFT, SHARED, TAG};
use crate::vm::code::{Ins, Kind};
use crate::vm::fault::{Detail, FaultKind};
use crate::vm::lane_fault::{LaneFault, access};
use crate::vm::lanes::MemoryOp;
use crate::vm::space::Env;
use crate::vm::vector::{LANES, bits};
use crate::vm::warp::Warp;

/// Observes the execution of one instruction.
pub(in crate::vm) struct Observer<'a> {
    w: &'a Warp,
    env: &'a Env<'a>,
    pc: u32,
    stamp: u32,
    state: MutexGuard<'a, State>,
}

/// A memory access of one lane.
#[derive(Clone, Copy, Debug)]
pub(in crate::vm) struct ObservedAccess {
    pub(in crate::vm) lane: usize,
    /// The generic address.
    pub(in crate::vm) at: u64,
    pub(in crate::vm) size: u64,
    /// Whether the access is atomic or ordered in another way.
    pub(in crate::vm) is_strong: bool,
}

impl ObservedAccess {
    pub(in crate::vm) fn new(lane: usize, at: u64, size: u64) -> Self {
        Self {
            lane,
            at,
            size,
            is_strong: false,
        }
    }

    /// An access of the size of `T`; it is strong if `strong` is 1.
    pub(in crate::vm) fn of<T>(lane: usize, at: u64, strong: u32) -> Self {
        Self {
            is_strong: strong != 0,
            ..Self::new(lane, at, size_of::<T>() as u64)
        }
    }

    fn strong(self) -> Self {
        Self {
            is_strong: true,
            ..self
        }
    }
}

impl<'a> Observer<'a> {
    /// Creates the observer of an instruction of the code of `env`; `None` if no check is on.
    pub(in crate::vm) fn new(w: &'a Warp, env: &'a Env<'a>, i: &Ins) -> Option<Self> {
        let watch = w.watch.as_deref()?;
        let pc = number_of(env, i);
        let mut state = watch.state();
        let stamp = state.order.tick();
        Some(Self {
            w,
            env,
            pc,
            stamp,
            state,
        })
    }

    fn checks(&self) -> Checks {
        self.env.findings.checks
    }

    /// Records that a lane reads a value and uses it.
    pub(in crate::vm) fn read(&mut self, touch: ObservedAccess) {
        if self.checks().uninitialized {
            self.must_be_written(touch);
        }
        if touch.is_strong {
            self.state.order.looked(self.w.index);
        }
        let Some(offset) = self.in_shared(touch) else {
            return;
        };
        let (now, State { order, shared, .. }) = (self.mark(touch), &mut *self.state);
        let place = (self.w.index, touch.lane);
        let found = shared.read(order, (offset, touch.size), place, now);
        if let Some((hazard, before)) = found {
            self.race(hazard, before, touch, offset);
        }
    }

    /// Records that a lane writes; `changes` says whether the write changes the value.
    pub(in crate::vm) fn write(&mut self, touch: ObservedAccess, changes: bool) {
        let ObservedAccess { at, size, lane, .. } = touch;
        match at & TAG {
            0 => {
                if self.checks().read_only {
                    self.must_be_writable(touch);
                }
                if self.checks().uninitialized {
                    self.env.launch.map.wrote(at, size);
                }
            }
            LOCAL => self.state.local.wrote(self.w.index, lane, at & !TAG, size),
            SHARED => {
                let Some(offset) = self.in_shared(touch) else {
                    return self.write_elsewhere(at, size);
                };
                let (now, State { order, shared, .. }) = (self.mark(touch), &mut *self.state);
                let place = (self.w.index, lane);
                let found = shared.write(order, (offset, size), place, now, changes);
                if let Some((hazard, before)) = found {
                    self.race(hazard, before, touch, offset);
                }
            }
            _ => {}
        }
    }

    /// Records that a lane changes a value atomically.
    pub(in crate::vm) fn update(&mut self, touch: ObservedAccess, reads: bool) {
        let touch = touch.strong();
        if reads && self.checks().uninitialized {
            self.must_be_written(touch);
        }
        self.state.order.looked(self.w.index);
        self.write(touch, true);
    }

    /// Records a write that does not race with anything: the initialization of a barrier in memory.
    pub(in crate::vm) fn initialize(&mut self, touch: ObservedAccess) {
        match self.in_shared(touch) {
            Some(offset) => {
                let mark = Mark {
                    thread: ELSEWHERE,
                    ..self.mark(touch)
                };
                let State { order, shared, .. } = &mut *self.state;
                let place = (self.w.index, touch.lane);
                shared.write(order, (offset, touch.size), place, mark, false);
            }
            None => self.write(touch, false),
        }
    }

    /// Records an acquire: all earlier accesses of other threads happen before the next accesses of
    /// this warp.
    pub(in crate::vm) fn acquire(&mut self) {
        self.state.order.acquire(self.w.index);
    }

    fn mark(&self, touch: ObservedAccess) -> Mark {
        Mark {
            stamp: self.stamp,
            pc: self.pc,
            thread: (self.w.index * LANES + touch.lane) as u16,
            is_strong: touch.is_strong,
        }
    }

    /// The offset in this block's shared memory, if the access is to it.
    fn in_shared(&self, touch: ObservedAccess) -> Option<u64> {
        if touch.at & TAG != SHARED {
            return None;
        }
        let number = touch.at >> RANK_SHIFT & 0xff;
        let is_own = number == 0 || number == u64::from(self.w.rank) + 1;
        is_own.then_some(touch.at & ((1 << RANK_SHIFT) - 1))
    }

    /// Records a write to the shared memory of another block of the cluster.
    fn write_elsewhere(&mut self, at: u64, size: u64) {
        let rank = (at >> RANK_SHIFT & 0xff).wrapping_sub(1) as usize;
        let Some(watch) = self.w.peer_watches.get(rank) else {
            return;
        };
        let state = &mut *watch.state();
        let mark = Mark {
            stamp: state.order.tick(),
            pc: self.pc,
            thread: ELSEWHERE,
            is_strong: true,
        };
        let offset = at & ((1 << RANK_SHIFT) - 1);
        let State { order, shared, .. } = state;
        shared.write(order, (offset, size), (0, 0), mark, false);
    }

    fn unwritten(&mut self, touch: ObservedAccess) -> Option<u64> {
        let ObservedAccess { lane, at, size, .. } = touch;
        let offset = at & ((1 << RANK_SHIFT) - 1);
        match at & TAG {
            0 => self.env.launch.map.unwritten(at, size),
            LOCAL => {
                let local = &self.state.local;
                local.unwritten(self.w.index, lane, at & !TAG, size)
            }
            SHARED if self.in_shared(touch).is_some() => {
                let State { order, shared, .. } = &mut *self.state;
                shared.unwritten(order, offset, size)
            }
            SHARED => {
                let rank = (at >> RANK_SHIFT & 0xff).wrapping_sub(1) as usize;
                let state = &mut *self.w.peer_watches.get(rank)?.state();
                let State { order, shared, .. } = state;
                shared.unwritten(order, offset, size)
            }
            _ => None,
        }
    }

    fn must_be_written(&mut self, touch: ObservedAccess) {
        let Some(first) = self.unwritten(touch) else {
            return;
        };
        let access = access_of(touch);
        let message = format!(
            "reads {} bytes at {:#x} of {}, but the byte at {first:#x} was never written",
            access.size, access.address, access.space
        );
        self.find(ReportKind::UninitializedRead, touch, None, message);
    }

    /// Reports a write to memory that the program has passed as read-only, unless it has also
    /// passed it as writable.
    fn must_be_writable(&self, touch: ObservedAccess) {
        let (start, end) = (touch.at, touch.at.saturating_add(touch.size));
        let overlaps = |it: &&LaunchUse| {
            start < it.address.saturating_add(it.bytes as u64) && it.address < end
        };
        let mut uses = self.env.launch.uses.iter().filter(overlaps);
        let Some(first) = uses.next() else { return };
        if first.is_written || uses.any(|it| it.is_written) {
            return;
        }
        let (size, at) = (touch.size, touch.at);
        let message = match first.argument {
            0 => format!(
                "writes {size} bytes at {at:#x}, in memory that the launch names as `&`; name it as \
                 `&mut`"
            ),
            argument => format!(
                "writes {size} bytes at {at:#x}, in argument {argument}, which was passed as `&`; \
                 pass `&mut` for memory that the kernel writes"
            ),
        };
        self.find(ReportKind::ReadOnlyWrite, touch, None, message);
    }

    /// Reports an access that is not made.
    fn invalid(&self, touch: ObservedAccess, fault: LaneFault) {
        let kind = match (fault.kind, fault.more.detail) {
            (FaultKind::MisalignedAddress, _) => ReportKind::Misaligned,
            (_, Detail::Freed) => ReportKind::UseAfterFree,
            _ => ReportKind::OutOfBounds,
        };
        self.find(kind, touch, None, fault.message);
    }

    fn race(&mut self, hazard: Hazard, before: Mark, touch: ObservedAccess, offset: u64) {
        if !self.checks().races {
            return;
        }
        let words = match hazard {
            Hazard::ReadAfterWrite => "reads a value that another thread wrote",
            Hazard::WriteAfterRead => "overwrites a value that another thread read",
            Hazard::WriteAfterWrite => "overwrites a value that another thread wrote",
        };
        let size = touch.size;
        let message = format!(
            "{words}: {size} bytes at {offset:#x} of shared memory; the two accesses are not ordered"
        );
        self.find(ReportKind::Race(hazard), touch, Some(before), message);
    }

    /// The number of the thread in the grid, modulo 2³².
    fn thread_in_grid(&self, lane: usize) -> u32 {
        let [x, y, z] = self.env.launch.block;
        let [columns, rows, _] = self.env.launch.grid;
        let [column, row, plane] = self.w.ctaid;
        let block = plane
            .wrapping_mul(rows)
            .wrapping_add(row)
            .wrapping_mul(columns)
            .wrapping_add(column);
        let thread = self.w.index * LANES + lane;
        block.wrapping_mul(x * y * z).wrapping_add(thread as u32)
    }

    fn find(&self, kind: ReportKind, touch: ObservedAccess, other: Option<Mark>, message: String) {
        let Env {
            program, kernel, ..
        } = *self.env;
        let block = self.w.ctaid;
        let first = |pc| first_of_vector(&program.code, pc);
        let other_or_thread = match other {
            Some(other) => first(other.pc),
            None if self.checks().skip_invalid => self.thread_in_grid(touch.lane),
            None => u32::MAX,
        };
        let pcs = (first(self.pc), other_or_thread);
        self.env.findings.add(kind, pcs, || {
            let thread = [0, 1, 2].map(|axis| self.w.tid[axis][touch.lane]);
            let other = other.map(|other| {
                let [x, y, _] = self.env.launch.block;
                let linear = u32::from(other.thread);
                let thread = [linear % x, linear / x % y, linear / (x * y)];
                program.place(kernel, other.pc, block, thread)
            });
            Report {
                kind,
                device: 0,
                status: None,
                kernel: program.kernels[kernel].name.clone(),
                at: program.place(kernel, self.pc, block, thread),
                other,
                access: Some(access_of(touch)),
                missing: Vec::new(),
                times: 1,
                message,
            }
        });
    }
}

impl Warp {
    /// The lanes of `m` whose access to `size` bytes is valid. If the launch skips invalid
    /// accesses, those of the other lanes are reported; otherwise `m`.
    pub(in crate::vm) fn valid(&self, env: &Env<'_>, i: &Ins, m: u32, size: u64) -> u32 {
        if !env.findings.checks.skip_invalid {
            return m;
        }
        let (mut valid, address) = (m, self.generic(i.a, i));
        let align = u64::from(i.c & 0xff);
        for lane in bits(m) {
            let at = address[lane];
            let fault = if at & align != 0 {
                LaneFault::misaligned(at, size, align + 1, lane)
            } else if !self.window(env, at, lane).holds(at, size) {
                self.outside(env, at, size, lane)
            } else {
                continue;
            };
            valid &= !(1 << lane);
            if let Some(observer) = Observer::new(self, env, i) {
                observer.invalid(ObservedAccess::new(lane, at, size), fault);
            }
        }
        valid
    }
}

/// The first of the accesses into which a vector access was split.
fn first_of_vector(code: &[Ins], mut pc: u32) -> u32 {
    while let Some([before, here]) = code.get((pc as usize).wrapping_sub(1)..=pc as usize) {
        let step = here.imm.wrapping_sub(before.imm);
        let is_one = before.line == here.line
            && (before.a, before.guard, before.e) == (here.a, here.guard, here.e)
            && matches!((before.kind, here.kind), (Kind::Memory(_), Kind::Memory(_)))
            && matches!(step, 1 | 2 | 4 | 8);
        if !is_one {
            break;
        }
        pc -= 1;
    }
    pc
}

/// The access, with an address that does not identify the block in the cluster.
fn access_of(touch: ObservedAccess) -> Access {
    let mut access = access(touch.at, touch.size);
    if access.space == MemorySpace::Shared {
        access.address &= (1 << RANK_SHIFT) - 1;
    }
    access
}

/// The instruction after which the warp may see what other threads did: always if `imm` is 1,
/// otherwise if a lane made a strong read before.
pub(in crate::vm) struct Acquired;

impl MemoryOp for Acquired {
    fn run(w: &mut Warp, _env: &Env<'_>, i: &Ins, _m: u32) -> Result<(), LaneFault> {
        if let Some(watch) = &w.watch {
            let order = &mut watch.state().order;
            match i.imm {
                0 => order.fence(w.index),
                _ => order.acquire(w.index),
            }
        }
        Ok(())
    }
}
