//! Operations in which the lanes of a warp exchange values: votes, shuffles, matches, reductions.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, invalid, unsupported};
use crate::vm::code::{Kind, Slot};
use crate::vm::sync::{NOWHERE, Reduce, Shuffle, SyncOp, Vote};
use cuda_ptx::Operand;

impl<'a> FunctionDecoder<'a, '_> {
    #[expect(clippy::too_many_arguments, reason = "the fields of one instruction")]
    pub(super) fn emit_sync(
        &mut self,
        op: SyncOp,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        members: Slot,
        flag: Slot,
    ) {
        let imm = u64::from(members) | u64::from(flag) << 32;
        self.emit(Kind::Sync(op), d, a, b, c, imm);
    }

    /// Takes `.sync`. Returns the first destination, and the slot of the predicate that is the
    /// second one, or [`NOWHERE`].
    fn converged(&mut self, form: &mut Form<'a>) -> Decoded<(&'a Operand<'a>, Slot)> {
        if !form.flag("sync") {
            return unsupported("without `.sync`");
        }
        match form.operands.first() {
            Some(Operand::Pair(pair)) => Ok((&pair.0, self.dest(&pair.1, Ty::PRED)?.0)),
            Some(single) => Ok((single, NOWHERE)),
            None => invalid("Arguments mismatch"),
        }
    }

    pub(super) fn elect(&mut self, form: &mut Form<'a>) -> Decoded {
        let (first, flag) = self.converged(form)?;
        form.arity(2)?;
        let members = self.source(&form.operands[1], Ty::U32)?;
        let (d, _) = self.dest(first, Ty::B32)?;
        self.emit_sync(SyncOp::Elect, d, 0, 0, 0, members, flag);
        Ok(())
    }

    /// Decodes `shfl`.
    pub(super) fn shuffle(&mut self, form: &mut Form<'a>) -> Decoded {
        let (first, flag) = self.converged(form)?;
        let ty = form.ty()?;
        let shuffle = match form.one_of(&["up", "down", "bfly", "idx"]) {
            Some("up") => Shuffle::Up,
            Some("down") => Shuffle::Down,
            Some("bfly") => Shuffle::Bfly,
            Some(_) => Shuffle::Idx,
            None => return unsupported("without `.up`, `.down`, `.bfly` or `.idx`"),
        };
        form.arity(5)?;
        let a = self.source(&form.operands[1], Ty::B32)?;
        let b = self.source(&form.operands[2], Ty::B32)?;
        let c = self.source(&form.operands[3], Ty::B32)?;
        let members = self.source(&form.operands[4], Ty::B32)?;
        let (d, widen) = self.dest(first, ty)?;
        self.emit_sync(SyncOp::Shuffle(shuffle), d, a, b, c, members, flag);
        self.finish(widen);
        Ok(())
    }

    pub(super) fn vote(&mut self, form: &mut Form<'a>) -> Decoded {
        let (first, flag) = self.converged(form)?;
        form.ty()?;
        let (vote, to) = match form.one_of(&["all", "any", "uni", "ballot"]) {
            Some("all") => (Vote::All, Ty::PRED),
            Some("any") => (Vote::Any, Ty::PRED),
            Some("uni") => (Vote::Uni, Ty::PRED),
            Some(_) => (Vote::Ballot, Ty::B32),
            None => return unsupported("without `.all`, `.any`, `.uni` or `.ballot`"),
        };
        form.arity(3)?;
        let (a, negated) = match &form.operands[1] {
            Operand::Not(name) => (self.predicate(&Operand::Name(name))?, true),
            other => (self.predicate(other)?, false),
        };
        let members = self.source(&form.operands[2], Ty::B32)?;
        let (d, widen) = self.dest(first, to)?;
        self.emit_sync(SyncOp::Vote { vote, negated }, d, a, 0, 0, members, flag);
        self.finish(widen);
        Ok(())
    }

    /// Decodes `match`.
    pub(super) fn match_values(&mut self, form: &mut Form<'a>) -> Decoded {
        let (first, flag) = self.converged(form)?;
        let ty = form.ty()?;
        let wide = ty.bits == 64;
        let op = match form.one_of(&["any", "all"]) {
            Some("any") => SyncOp::MatchAny { wide },
            Some(_) => SyncOp::MatchAll { wide },
            None => return unsupported("without `.any` or `.all`"),
        };
        form.arity(3)?;
        let a = self.source(&form.operands[1], ty)?;
        let members = self.source(&form.operands[2], Ty::B32)?;
        let (d, widen) = self.dest(first, Ty::B32)?;
        self.emit_sync(op, d, a, 0, 0, members, flag);
        self.finish(widen);
        Ok(())
    }

    /// Decodes `redux`.
    pub(super) fn reduce_values(&mut self, form: &mut Form<'a>) -> Decoded {
        let (first, flag) = self.converged(form)?;
        let ty = form.ty()?;
        let name = form.one_of(&["add", "min", "max", "and", "or", "xor"]);
        let reduce = match (name, ty.class) {
            (Some("add"), Class::Unsigned | Class::Signed) => Reduce::Add,
            (Some("min"), Class::Unsigned) => Reduce::MinU,
            (Some("min"), Class::Signed) => Reduce::MinS,
            (Some("max"), Class::Unsigned) => Reduce::MaxU,
            (Some("max"), Class::Signed) => Reduce::MaxS,
            (Some("and"), Class::Bits) => Reduce::And,
            (Some("or"), Class::Bits) => Reduce::Or,
            (Some("xor"), Class::Bits) => Reduce::Xor,
            (Some(name @ ("min" | "max")), Class::Float) => Reduce::Float {
                max: name == "max",
                abs: form.flag("abs"),
                nan: form.flag("NaN"),
            },
            _ => return unsupported("this reduction"),
        };
        if ty.bits != 32 {
            return unsupported("this type");
        }
        form.arity(3)?;
        let a = self.source(&form.operands[1], ty)?;
        let members = self.source(&form.operands[2], Ty::B32)?;
        let (d, widen) = self.dest(first, ty)?;
        self.emit_sync(SyncOp::Reduce(reduce), d, a, 0, 0, members, flag);
        self.finish(widen);
        Ok(())
    }
}
