//! The registers and the shared memory that asynchronous products (`wgmma`) use.
//!
//! From its start until `wgmma.wait_group`, a product may write its sums and read its factors at
//! any time. Moves of registers are not reported, because compilers add them and the assembler
//! removes them: the destination counts as another name of the source.

use std::collections::{BTreeSet, VecDeque};

use super::{ObservedAccess, Observer};
use crate::report::{Report, ReportKind};
use crate::vm::code::{Ins, Slot};
use crate::vm::lane_fault::LaneFault;
use crate::vm::lanes::MemoryOp;
use crate::vm::matrix::CHUNK;
use crate::vm::space::Env;
use crate::vm::warp::Warp;

/// The most products of a warp that are tracked at once. More are only possible without waits.
const TRACKED: usize = 64;

/// The products of a warp that have started and not been waited for.
#[derive(Debug, Default)]
pub(in crate::vm) struct Groups {
    open: Vec<Started>,
    /// Committed groups, oldest first.
    committed: VecDeque<Vec<Started>>,
    /// Registers that were written since the last fence.
    unfenced: BTreeSet<Slot>,
}

/// A product that has started. Registers are numbered from the first of the warp.
#[derive(Debug)]
pub(in crate::vm) struct Started {
    pub(in crate::vm) pc: u32,
    /// The registers of the sums.
    pub(in crate::vm) sums: Vec<Slot>,
    /// The registers of A.
    pub(in crate::vm) factors: Vec<Slot>,
    /// The generic addresses of the chunks of shared memory that it reads.
    pub(in crate::vm) chunks: Vec<u64>,
    /// Registers that the sums were moved to.
    pub(in crate::vm) copies: BTreeSet<Slot>,
}

impl Groups {
    fn all(&self) -> impl Iterator<Item = &Started> {
        self.committed.iter().flatten().chain(&self.open)
    }

    /// Records a product. Returns whether one of its registers was written after the last fence.
    pub(in crate::vm) fn start(&mut self, product: Started) -> bool {
        let mut registers = product.sums.iter().chain(&product.factors);
        let is_unfenced = registers.any(|slot| self.unfenced.contains(slot));
        if self.all().count() < TRACKED {
            self.open.push(product);
        }
        is_unfenced
    }

    /// Ends all groups but the newest `pending`, and returns their products.
    fn wait(&mut self, pending: usize) -> Vec<Started> {
        let ended = self.committed.len().saturating_sub(pending);
        self.committed.drain(..ended).flatten().collect()
    }

    /// The product that may still write a register.
    fn writer(&self, slot: Slot) -> Option<u32> {
        let mut all = self.all();
        let writer = all.find(|it| it.sums.contains(&slot) || it.copies.contains(&slot));
        writer.map(|it| it.pc)
    }

    /// The product that may still use a register, if its value changes; not for a copy of a sum.
    fn user(&self, slot: Slot) -> Option<u32> {
        let mut all = self.all();
        let user = all.find(|it| it.sums.contains(&slot) || it.factors.contains(&slot));
        user.map(|it| it.pc)
    }

    fn moved(&mut self, to: Slot, from: Slot) {
        let is_unfenced = self.unfenced.contains(&from);
        if is_unfenced {
            self.unfenced.insert(to);
        }
        for product in self.committed.iter_mut().flatten().chain(&mut self.open) {
            if product.sums.contains(&from) || product.copies.contains(&from) {
                product.copies.insert(to);
            } else {
                product.copies.remove(&to);
            }
        }
    }

    fn wrote(&mut self, slot: Slot) {
        self.unfenced.insert(slot);
        for product in self.committed.iter_mut().flatten().chain(&mut self.open) {
            product.copies.remove(&slot);
        }
    }
}

/// Adds the finding that an instruction at `pc` uses a register at the wrong time.
pub(in crate::vm) fn misused(
    w: &Warp,
    env: &Env<'_>,
    (pc, other): (u32, Option<u32>),
    message: &str,
) {
    let Env {
        program, kernel, ..
    } = *env;
    let thread = [0, 1, 2].map(|axis| w.tid[axis][0]);
    let kind = ReportKind::AsyncRegister;
    env.findings
        .add(kind, (pc, other.unwrap_or(u32::MAX)), || Report {
            kind,
            device: 0,
            status: None,
            kernel: program.kernels[kernel].name.clone(),
            at: program.place(kernel, pc, w.ctaid, thread),
            other: other.map(|pc| program.place(kernel, pc, w.ctaid, thread)),
            access: None,
            missing: Vec::new(),
            times: 1,
            message: message.to_owned(),
        });
}

/// The number of an instruction of the code of `env`.
pub(in crate::vm) fn number_of(env: &Env<'_>, i: &Ins) -> u32 {
    let code = env.program.code.as_ptr().addr();
    let bytes = std::ptr::from_ref(i).addr().wrapping_sub(code);
    (bytes / size_of::<Ins>()) as u32
}

/// Comes before an instruction that reads the registers of list `imm & 0xffff_ffff` and writes
/// those of list `imm >> 32`.
pub(in crate::vm) struct UseRegisters;

impl MemoryOp for UseRegisters {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, _m: u32) -> Result<(), LaneFault> {
        let Some(mut groups) = w.groups.take() else {
            return Ok(());
        };
        let list = |number: u64| env.program.lists.get(number as usize).into_iter().flatten();
        let pc = number_of(env, i);
        let base = w.base.r32;
        for slot in list(i.imm & 0xffff_ffff) {
            if let Some(writer) = groups.writer(base + slot) {
                let message = "reads a register of the sum of a `wgmma` that may not have written it yet; wait \
                               with `wgmma.wait_group`";
                misused(w, env, (pc, Some(writer)), message);
            }
        }
        for slot in list(i.imm >> 32) {
            if let Some(user) = groups.user(base + slot) {
                let message =
                    "writes a register that a `wgmma` may still use; wait with `wgmma.wait_group`";
                misused(w, env, (pc, Some(user)), message);
            }
            groups.wrote(base + slot);
        }
        w.groups = Some(groups);
        Ok(())
    }
}

/// Comes before a move of register `b` to `a`.
pub(in crate::vm) struct MoveRegister;

impl MemoryOp for MoveRegister {
    fn run(w: &mut Warp, _env: &Env<'_>, i: &Ins, _m: u32) -> Result<(), LaneFault> {
        let base = w.base.r32;
        if let Some(groups) = &mut w.groups {
            groups.moved(base + i.a, base + i.b);
        }
        Ok(())
    }
}

/// `wgmma.fence` (`imm` is 0), `wgmma.commit_group` (1), `wgmma.wait_group n` (2 + n).
pub(in crate::vm) struct GroupEvent;

impl MemoryOp for GroupEvent {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, _m: u32) -> Result<(), LaneFault> {
        let Some(groups) = &mut w.groups else {
            return Ok(());
        };
        match i.imm {
            0 => groups.unfenced.clear(),
            1 => {
                let open = std::mem::take(&mut groups.open);
                groups.committed.push_back(open);
                if groups.committed.len() > TRACKED {
                    groups.committed.pop_front();
                }
            }
            pending => {
                let ended = groups.wait(pending as usize - 2);
                for product in ended {
                    // Until now it may have read shared memory, so writes by other threads since
                    // its start race with it.
                    let i = &env.program.code[product.pc as usize];
                    let Some(mut observer) = Observer::new(w, env, i) else {
                        continue;
                    };
                    for at in product.chunks {
                        observer.read(ObservedAccess::new(0, at, CHUNK));
                    }
                }
            }
        }
        Ok(())
    }
}
