//! The check for threads that skip a barrier of their block.
//!
//! A barrier of the whole block waits for the threads that have not exited. A thread that returns
//! early is therefore no error. A thread is in error if it bypasses a barrier and then runs code
//! that other threads reach through the barrier, even if the program works because that thread
//! exits later. The check reports threads that leave a block from the same instruction as others
//! and have arrived at fewer barriers, provided that one of these barriers has a path to that
//! instruction and no path leads back from the instruction to it. Moreover, `bar.sync` and the
//! other aligned forms require all lanes of a warp to be at the same instruction.

use std::collections::BTreeMap;

use crate::report::{Report, ReportKind};
use crate::vm::code::{ALWAYS, BarrierOp, Kind};
use crate::vm::program::Program;
use crate::vm::space::Env;
use crate::vm::vector::LANES;
use crate::vm::vector::bits;
use crate::vm::warp::Warp;

/// The barrier history of the lanes of a warp.
#[derive(Debug)]
pub(in crate::vm) struct BarrierHistory {
    /// The number of times that each lane arrived at a barrier of the whole block.
    counts: [u32; LANES],
    /// The last instruction, except control flow, that each lane executed.
    tails: [u32; LANES],
    /// The barriers of the whole block at which a lane arrived.
    barriers: Vec<u32>,
    /// The latest arrivals: barrier, phase, instruction, lanes.
    arrivals: Vec<(u32, u32, u32, u32)>,
}

impl Default for BarrierHistory {
    fn default() -> Self {
        Self {
            counts: [0; LANES],
            tails: [u32::MAX; LANES],
            barriers: Vec::new(),
            arrivals: Vec::new(),
        }
    }
}

impl BarrierHistory {
    /// Records that these lanes execute an instruction.
    pub(in crate::vm) fn executed(&mut self, pc: u32, mask: u32) {
        for (lane, tail) in self.tails.iter_mut().enumerate() {
            *tail = if mask >> lane & 1 != 0 { pc } else { *tail };
        }
    }

    /// Records that lanes arrive at a barrier in one of its phases. Returns the instruction and the
    /// lanes of an arrival by a different instruction, if the barrier must be aligned.
    pub(in crate::vm) fn arrive(
        &mut self,
        (id, phase): (u32, u32),
        (pc, mask): (u32, u32),
        op: BarrierOp,
    ) -> Option<(u32, u32)> {
        if !op.counted {
            for lane in bits(mask) {
                self.counts[lane] += 1;
            }
            if !self.barriers.contains(&pc) {
                self.barriers.push(pc);
            }
        }
        self.arrivals
            .retain(|&(other, then, ..)| other != id || then == phase);
        let here = self.arrivals.iter().find(|&&(other, ..)| other == id);
        let other = here.map(|&(_, _, other, lanes)| (other, lanes));
        self.arrivals.push((id, phase, pc, mask));
        other.filter(|&(other, _)| op.aligned && other != pc)
    }
}

/// Reports lanes of a warp that arrive at one barrier by two instructions.
pub(in crate::vm) fn divergent(
    w: &Warp,
    env: &Env<'_>,
    id: u32,
    (pc, mask): (u32, u32),
    (other, others): (u32, u32),
) {
    let kind = ReportKind::BarrierDivergence;
    env.findings.add(kind, (pc, other), || {
        let place = |pc, mask: u32| {
            let lane = mask.trailing_zeros() as usize % LANES;
            let thread = [0, 1, 2].map(|axis| w.tid[axis][lane]);
            env.program.place(env.kernel, pc, w.ctaid, thread)
        };
        Report {
            kind,
            device: 0,
            status: None,
            kernel: env.program.kernels[env.kernel].name.clone(),
            at: place(pc, mask),
            other: Some(place(other, others)),
            access: None,
            missing: threads(w, others),
            times: 1,
            message: format!(
                "threads of one warp arrive at barrier {id} by different instructions"
            ),
        }
    });
}

/// The `threadIdx` of lanes of a warp.
pub(in crate::vm) fn threads(w: &Warp, mask: u32) -> Vec<[u32; 3]> {
    bits(mask)
        .map(|lane| [0, 1, 2].map(|axis| w.tid[axis][lane]))
        .collect()
}

/// Reports threads of a completed block that missed a barrier.
pub(in crate::vm) fn missed_barriers(warps: &[Warp], env: &Env<'_>) {
    let all: u32 = env.launch.block.iter().product();
    let lanes = |index: usize| (all as usize - index * LANES).min(LANES);
    let counts = warps.iter().enumerate().flat_map(|(index, warp)| {
        let attendance = warp.attendance.iter();
        attendance.flat_map(move |it| &it.counts[..lanes(index)])
    });
    let (least, most) = (counts.clone().min(), counts.max());
    if least == most {
        // Most blocks: no thread has arrived at fewer barriers than another.
        return;
    }
    let mut leaving: BTreeMap<u32, Vec<(usize, usize, u32)>> = BTreeMap::new();
    for (index, warp) in warps.iter().enumerate() {
        let Some(attendance) = &warp.attendance else {
            return;
        };
        for lane in 0..lanes(index) {
            let thread = (index, lane, attendance.counts[lane]);
            leaving
                .entry(attendance.tails[lane])
                .or_default()
                .push(thread);
        }
    }
    for (tail, threads) in leaving {
        let most = threads.iter().map(|&(_, _, count)| count).max();
        let Some(&(warp, lane, most)) = threads.iter().find(|&&(_, _, count)| Some(count) == most)
        else {
            continue;
        };
        let missing: Vec<_> = threads
            .iter()
            .filter(|&&(.., count)| count < most)
            .collect();
        let Some(&&(absent, absent_lane, _)) = missing.first() else {
            continue;
        };
        let attendance = warps[warp].attendance.as_ref();
        let barriers = attendance.map_or(&[][..], |attendance| &attendance.barriers);
        let barrier = barriers.iter().copied().find(|&barrier| {
            reaches(env.program, barrier, tail) && !reaches(env.program, tail, barrier)
        });
        let Some(barrier) = barrier else {
            continue;
        };
        let kind = ReportKind::BarrierDivergence;
        env.findings.add(kind, (barrier, u32::MAX), || {
            let w = &warps[warp];
            let thread = |w: &Warp, lane: usize| [0, 1, 2].map(|axis| w.tid[axis][lane]);
            let place = |pc, thread| env.program.place(env.kernel, pc, w.ctaid, thread);
            Report {
                kind,
                device: 0,
                status: None,
                kernel: env.program.kernels[env.kernel].name.clone(),
                at: place(barrier, thread(w, lane)),
                other: Some(place(tail, thread(&warps[absent], absent_lane))),
                access: None,
                missing: missing
                    .iter()
                    .map(|&&(warp, lane, _)| thread(&warps[warp], lane))
                    .collect(),
                times: 1,
                message: format!(
                    "{} of {all} threads skip a barrier that other threads wait at; place the barrier \
                     where all threads of the block reach it",
                    missing.len()
                ),
            }
        });
    }
}

/// Whether a path leads from one instruction to another, ignoring calls.
fn reaches(program: &Program, from: u32, to: u32) -> bool {
    let mut seen = vec![false; program.code.len()];
    let mut open = vec![from];
    while let Some(pc) = open.pop() {
        let Some(i) = program.code.get(pc as usize) else {
            continue;
        };
        let mut next = Vec::new();
        let table = program.tables.get(i.imm as usize);
        match i.kind {
            Kind::Jump => next.push(i.imm as u32),
            Kind::JumpTable => next.extend(table.into_iter().flatten()),
            _ => {}
        }
        let ends = matches!(
            i.kind,
            Kind::Jump | Kind::JumpTable | Kind::Ret | Kind::Exit | Kind::Trap
        );
        if !ends || i.guard != ALWAYS {
            next.push(pc + 1);
        }
        for pc in next {
            if pc == to {
                return true;
            }
            if let Some(seen) = seen.get_mut(pc as usize)
                && !*seen
            {
                *seen = true;
                open.push(pc);
            }
        }
    }
    false
}
