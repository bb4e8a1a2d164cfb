//! Warp-level operations that wait for all lanes of a member mask.

use super::code::{Ins, Kind, Slot};
use super::rounding::NAN32;
use super::vector::LANES;
use super::vector::bits;
use super::vector::{Over, each};
use super::warp::{Fragment, Wait, Warp};

/// Marks an absent destination.
pub(super) const NOWHERE: Slot = u32::MAX;

/// The operation. The member mask is in the slot `imm & 0xffff_ffff`, a second destination (a
/// predicate) in `imm >> 32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOp {
    /// `bar.warp.sync`
    Barrier,
    /// The value `a` of the lane that `b` and `c` select.
    Shuffle(Shuffle),
    /// A vote on the predicate `a`.
    Vote { vote: Vote, negated: bool },
    /// For each lane, the lanes with the same value.
    MatchAny { wide: bool },
    /// The mask of all lanes if all have the same value.
    MatchAll { wide: bool },
    /// The values `a` of all lanes, combined.
    Reduce(Reduce),
    /// The election of one lane.
    Elect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduce {
    Add,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
    /// The minimum or maximum of f32 values, perhaps of their absolute values. The result is NaN if
    /// any input is NaN, or only if all are.
    Float {
        max: bool,
        abs: bool,
        nan: bool,
    },
}

/// The inputs of the participating lanes.
struct Inputs {
    members: [u32; LANES],
    a: [u64; LANES],
    b: [u32; LANES],
    c: [u32; LANES],
}

/// The results of the participating lanes.
struct Outputs {
    value: [u64; LANES],
    flag: u32,
}

impl Warp {
    /// Called when no fragment can run, perhaps because a lane that others waited for has exited.
    /// Returns true if a fragment can continue.
    pub(super) fn sync_waiting(&mut self, code: &[Ins]) -> bool {
        for index in 0..self.fragments.len() {
            let wait = self.fragments[index].wait;
            if wait == Wait::Sync && self.try_sync(code, index)
                || wait == Wait::Convergence && self.gathered(index)
            {
                return true;
            }
        }
        false
    }

    /// Merges the fragments that wait where the fragment `index` does, if they contain all live
    /// lanes; returns whether they do.
    pub(super) fn gathered(&mut self, index: usize) -> bool {
        let first = &self.fragments[index];
        let here = |other: &Fragment| {
            other.wait == Wait::Convergence
                && other.pc == first.pc
                && other.base == first.base
                && other.frames == first.frames
        };
        let group: Vec<bool> = self.fragments.iter().map(here).collect();
        let all = self.fragments.iter().zip(&group);
        let present = all.fold(0, |all, (other, &is_here)| {
            all | if is_here { other.mask } else { 0 }
        });
        if present != self.live {
            return false;
        }
        for (fragment, is_here) in self.fragments.iter_mut().zip(group) {
            if is_here {
                fragment.mask = 0;
            }
        }
        let first = &mut self.fragments[index];
        first.mask = present;
        first.wait = Wait::Ready;
        true
    }

    /// Runs the operation that the fragment `index` waits at, once for each of its member masks
    /// whose lanes have all arrived. Returns true if any lanes continue.
    pub(super) fn try_sync(&mut self, code: &[Ins], index: usize) -> bool {
        let Fragment { mask, pc, base, .. } = self.fragments[index];
        let i = code[pc as usize];
        let Kind::Sync(op) = i.kind else {
            return false;
        };
        self.base = base;
        let members = self.get32(i.imm as u32);
        let mut rest = mask;
        let mut any_continue = false;
        while rest != 0 {
            let member_mask = members[rest.trailing_zeros() as usize];
            rest &= !lanes_of(&members, rest, member_mask);
            any_continue |= self.try_members(code, op, member_mask);
        }
        any_continue
    }

    /// Runs `op` for the lanes that wait at it with this member mask, if all lanes of the mask have
    /// arrived. Lanes with another mask take part in a different operation, even if it is the same
    /// instruction or the masks overlap.
    fn try_members(&mut self, code: &[Ins], op: SyncOp, member_mask: u32) -> bool {
        let mut inputs = Inputs {
            members: [0; LANES],
            a: [0; LANES],
            b: [0; LANES],
            c: [0; LANES],
        };
        let mut group = Vec::new();
        let mut present = 0;
        for index in 0..self.fragments.len() {
            let fragment = &self.fragments[index];
            let (mask, i) = (fragment.mask, code[fragment.pc as usize]);
            if fragment.wait != Wait::Sync || !matches!(i.kind, Kind::Sync(other) if other == op) {
                continue;
            }
            self.base = fragment.base;
            let lanes = lanes_of(&self.get32(i.imm as u32), mask, member_mask);
            if lanes == 0 {
                continue;
            }
            for lane in bits(lanes) {
                inputs.members[lane] = member_mask | 1 << lane;
            }
            self.gather(&i, op, lanes, &mut inputs);
            present |= lanes;
            group.push((index, lanes));
        }
        if member_mask & self.live & !present != 0 {
            return false;
        }
        let outputs = compute(op, present, &inputs);
        if op == SyncOp::Barrier
            && let Some(watch) = &self.watch
        {
            watch.warp_barrier(self.index, present);
        }
        for (mut index, lanes) in group {
            if self.fragments[index].mask != lanes {
                // The other lanes of the fragment keep waiting.
                self.fragments[index].mask &= !lanes;
                let part = Fragment {
                    mask: lanes,
                    ..self.fragments[index].clone()
                };
                index = self.fragments.len();
                self.fragments.push(part);
            }
            let fragment = &mut self.fragments[index];
            let i = code[fragment.pc as usize];
            fragment.wait = Wait::Ready;
            fragment.pc += 1;
            self.base = fragment.base;
            self.scatter(&i, op, lanes, &outputs);
        }
        true
    }

    fn gather(&self, i: &Ins, op: SyncOp, mask: u32, inputs: &mut Inputs) {
        let mut take = |a: [u64; LANES]| {
            for lane in bits(mask) {
                inputs.a[lane] = a[lane];
            }
        };
        match op {
            SyncOp::Barrier | SyncOp::Elect => {}
            SyncOp::MatchAny { wide: true } | SyncOp::MatchAll { wide: true } => {
                take(self.get64(i.a));
            }
            SyncOp::Vote { negated, .. } => {
                let value = self.get_pred(i.a) ^ u32::from(negated).wrapping_neg();
                take(each(|lane| u64::from(value >> lane & 1)));
            }
            _ => take(self.get32(i.a).over(u64::from)),
        }
        if let SyncOp::Shuffle(_) = op {
            let (b, c) = (self.get32(i.b), self.get32(i.c));
            for lane in bits(mask) {
                inputs.b[lane] = b[lane];
                inputs.c[lane] = c[lane];
            }
        }
    }

    fn scatter(&mut self, i: &Ins, op: SyncOp, mask: u32, outputs: &Outputs) {
        let flag = (i.imm >> 32) as u32;
        if flag != NOWHERE {
            self.put_pred(flag, mask, outputs.flag);
        }
        match op {
            SyncOp::Barrier => {}
            SyncOp::Vote { vote, .. } if vote != Vote::Ballot => {
                self.put_pred(i.d, mask, outputs.flag);
            }
            _ => self.put32(i.d, mask, &outputs.value.map(|value| value as u32)),
        }
    }
}

/// The lanes among `lanes` whose member mask is `member_mask`.
fn lanes_of(members: &[u32; LANES], lanes: u32, member_mask: u32) -> u32 {
    let all = members.iter().enumerate();
    lanes
        & all.fold(0, |found, (lane, &members)| {
            found | u32::from(members == member_mask) << lane
        })
}

fn compute(op: SyncOp, present: u32, inputs: &Inputs) -> Outputs {
    let mut outputs = Outputs {
        value: [0; LANES],
        flag: 0,
    };
    for lane in bits(present) {
        // The lanes with which this lane takes part in the operation.
        let group = inputs.members[lane] & present;
        let (value, flag) = match op {
            SyncOp::Barrier => (0, false),
            SyncOp::Elect => {
                let leader = group.trailing_zeros();
                (u64::from(leader), leader == lane as u32)
            }
            SyncOp::Shuffle(shuffle) => {
                let (source, valid) = source_lane(shuffle, lane as u32, inputs);
                (inputs.a[source as usize], valid)
            }
            SyncOp::Vote { vote, .. } => {
                let ballot = bits(group).fold(0u32, |ballot, other| {
                    ballot | u32::from(inputs.a[other] != 0) << other
                });
                let flag = match vote {
                    Vote::All => ballot == group,
                    Vote::Any => ballot != 0,
                    Vote::Uni => ballot == 0 || ballot == group,
                    Vote::Ballot => false,
                };
                (u64::from(ballot), flag)
            }
            SyncOp::MatchAny { .. } | SyncOp::MatchAll { .. } => {
                let same = bits(group).fold(0u32, |same, other| {
                    same | u32::from(inputs.a[other] == inputs.a[lane]) << other
                });
                match op {
                    SyncOp::MatchAll { .. } if same == group => (u64::from(same), true),
                    SyncOp::MatchAll { .. } => (0, false),
                    _ => (u64::from(same), false),
                }
            }
            SyncOp::Reduce(reduce) => {
                let values = bits(group).map(|other| inputs.a[other] as u32);
                (u64::from(combine(reduce, values)), false)
            }
        };
        outputs.value[lane] = value;
        outputs.flag |= u32::from(flag) << lane;
    }
    outputs
}

fn combine(reduce: Reduce, values: impl Iterator<Item = u32>) -> u32 {
    let signed = |f: fn(i32, i32) -> i32| move |a: u32, b: u32| f(a as i32, b as i32) as u32;
    let all = match reduce {
        Reduce::Add => values.reduce(u32::wrapping_add),
        Reduce::MinU => values.reduce(u32::min),
        Reduce::MaxU => values.reduce(u32::max),
        Reduce::MinS => values.reduce(signed(i32::min)),
        Reduce::MaxS => values.reduce(signed(i32::max)),
        Reduce::And => values.reduce(|a, b| a & b),
        Reduce::Or => values.reduce(|a, b| a | b),
        Reduce::Xor => values.reduce(|a, b| a ^ b),
        Reduce::Float { max, abs, nan } => Some(extreme(values, (max, abs, nan))),
    };
    all.unwrap_or(0)
}

/// The minimum or maximum of floats.
fn extreme(values: impl Iterator<Item = u32>, (max, abs, nan): (bool, bool, bool)) -> u32 {
    let mut best: Option<f32> = None;
    for bits in values {
        let value = f32::from_bits(if abs { bits & 0x7fff_ffff } else { bits });
        if value.is_nan() {
            if nan {
                return NAN32.to_bits();
            }
            continue;
        }
        let better = best.is_none_or(|best| {
            let order = value.total_cmp(&best);
            if max { order.is_gt() } else { order.is_lt() }
        });
        if better {
            best = Some(value);
        }
    }
    best.unwrap_or(NAN32).to_bits()
}

/// The lane to read, and whether it is in range.
fn source_lane(shuffle: Shuffle, lane: u32, inputs: &Inputs) -> (u32, bool) {
    let b = inputs.b[lane as usize] & 31;
    let clamp = inputs.c[lane as usize] & 31;
    let segment = inputs.c[lane as usize] >> 8 & 31;
    let max = lane & segment | clamp & !segment;
    let min = lane & segment;
    let (source, valid) = match shuffle {
        Shuffle::Up => {
            let source = lane as i32 - b as i32;
            (source as u32, source >= max as i32)
        }
        Shuffle::Down => (lane + b, lane + b <= max),
        Shuffle::Bfly => (lane ^ b, lane ^ b <= max),
        Shuffle::Idx => {
            let source = min | b & !segment;
            (source, source <= max)
        }
    };
    if valid {
        (source & 31, true)
    } else {
        (lane, false)
    }
}
