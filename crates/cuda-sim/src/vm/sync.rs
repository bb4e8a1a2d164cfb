//! Operations among the lanes of a warp that wait for all of a member mask.

use super::code::{Ins, Kind, Slot, Trouble};
use super::lanes::LANES;
use super::lanes::{Over, each};
use super::rounding::NAN32;
use super::space::bits;
use super::warp::{Fragment, Wait, Warp};

/// Marks a destination that is not there.
pub(super) const NOWHERE: Slot = u32::MAX;

/// Which operation. The member mask is in the slot `imm & 0xffff_ffff`, a second destination (a predicate) in
/// `imm >> 32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOp {
    /// `bar.warp.sync`
    Barrier,
    /// `a` of the lane that `b` and `c` say.
    Shuffle(Shuffle),
    /// Of the predicate `a`.
    Vote { vote: Vote, negated: bool },
    /// The lanes with the same value.
    MatchAny { wide: bool },
    /// All lanes if all have the same value.
    MatchAll { wide: bool },
    /// `a` of all lanes, combined.
    Reduce(Reduce),
    /// One lane is chosen.
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
    /// The least or greatest f32, perhaps without its sign; NaN if there is one, or else if all are.
    Float {
        max: bool,
        abs: bool,
        nan: bool,
    },
}

/// What the taking part lanes bring.
struct Inputs {
    members: [u32; LANES],
    a: [u64; LANES],
    b: [u32; LANES],
    c: [u32; LANES],
}

/// What they get.
struct Outputs {
    value: [u64; LANES],
    flag: u32,
}

impl Warp {
    /// The fragment `index` has just come to a sync operation: runs it if all others are there too.
    pub(super) fn sync_arrived(&mut self, code: &[Ins], index: usize) -> Result<(), Trouble> {
        self.try_sync(code, index).map(|_| ())
    }

    /// No fragment can run: perhaps a lane that others waited for has exited. True if something goes on.
    pub(super) fn sync_waiting(&mut self, code: &[Ins]) -> Result<bool, Trouble> {
        for index in 0..self.fragments.len() {
            let wait = self.fragments[index].wait;
            if wait == Wait::Sync && self.try_sync(code, index)?
                || wait == Wait::Together && self.gathered(index)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether all lanes wait where the fragment `index` does. They become one fragment then.
    pub(super) fn gathered(&mut self, index: usize) -> bool {
        let first = &self.fragments[index];
        let here = |other: &Fragment| {
            other.wait == Wait::Together
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

    fn try_sync(&mut self, code: &[Ins], index: usize) -> Result<bool, Trouble> {
        let i = code[self.fragments[index].pc as usize];
        let Kind::Sync(op) = i.kind else {
            return Ok(false);
        };
        let same = |i: &Ins| matches!(i.kind, Kind::Sync(other) if other == op);
        let group: Vec<usize> = (0..self.fragments.len())
            .filter(|&other| {
                let fragment = &self.fragments[other];
                fragment.wait == Wait::Sync && same(&code[fragment.pc as usize])
            })
            .collect();
        let mut inputs = Inputs {
            members: [0; LANES],
            a: [0; LANES],
            b: [0; LANES],
            c: [0; LANES],
        };
        let mut present = 0;
        let mut needed = 0;
        for &member in &group {
            let fragment = &self.fragments[member];
            let i = code[fragment.pc as usize];
            let mask = fragment.mask;
            self.base = fragment.base;
            let members = self.get32(i.imm as u32);
            // A waiting fragment of another member mask belongs to another operation.
            let lane = mask.trailing_zeros() as usize;
            let first = self.fragments[index].mask;
            if member != index && members[lane] & first == 0 {
                continue;
            }
            present |= mask;
            for lane in bits(mask) {
                inputs.members[lane] = members[lane] | 1 << lane;
                needed |= inputs.members[lane];
            }
            self.gather(&i, op, mask, &mut inputs);
        }
        if needed & self.live & !present != 0 {
            return Ok(false);
        }
        let outputs = compute(op, present, &inputs);
        if op == SyncOp::Barrier
            && let Some(watch) = &self.watch
        {
            watch.warp_barrier(self.index, present);
        }
        for &member in &group {
            let fragment = &mut self.fragments[member];
            if fragment.mask & present == 0 {
                continue;
            }
            let i = code[fragment.pc as usize];
            fragment.wait = Wait::Ready;
            fragment.pc += 1;
            let mask = fragment.mask;
            self.base = fragment.base;
            self.scatter(&i, op, mask, &outputs);
        }
        Ok(true)
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

fn compute(op: SyncOp, present: u32, inputs: &Inputs) -> Outputs {
    let mut outputs = Outputs {
        value: [0; LANES],
        flag: 0,
    };
    for lane in bits(present) {
        // Who takes part, from this lane's point of view.
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

/// The least or greatest of floats.
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

/// Which lane to read, and whether it is in range.
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
