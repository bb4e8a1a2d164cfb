//! `cp.async` and its bulk forms, `cp.reduce.async.bulk`, `st.bulk`.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, unsupported};
use crate::vm::address::SHARED;
use crate::vm::atomic;
use crate::vm::bulk::{ClearBulk, CopyAsync, CopyBulk, ReduceBulk};
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::{lanes, memory_fn};
use crate::vm::mbarrier::Op;
use crate::vm::sync::NOWHERE;
use crate::vm::vector::each;
use cuda_ptx::Operand;

const SPACES: [&str; 4] = ["global", "shared", "shared::cta", "shared::cluster"];

/// The way in which waiting threads learn that a bulk copy is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Barrier,
    Group,
}

impl Completion {
    pub(super) fn take(form: &mut Form<'_>) -> Decoded<Self> {
        match form.one_of(&["mbarrier::complete_tx::bytes", "bulk_group"]) {
            Some("bulk_group") => Ok(Self::Group),
            Some(_) => Ok(Self::Barrier),
            None => unsupported("this completion mechanism"),
        }
    }
}

/// The operands without the cache policy, which has no effect here.
pub(super) fn without_policy<'a>(form: &mut Form<'a>) -> &'a [Operand<'a>] {
    let has_policy = form.flag("L2::cache_hint");
    match form.operands {
        [rest @ .., _] if has_policy => rest,
        all => all,
    }
}

fn tag_of(space: &str) -> u64 {
    if space == "global" { 0 } else { SHARED }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `cp`.
    pub(super) fn copy(&mut self, form: &mut Form<'a>) -> Decoded {
        let reduces = form.flag("reduce");
        if !form.flag("async") {
            return unsupported("");
        }
        if form.flag("bulk") {
            if form.flag("tensor") {
                return self.tensor(form, reduces);
            }
            return self.bulk(form, reduces);
        }
        if reduces {
            return unsupported("");
        }
        match form.one_of(&[
            "commit_group",
            "wait_group",
            "wait_all",
            "mbarrier",
            "ca",
            "cg",
        ]) {
            Some("commit_group" | "wait_group" | "wait_all") => Ok(()),
            Some("mbarrier") => {
                if !form.flag("arrive") || !form.flag("b64") {
                    return unsupported("");
                }
                // Without `.noinc`, the instruction expects one more arrival and then makes it, so
                // nothing changes.
                let op = if form.flag("noinc") {
                    Op::Arrive
                } else {
                    Op::Check
                };
                let tag = match form.one_of(&SPACES[1..3]) {
                    Some(_) => SHARED,
                    None => 0,
                };
                form.arity(1)?;
                let one = self.const32(1);
                self.operate(op, &form.operands[0], tag, (one, None))
            }
            Some(_) => self.copy_async(form),
            None => unsupported(""),
        }
    }

    fn copy_async(&mut self, form: &mut Form<'a>) -> Decoded {
        if form.one_of(&SPACES[1..3]).is_none() || !form.flag("global") {
            return unsupported("these state spaces");
        }
        let operands = without_policy(form);
        form.one_of(&["L2::64B", "L2::128B", "L2::256B"]);
        let (to, from, size, rest) = match operands {
            [to, from, Operand::Literal(size), rest @ ..] => (to, from, *size, rest),
            _ => return unsupported("these operands"),
        };
        let size = Self::literal(size, Ty::U32);
        if !matches!(size, 4 | 8 | 16) {
            return unsupported("this size");
        }
        let len = match rest {
            [] => self.const32(size as u32),
            [operand] => match self.predicate_of(operand) {
                // Nothing is read where the predicate is true.
                Some(ignored) => {
                    let len = self.temp32();
                    let kind = lanes!(self.wide(), with w, i, m {
                        let ignored = w.get_pred(i.a);
                        let value = each(|lane| if ignored >> lane & 1 != 0 { 0 } else { i.imm as u32 });
                        w.put32(i.d, m, &value);
                    });
                    self.emit(kind, len, ignored, 0, 0, size);
                    len
                }
                None => self.source(operand, Ty::U32)?,
            },
            _ => return unsupported("these operands"),
        };
        let a = self.whole_address(to, SHARED)?;
        let b = self.whole_address(from, 0)?;
        let kind = Kind::Memory(memory_fn::<CopyAsync>(self.wide()));
        self.emit(kind, 0, a, b, 0, size);
        self.last_source(len);
        Ok(())
    }

    /// The operand as a predicate, if it is one.
    fn predicate_of(&mut self, operand: &Operand<'a>) -> Option<Slot> {
        match operand {
            Operand::Name(_) | Operand::Not(_) => self.predicate(operand).ok(),
            _ => None,
        }
    }

    fn bulk(&mut self, form: &mut Form<'a>, reduces: bool) -> Decoded {
        match form.one_of(&["commit_group", "wait_group", "prefetch"]) {
            Some("prefetch") => {
                form.flag("L2");
                form.flag("global");
                let operands = without_policy(form);
                if operands.len() != 2 {
                    return unsupported("these operands");
                }
                return Ok(());
            }
            Some(_) => {
                form.flag("read");
                return Ok(());
            }
            None => {}
        }
        let (Some(to), Some(from)) = (form.one_of(&SPACES), form.one_of(&SPACES)) else {
            return unsupported("these state spaces");
        };
        let completion = Completion::take(form)?;
        let expected = match to {
            "global" => Completion::Group,
            _ => Completion::Barrier,
        };
        let known = matches!(
            (to, from),
            ("global", "shared" | "shared::cta")
                | ("shared" | "shared::cta" | "shared::cluster", "global")
                | ("shared::cluster", "shared::cta")
        );
        if completion != expected || !known {
            return unsupported("these state spaces");
        }
        let is_multicast = form.flag("multicast::cluster");
        let operands = without_policy(form);
        let [target, source, size, rest @ ..] = operands else {
            return unsupported("these operands");
        };
        let (barrier, mask) = match (completion, is_multicast, rest) {
            (Completion::Group, false, []) => (None, None),
            (Completion::Barrier, false, [barrier]) => (Some(barrier), None),
            (Completion::Barrier, true, [barrier, mask]) => (Some(barrier), Some(mask)),
            _ => return unsupported("these operands"),
        };
        let kind = if reduces {
            Some(self.reduction(form)?)
        } else {
            None
        };
        form.done()?;
        let a = self.whole_address(target, tag_of(to))?;
        let b = self.whole_address(source, tag_of(from))?;
        let c = self.source(size, Ty::U32)?;
        let e = match barrier {
            Some(barrier) => self.whole_address(barrier, SHARED)?,
            None => NOWHERE,
        };
        let d = match mask {
            Some(mask) => self.source(mask, Ty::new(Class::Bits, 16))?,
            None => NOWHERE,
        };
        let (kind, number) = match kind {
            Some((kind, op)) => (kind, op as u64),
            None => (Kind::Memory(memory_fn::<CopyBulk>(self.wide())), 0),
        };
        self.emit(kind, d, a, b, c, number);
        self.last_source(e);
        Ok(())
    }

    /// The element operation of a bulk reduction.
    fn reduction(&mut self, form: &mut Form<'a>) -> Decoded<(Kind, atomic::Op)> {
        let (op, bits) = reduction_of(form)?;
        let wide = self.wide();
        let kind = Kind::Memory(match bits {
            16 => memory_fn::<ReduceBulk<u16>>(wide),
            32 => memory_fn::<ReduceBulk<u32>>(wide),
            _ => memory_fn::<ReduceBulk<u64>>(wide),
        });
        Ok((kind, op))
    }

    /// Decodes `st.bulk`.
    pub(super) fn clear_bulk(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("weak");
        let tag = match form.one_of(&SPACES[1..3]) {
            Some(_) => SHARED,
            None => 0,
        };
        form.arity(3)?;
        let a = self.whole_address(&form.operands[0], tag)?;
        let b = self.source(&form.operands[1], Ty::U64)?;
        let kind = Kind::Memory(memory_fn::<ClearBulk>(self.wide()));
        self.emit(kind, 0, a, b, 0, 0);
        Ok(())
    }
}

/// The operation of a bulk reduction and the size of its elements in bits.
fn reduction_of(form: &mut Form<'_>) -> Decoded<(atomic::Op, u32)> {
    let ty = form.ty()?;
    form.flag("noftz");
    let names = ["add", "min", "max", "and", "or", "xor", "inc", "dec"];
    let Some(name) = form.one_of(&names) else {
        return unsupported("this operation");
    };
    match atomic::Op::parse(name, ty.class, ty.bits, ty.packed) {
        Some(op) => Ok((op, ty.width())),
        None => unsupported("this operation on this type"),
    }
}
