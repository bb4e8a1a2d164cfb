//! The loop that executes a warp.

use super::SLICE;
use super::address::FUNCTION;
use super::barrier::BarrierAction;
use super::barrier::Common;
use super::builtin;
use super::check::divergent;
use super::code::{ALWAYS, BarrierOp, Callee, Ins, Kind, MAX_WORDS, NEGATED, words};
use super::fault::FaultKind;
use super::lane_fault::LaneFault;
use super::space::Env;
use super::vector::bits;
use super::warp::{Base, Frame, Wait, Warp};

/// The maximum number of open call frames.
const MAX_DEPTH: usize = 4096;
/// The reason why a warp stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The warp has used up its fuel.
    Slice,
    /// No fragment can run, or none is left.
    Blocked,
}

impl Warp {
    /// Runs until no fragment can run or `fuel` is used up.
    pub(super) fn run(
        &mut self,
        env: &Env<'_>,
        common: &mut Common,
        fuel: &mut u64,
    ) -> Result<Stop, LaneFault> {
        if self.sleeps_until.is_some() && self.is_asleep() {
            // Others may run. The warp is not blocked, so it counts as one that makes progress.
            std::thread::yield_now();
            *fuel -= 1;
            return Ok(Stop::Slice);
        }
        if self.attendance.is_some() {
            self.run_as::<true>(env, common, fuel)
        } else {
            self.run_as::<false>(env, common, fuel)
        }
    }

    fn run_as<const NOTED: bool>(
        &mut self,
        env: &Env<'_>,
        common: &mut Common,
        fuel: &mut u64,
    ) -> Result<Stop, LaneFault> {
        let code = &env.program.code[..];
        let mut rotate = std::mem::take(&mut self.paused);
        while *fuel > 0 {
            self.finish_reductions(code, common);
            let Some(limit) = self.select(common, rotate) else {
                if self.sync_waiting(code) {
                    continue;
                }
                return Ok(Stop::Blocked);
            };
            let slice = (*fuel).min(u64::from(SLICE)) as u32;
            let mut left = slice;
            let mask = self.fragments[self.current].mask;
            let outcome = self.straight::<NOTED>(env, common, limit, &mut left);
            let used = u64::from(slice - left);
            *fuel -= used;
            self.warp_instructions += used;
            self.lane_instructions += used * u64::from(mask.count_ones());
            outcome?;
            if self.paused {
                return Ok(Stop::Slice);
            }
            if self.live == 0 {
                return Ok(Stop::Blocked);
            }
            rotate = left == 0 && !rotate;
        }
        Ok(Stop::Slice)
    }

    /// Executes the current fragment until it diverges, waits, ends, reaches `limit` or has used up
    /// `left`. With `NOTED`, records which instruction each lane executes.
    fn straight<const NOTED: bool>(
        &mut self,
        env: &Env<'_>,
        common: &mut Common,
        limit: u32,
        left: &mut u32,
    ) -> Result<(), LaneFault> {
        let code = &env.program.code[..];
        let mask = self.fragments[self.current].mask;
        let mut pc = self.fragments[self.current].pc;
        while pc < limit && *left > 0 {
            *left -= 1;
            let Some(i) = code.get(pc as usize) else {
                return Err(LaneFault::new(
                    FaultKind::InvalidPc,
                    mask,
                    "execution ran past the end of the code",
                ));
            };
            let m = match i.guard {
                ALWAYS => mask,
                guard if guard & NEGATED != 0 => mask & !self.get_pred(guard & !NEGATED),
                guard => mask & self.get_pred(guard),
            };
            if NOTED
                && matches!(i.kind, Kind::Lanes(_) | Kind::Memory(_))
                && let Some(attendance) = &mut self.attendance
            {
                attendance.executed(pc, m);
            }
            match i.kind {
                Kind::Lanes(run) => {
                    if m != 0 {
                        // SAFETY: `pick` chose a version that this CPU can run.
                        unsafe { run(self, i, m) };
                    }
                    pc += 1;
                }
                Kind::Memory(run) => {
                    if m != 0 {
                        // SAFETY: `memory_fn` chose a version that this CPU can run.
                        let outcome = unsafe { run(self, env, i, m) };
                        if outcome.is_err() {
                            self.fragments[self.current].pc = pc;
                        }
                        outcome?;
                    }
                    pc += 1;
                }
                Kind::Converged(run) if m == self.live => {
                    // SAFETY: `memory_fn` chose a version that this CPU can run.
                    let outcome = unsafe { run(self, env, i, m) };
                    if outcome.is_err() {
                        self.fragments[self.current].pc = pc;
                    }
                    outcome?;
                    pc += 1;
                }
                Kind::Jump if m == mask => pc = i.imm as u32,
                Kind::Nop => pc += 1,
                _ if m == 0 => pc += 1,
                _ => {
                    self.fragments[self.current].pc = pc;
                    return self.control(env, common, i, m);
                }
            }
        }
        self.fragments[self.current].pc = pc;
        Ok(())
    }

    /// Executes an instruction that changes fragments. The current fragment is at `i`, which the
    /// lanes `m` of it execute.
    fn control(
        &mut self,
        env: &Env<'_>,
        common: &mut Common,
        i: &Ins,
        m: u32,
    ) -> Result<(), LaneFault> {
        match i.kind {
            Kind::Jump => {
                let part = self.split(m).unwrap_or(self.current);
                if part != self.current {
                    self.fragments[self.current].pc += 1;
                }
                self.fragments[part].pc = i.imm as u32;
                Ok(())
            }
            Kind::JumpTable => self.jump_table(env, i, m),
            Kind::Call => self.call(env, i, m),
            Kind::Ret => self.ret(env, common, m),
            Kind::Exit => {
                self.exit(common, m);
                Ok(())
            }
            Kind::Barrier(op) => self.barrier(env, common, i, op, m),
            Kind::ClusterArrive => {
                common.meeting.arrive(self.in_cluster, m);
                self.fragments[self.current].pc += 1;
                Ok(())
            }
            Kind::ClusterWait => {
                let part = self.split(m).unwrap_or(self.current);
                if part != self.current {
                    self.fragments[self.current].pc += 1;
                }
                self.fragments[part].pc += 1;
                self.fragments[part].wait = Wait::Cluster;
                Ok(())
            }
            Kind::Pause => {
                self.fragments[self.current].pc += 1;
                self.paused = true;
                Ok(())
            }
            Kind::Sync(_) => {
                let part = self.split(m).unwrap_or(self.current);
                if part != self.current {
                    self.fragments[self.current].pc += 1;
                }
                self.fragments[part].wait = Wait::Sync;
                self.try_sync(&env.program.code, part);
                Ok(())
            }
            Kind::Converged(_) => {
                let part = self.split(m).unwrap_or(self.current);
                if part != self.current {
                    self.fragments[self.current].pc += 1;
                }
                self.fragments[part].wait = Wait::Convergence;
                self.gathered(part);
                Ok(())
            }
            Kind::Trap => Err(LaneFault::new(FaultKind::LaunchFailed, m, "trap")),
            Kind::Unsupported => {
                let message = env.program.messages.get(i.imm as usize);
                let message = message.cloned().unwrap_or_default();
                Err(LaneFault::new(FaultKind::IllegalInstruction, m, message))
            }
            Kind::Lanes(_) | Kind::Memory(_) | Kind::Nop => Ok(()),
        }
    }

    fn jump_table(&mut self, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let table = env.program.tables.get(i.imm as usize);
        let table = table.map_or(&[][..], Vec::as_slice);
        let index = self.get32(i.a);
        let lane = m.trailing_zeros() as usize;
        let Some(&target) = table.get(index[lane] as usize) else {
            let message = format!(
                "`brx.idx` has index {}, but its table has {} targets",
                index[lane],
                table.len()
            );
            return Err(LaneFault::new(FaultKind::InvalidPc, m, message));
        };
        let same = bits(m).fold(0, |same, other| {
            same | u32::from(index[other] == index[lane]) << other
        });
        let rest = self.fragments[self.current].mask & !m;
        if let Some(others) = self.split(same) {
            // `others` is the fragment of the lanes that jump. Lanes with another index stay at
            // this instruction; lanes that do not execute it continue.
            self.fragments[others].pc = target;
            if rest != 0
                && let Some(rest) = self.split(rest).or(Some(self.current))
            {
                self.fragments[rest].pc += 1;
            }
        } else {
            self.fragments[self.current].pc = target;
        }
        Ok(())
    }

    /// Continues with the lanes `same` of `all`, the lanes that execute an instruction. The other
    /// lanes of `all` return to the instruction; lanes that do not execute it continue.
    fn part(&mut self, same: u32, all: u32) {
        if same == all {
            return;
        }
        let idle = self.fragments[self.current].mask & !all;
        if idle != 0
            && let Some(part) = self.split(idle)
        {
            self.fragments[part].pc += 1;
        }
        if let Some(part) = self.split(same) {
            self.current = part;
        }
    }

    fn call(&mut self, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let program = env.program;
        let site = &program.sites[i.imm as usize];
        let mut m = m;
        let function = match site.callee {
            Callee::Function(function) => function,
            Callee::Builtin(which) => {
                builtin::call(self, env, which, site, m)?;
                self.fragments[self.current].pc += 1;
                return Ok(());
            }
            Callee::Undefined(message) => {
                let message = program.messages[message as usize].clone();
                return Err(LaneFault::new(FaultKind::IllegalInstruction, m, message));
            }
            Callee::Indirect(slot) => {
                let target = self.get64(slot);
                let first = target[m.trailing_zeros() as usize];
                let all = m;
                m = bits(m).fold(0, |same, lane| {
                    same | u32::from(target[lane] == first) << lane
                });
                let function = first.wrapping_sub(FUNCTION) as usize;
                let known = program.functions.get(function);
                let is_kernel = program.entries.contains(&function);
                if is_kernel || known.is_none_or(|function| function.entry.is_none()) {
                    let message = format!("call of {first:#x}, which is not a function");
                    return Err(LaneFault::new(FaultKind::InvalidPc, m, message));
                }
                self.part(m, all);
                function
            }
        };
        let callee = &program.functions[function];
        let Some(entry) = callee.entry else {
            let message = format!("`{}` is declared but not defined", callee.name);
            return Err(LaneFault::new(FaultKind::InvalidPc, m, message));
        };
        let caller_code = &program.functions[self.base.function as usize];
        let caller = self.base;
        let base = Base {
            r32: caller.r32 + caller_code.r32,
            r64: caller.r64 + caller_code.r64,
            preds: caller.preds + caller_code.preds,
            local: (caller.local + caller_code.frame).next_multiple_of(callee.local_align.max(16)),
            function: function as u32,
        };
        let depth = self.fragments[self.current].frames.len();
        let words = words(base.r32, base.r64, base.preds).saturating_add(callee.words());
        let is_deep = depth >= MAX_DEPTH || words > MAX_WORDS;
        if base.local + callee.frame > self.stride || is_deep {
            let message = format!(
                "the call of `{}` exceeds {} bytes of stack, {MAX_DEPTH} frames or {MAX_WORDS} registers",
                callee.name, self.stride
            );
            return Err(LaneFault::new(FaultKind::HardwareStack, m, message));
        }
        if let Some(part) = self.split(m) {
            self.fragments[self.current].pc += 1;
            self.current = part;
        }
        self.base = base;
        self.reserve(callee);
        if let Some(watch) = &self.watch {
            watch.forget_local(self.index, m, base.local, callee.frame);
        }
        self.pass((caller, &site.args), (base, &callee.params), m);
        let fragment = &mut self.fragments[self.current];
        fragment.frames.push(Frame {
            base: caller,
            pc: fragment.pc + 1,
            site: i.imm as u32,
        });
        fragment.base = base;
        fragment.pc = entry;
        Ok(())
    }

    fn ret(&mut self, env: &Env<'_>, common: &mut Common, m: u32) -> Result<(), LaneFault> {
        if self.fragments[self.current].frames.is_empty() {
            self.exit(common, m);
            return Ok(());
        }
        if let Some(part) = self.split(m) {
            self.fragments[self.current].pc += 1;
            self.current = part;
        }
        let fragment = &mut self.fragments[self.current];
        let Some(frame) = fragment.frames.pop() else {
            return Ok(());
        };
        fragment.pc = frame.pc;
        fragment.base = frame.base;
        let callee = self.base;
        let returns = &env.program.functions[callee.function as usize].returns;
        let site = &env.program.sites[frame.site as usize];
        self.pass((callee, returns), (frame.base, &site.returns), m);
        self.base = frame.base;
        Ok(())
    }

    fn exit(&mut self, common: &mut Common, m: u32) {
        self.live &= !m;
        let fragment = &mut self.fragments[self.current];
        fragment.mask &= !m;
        fragment.pc += 1;
        common.exited(self.index, self.in_cluster, self.live);
        if self.live == 0 {
            self.fragments.clear();
        }
    }

    fn barrier(
        &mut self,
        env: &Env<'_>,
        common: &mut Common,
        i: &Ins,
        op: BarrierOp,
        m: u32,
    ) -> Result<(), LaneFault> {
        let lane = m.trailing_zeros() as usize;
        let ids = self.get32(i.a);
        let counts = op.counted.then(|| self.get32(i.b));
        let id = ids[lane];
        let expected = counts.map(|counts| counts[lane]);
        let same =
            |&other: &usize| ids[other] == id && counts.map(|counts| counts[other]) == expected;
        let all = m;
        let m = bits(all).filter(same).fold(0, |m, lane| m | 1 << lane);
        self.part(m, all);
        if id > 15 {
            let message = format!("barrier {id} does not exist");
            return Err(LaneFault::new(FaultKind::LaunchFailed, m, message));
        }
        let reduces = !matches!(op.action, BarrierAction::Sync | BarrierAction::Arrive);
        let mut predicate = 0;
        let phase = common.phase(id);
        if reduces {
            predicate = self.get_pred(i.c);
            if op.negated {
                predicate = !predicate;
            }
        }
        let pc = self.fragments[self.current].pc;
        if let Some(attendance) = &mut self.attendance
            && let Some(other) = attendance.arrive((id, phase), (pc, m), op)
        {
            divergent(self, env, id, (pc, m), other);
        }
        let part = self.split(m);
        let waiting = part.unwrap_or(self.current);
        if part.is_some() {
            self.fragments[self.current].pc += 1;
        }
        let complete = common.arrive(id, self.index, m, expected, predicate);
        if op.action == BarrierAction::Arrive || (complete && !reduces) {
            self.fragments[waiting].pc += 1;
            return Ok(());
        }
        if complete {
            let value = common.result(id, phase, op.action);
            self.barrier_result(i, op, m, value);
            self.fragments[waiting].pc += 1;
            return Ok(());
        }
        let fragment = &mut self.fragments[waiting];
        if reduces {
            fragment.wait = Wait::Reduction { id, phase };
        } else {
            fragment.wait = Wait::Barrier { id, phase };
            fragment.pc += 1;
        }
        Ok(())
    }

    /// Writes the result of a reduction to the fragments that waited for it.
    fn finish_reductions(&mut self, code: &[Ins], common: &Common) {
        for index in 0..self.fragments.len() {
            let fragment = &mut self.fragments[index];
            let Wait::Reduction { id, phase } = fragment.wait else {
                continue;
            };
            if common.phase(id) == phase {
                continue;
            }
            let i = code[fragment.pc as usize];
            fragment.wait = Wait::Ready;
            fragment.pc += 1;
            let mask = fragment.mask;
            self.base = fragment.base;
            if let Kind::Barrier(op) = i.kind {
                let value = common.result(id, phase, op.action);
                self.barrier_result(&i, op, mask, value);
            }
        }
    }

    fn barrier_result(&mut self, i: &Ins, op: BarrierOp, m: u32, value: u32) {
        match op.action {
            BarrierAction::Popc => self.put32(i.d, m, &[value; 32]),
            BarrierAction::And | BarrierAction::Or => {
                self.put_pred(i.d, m, value.wrapping_neg());
            }
            BarrierAction::Sync | BarrierAction::Arrive => {}
        }
    }
}
