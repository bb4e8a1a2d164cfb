//! Branches, calls and barriers.

use super::form::{Class, Form, Ty};
use super::function::{FunctionDecoder, Name, Patch, Width};
use super::operand::Sym;
use super::{Decoded, invalid, unsupported};
use crate::vm::barrier::BarrierAction;
use crate::vm::builtin;
use crate::vm::code::{BarrierOp, CallSite, Callee, Kind, Place};
use crate::vm::lanes::lanes;
use crate::vm::sync::{NOWHERE, SyncOp};
use crate::vm::vector::LANES;
use cuda_ptx::{Literal, Operand};

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `bra`.
    pub(super) fn branch(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("uni");
        form.arity(1)?;
        let Operand::Name(label) = form.operands[0] else {
            return invalid("Label expected for argument 0 of instruction 'bra'");
        };
        self.emit(Kind::Jump, 0, 0, 0, 0, 0);
        let at = self.out.program.code.len() - 1;
        self.refer(Patch::Jump(at), label);
        Ok(())
    }

    pub(super) fn ret(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("uni");
        self.emit(Kind::Ret, 0, 0, 0, 0, 0);
        Ok(())
    }

    pub(super) fn exit(&mut self, _: &mut Form<'a>) -> Decoded {
        self.emit(Kind::Exit, 0, 0, 0, 0, 0);
        Ok(())
    }

    /// Decodes `trap` and `brkpt`.
    pub(super) fn trap(&mut self, _: &mut Form<'a>) -> Decoded {
        self.emit(Kind::Trap, 0, 0, 0, 0, 0);
        Ok(())
    }

    /// Decodes `membar` and `fence`.
    pub(super) fn memory_fence(&mut self, form: &mut Form<'a>) -> Decoded {
        let names = [
            "gl",
            "cta",
            "sys",
            "gpu",
            "cluster",
            "sc",
            "acq_rel",
            "acquire",
            "release",
            "proxy",
            "alias",
            "async",
            "async::generic",
            "global",
            "shared::cta",
            "shared::cluster",
            "mbarrier_init",
            "sync_restrict::shared::cta",
            "sync_restrict::shared::cluster",
            "tensormap::generic",
        ];
        while form.one_of(&names).is_some() {}
        self.fence();
        Ok(())
    }

    /// The warp sleeps as long as the largest operand of its lanes says, at most a millisecond.
    pub(super) fn nanosleep(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        form.arity(1)?;
        let time = self.source(&form.operands[0], ty)?;
        let kind = lanes!(self.wide(), with w, i, m {
            let times = w.get32(i.a);
            let most = (0..LANES).filter(|lane| m >> lane & 1 != 0).map(|lane| times[lane]).max();
            w.sleep(most.unwrap_or(0));
        });
        self.emit(kind, 0, time, 0, 0, 0);
        self.emit(Kind::Pause, 0, 0, 0, 0, 0);
        Ok(())
    }

    /// Decodes an instruction that has no effect, with the modifiers `names`: a kernel starts only
    /// after earlier kernels have ended, and has as many registers as it needs.
    pub(super) fn no_effect(&mut self, form: &mut Form<'a>, names: &[&'static str]) -> Decoded {
        while form.one_of(names).is_some() {}
        self.emit(Kind::Nop, 0, 0, 0, 0, 0);
        Ok(())
    }

    pub(super) fn active_mask(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        form.arity(1)?;
        let (d, widen) = self.dest(&form.operands[0], ty)?;
        let kind = lanes!(self.wide(), with w, i, m {
            w.put32(i.d, m, &[m; 32]);
        });
        self.emit(kind, d, 0, 0, 0, 0);
        self.finish(widen);
        Ok(())
    }

    /// Decodes `brx`.
    pub(super) fn branch_table(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("uni");
        if !form.flag("idx") {
            return unsupported("");
        }
        form.arity(2)?;
        let Operand::Name(list) = form.operands[1] else {
            return invalid("Branch targets expected");
        };
        let Some(labels) = self.tables.get(list).cloned() else {
            return invalid(format!("Unknown branch targets '{list}'"));
        };
        let a = self.source(&form.operands[0], Ty::U32)?;
        let table = self.out.program.tables.len();
        self.out.program.tables.push(vec![0; labels.len()]);
        for (entry, label) in labels.into_iter().enumerate() {
            self.refer(Patch::Table(table, entry), label);
        }
        self.emit(Kind::JumpTable, 0, a, 0, 0, table as u64);
        Ok(())
    }

    fn place(&mut self, operand: &Operand<'a>) -> Decoded<Place> {
        match operand {
            Operand::Literal(literal) => {
                let bits = match *literal {
                    Literal::F32(bits) => bits.into(),
                    Literal::Int(bits) | Literal::F64(bits) => bits,
                };
                Ok(Place::R64(self.const64(bits)))
            }
            Operand::Name(name) => match self.named(name)? {
                Name::Reg(reg) => match reg.width {
                    Width::Pred => Ok(Place::Pred(reg.slot)),
                    Width::W32 => Ok(Place::R32(reg.slot)),
                    Width::W64 => Ok(Place::R64(reg.slot)),
                    Width::W128 => unsupported("a 128-bit argument"),
                },
                Name::Sym(Sym::Local(offset)) => Ok(Place::Local {
                    offset,
                    size: self.sizes.get(&offset).copied().unwrap_or(0),
                }),
                Name::Sym(_) => unsupported("this form of argument"),
            },
            Operand::Sink => Ok(Place::R64(self.temp64())),
            _ => unsupported("this form of argument"),
        }
    }

    fn places(&mut self, operand: Option<&Operand<'a>>) -> Decoded<Vec<Place>> {
        let Some(Operand::List(list)) = operand else {
            return Ok(Vec::new());
        };
        list.iter().map(|operand| self.place(operand)).collect()
    }

    pub(super) fn call(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("uni");
        let mut operands = form.operands.iter().peekable();
        let returns =
            self.places(operands.next_if(|operand| matches!(operand, Operand::List(_))))?;
        let Some(Operand::Name(name)) = operands.next() else {
            return invalid("Function expected for instruction 'call'");
        };
        let args = self.places(operands.next_if(|operand| matches!(operand, Operand::List(_))))?;
        let callee = self.callee(name)?;
        let index = self.index;
        match callee {
            Callee::Function(function) => self.out.uses[index].callees.push(function),
            Callee::Indirect(_) => self.out.uses[index].indirect = true,
            Callee::Builtin(_) | Callee::Undefined(_) => {}
        }
        if matches!(callee, Callee::Function(_) | Callee::Indirect(_)) {
            self.out.program.functions[index].calls = true;
        }
        let site = self.out.program.sites.len() as u64;
        self.out.program.sites.push(CallSite {
            callee,
            args,
            returns,
        });
        self.emit(Kind::Call, 0, 0, 0, 0, site);
        Ok(())
    }

    fn callee(&mut self, name: &'a str) -> Decoded<Callee> {
        if self.names.undefined.contains(name) {
            // A function of the CUDA device runtime that this device does not provide.
            if !builtin::is_of_the_device(name) {
                return invalid(format!("Unresolved extern function '{name}'"));
            }
            let text = format!("the software device does not provide the function `{name}`");
            return Ok(Callee::Undefined(self.message(text)));
        }
        match self.lookup(name) {
            Some(Name::Sym(Sym::Function(function))) => Ok(Callee::Function(function)),
            Some(Name::Reg(reg)) if reg.width == Width::W64 => Ok(Callee::Indirect(reg.slot)),
            Some(_) => invalid(format!("'{name}' cannot be called")),
            None => match builtin::by_name(name) {
                Some(builtin) => Ok(Callee::Builtin(builtin)),
                None => invalid(format!("Unknown symbol '{name}'")),
            },
        }
    }

    /// Decodes `bar`, whose forms are always aligned, and `barrier`.
    pub(super) fn barrier(&mut self, form: &mut Form<'a>, aligned: bool) -> Decoded {
        form.flag("cta");
        let aligned = form.flag("aligned") || aligned;
        if form.flag("warp") {
            form.flag("sync");
            form.arity(1)?;
            let members = self.source(&form.operands[0], Ty::U32)?;
            self.emit_sync(SyncOp::Barrier, 0, 0, 0, 0, members, NOWHERE);
            return Ok(());
        }
        if form.flag("cluster") {
            form.flag("aligned");
            self.fence();
            let kind = match form.one_of(&["arrive", "wait"]) {
                Some("arrive") => {
                    form.one_of(&["release", "relaxed"]);
                    Kind::ClusterArrive
                }
                Some(_) => {
                    form.flag("acquire");
                    Kind::ClusterWait
                }
                None => return unsupported(""),
            };
            self.emit(kind, 0, 0, 0, 0, 0);
            return Ok(());
        }
        let action = form.one_of(&["sync", "arrive", "red"]);
        let mut op = BarrierOp {
            counted: false,
            aligned,
            action: BarrierAction::Sync,
            negated: false,
        };
        let mut sources = form.operands;
        let mut d = 0;
        let mut c = 0;
        match action {
            Some("sync") => {}
            Some("arrive") => op.action = BarrierAction::Arrive,
            Some("red") => {
                let reduce = form.one_of(&["popc", "and", "or"]);
                let ty = form.ty()?;
                op.action = match (reduce, ty.class) {
                    (Some("popc"), Class::Unsigned) => BarrierAction::Popc,
                    (Some("and"), Class::Pred) => BarrierAction::And,
                    (Some("or"), Class::Pred) => BarrierAction::Or,
                    _ => return unsupported("this reduction"),
                };
                let [to, middle @ .., predicate] = form.operands else {
                    return invalid("Arguments mismatch for instruction 'bar'");
                };
                let to_ty = if op.action == BarrierAction::Popc {
                    Ty::U32
                } else {
                    Ty::PRED
                };
                d = self.dest(to, to_ty)?.0;
                (c, op.negated) = match predicate {
                    Operand::Not(name) => (self.predicate(&Operand::Name(name))?, true),
                    other => (self.predicate(other)?, false),
                };
                sources = middle;
            }
            _ => return unsupported(""),
        }
        let (a, b) = match sources {
            [id] => (self.source(id, Ty::U32)?, 0),
            [id, count] => {
                op.counted = true;
                (self.source(id, Ty::U32)?, self.source(count, Ty::U32)?)
            }
            _ => return invalid("Arguments mismatch for instruction 'bar'"),
        };
        self.emit(Kind::Barrier(op), d, a, b, c, 0);
        Ok(())
    }
}
