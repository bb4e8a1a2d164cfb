//! Branches, calls, barriers and warp-level operations.

use super::form::{Class, Form, Ty};
use super::function::{FunctionDecoder, Name, Patch, Width};
use super::operand::Sym;
use super::{Decoded, invalid, missing};
use crate::vm::builtin;
use crate::vm::code::{BarrierAction, BarrierOp, CallSite, Callee, Kind, Place, Slot};
use crate::vm::lanes::lanes;
use crate::vm::sync::{NOWHERE, Reduce, Shuffle, SyncOp, Vote};
use cuda_ptx::{Literal, Operand};

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn control(&mut self, form: &mut Form<'a>) -> Decoded {
        match form.opcode {
            "bra" => {
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
            "brx" => self.branch_table(form),
            "call" => self.call(form),
            "ret" => {
                form.flag("uni");
                self.emit(Kind::Ret, 0, 0, 0, 0, 0);
                Ok(())
            }
            "exit" => {
                self.emit(Kind::Exit, 0, 0, 0, 0, 0);
                Ok(())
            }
            "trap" | "brkpt" => {
                self.emit(Kind::Trap, 0, 0, 0, 0, 0);
                Ok(())
            }
            "bar" | "barrier" => self.barrier(form),
            "membar" | "fence" => {
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
            "nanosleep" => {
                form.ty()?;
                let kind = lanes!(self.wide(), with _w, _i, _m { std::thread::yield_now(); });
                self.emit(kind, 0, 0, 0, 0, 0);
                self.emit(Kind::Pause, 0, 0, 0, 0, 0);
                Ok(())
            }
            // These have no effect: a kernel starts only after earlier kernels have ended, and has
            // as many registers as it needs.
            "pmevent" | "setmaxnreg" | "griddepcontrol" => {
                let names: &[&'static str] = match form.opcode {
                    "setmaxnreg" => &["inc", "dec", "sync", "aligned", "u32"],
                    "griddepcontrol" => &["wait", "launch_dependents"],
                    _ => &["mask"],
                };
                while form.one_of(names).is_some() {}
                self.emit(Kind::Nop, 0, 0, 0, 0, 0);
                Ok(())
            }
            "activemask" => {
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
            _ => self.together(form),
        }
    }

    fn branch_table(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("uni");
        if !form.flag("idx") {
            return missing("");
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
                    Width::W128 => missing("128-bit argument"),
                },
                Name::Sym(Sym::Local(offset)) => Ok(Place::Local {
                    offset,
                    size: self.sizes.get(&offset).copied().unwrap_or(0),
                }),
                Name::Sym(_) => missing("argument form"),
            },
            Operand::Sink => Ok(Place::R64(self.temp64())),
            _ => missing("argument form"),
        }
    }

    fn places(&mut self, operand: Option<&Operand<'a>>) -> Decoded<Vec<Place>> {
        let Some(Operand::List(list)) = operand else {
            return Ok(Vec::new());
        };
        list.iter().map(|operand| self.place(operand)).collect()
    }

    fn call(&mut self, form: &mut Form<'a>) -> Decoded {
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

    fn barrier(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("cta");
        let aligned = form.flag("aligned") || form.opcode == "bar";
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
                None => return missing(""),
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
                    _ => return missing("reduction"),
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
            _ => return missing(""),
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

    #[expect(clippy::too_many_arguments, reason = "the fields of one instruction")]
    fn emit_sync(
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

    /// Decodes `vote`, `shfl`, `match`, `redux` and `elect`.
    fn together(&mut self, form: &mut Form<'a>) -> Decoded {
        if !form.flag("sync") {
            return missing("without `.sync`");
        }
        let (first, flag) = match form.operands.first() {
            Some(Operand::Pair(pair)) => (&pair.0, self.dest(&pair.1, Ty::PRED)?.0),
            Some(single) => (single, NOWHERE),
            None => return invalid("Arguments mismatch"),
        };
        if form.opcode == "elect" {
            form.arity(2)?;
            let members = self.source(&form.operands[1], Ty::U32)?;
            let (d, _) = self.dest(first, Ty::B32)?;
            self.emit_sync(SyncOp::Elect, d, 0, 0, 0, members, flag);
            return Ok(());
        }
        let ty = form.ty()?;
        match form.opcode {
            "shfl" => {
                let shuffle = match form.one_of(&["up", "down", "bfly", "idx"]) {
                    Some("up") => Shuffle::Up,
                    Some("down") => Shuffle::Down,
                    Some("bfly") => Shuffle::Bfly,
                    Some(_) => Shuffle::Idx,
                    None => return missing("no mode"),
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
            "vote" => {
                let (vote, to) = match form.one_of(&["all", "any", "uni", "ballot"]) {
                    Some("all") => (Vote::All, Ty::PRED),
                    Some("any") => (Vote::Any, Ty::PRED),
                    Some("uni") => (Vote::Uni, Ty::PRED),
                    Some(_) => (Vote::Ballot, Ty::B32),
                    None => return missing("no mode"),
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
            "match" => {
                let wide = ty.bits == 64;
                let op = match form.one_of(&["any", "all"]) {
                    Some("any") => SyncOp::MatchAny { wide },
                    Some(_) => SyncOp::MatchAll { wide },
                    None => return missing("no mode"),
                };
                form.arity(3)?;
                let a = self.source(&form.operands[1], ty)?;
                let members = self.source(&form.operands[2], Ty::B32)?;
                let (d, widen) = self.dest(first, Ty::B32)?;
                self.emit_sync(op, d, a, 0, 0, members, flag);
                self.finish(widen);
                Ok(())
            }
            _ => {
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
                    _ => return missing("reduction"),
                };
                if ty.bits != 32 {
                    return missing("type");
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
    }
}
