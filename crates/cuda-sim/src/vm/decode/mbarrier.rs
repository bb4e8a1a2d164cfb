//! Instructions on barriers in shared memory: `mbarrier`.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::memory::take_order;
use super::{Decoded, unsupported};
use crate::vm::address::SHARED;
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::{lanes, memory_fn};
use crate::vm::mbarrier::{Op, Operate, pending};
use cuda_ptx::Operand;

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn mbarrier(&mut self, form: &mut Form<'a>) -> Decoded {
        let names = [
            "init",
            "inval",
            "expect_tx",
            "complete_tx",
            "arrive",
            "arrive_drop",
            "test_wait",
            "try_wait",
            "pending_count",
        ];
        let Some(name) = form.one_of(&names) else {
            return unsupported("this operation");
        };
        if !form.flag("b64") {
            return unsupported("this type");
        }
        if name == "pending_count" {
            let kind = lanes!(self.wide(), |a: u64| -> u32 { pending(a) });
            return self.emit_plain(form, kind, Ty::U32, &[Ty::B64]);
        }
        let order = take_order(form);
        let tag = match form.one_of(&["shared", "shared::cta", "shared::cluster"]) {
            Some(_) => SHARED,
            None => 0,
        };
        if order.release {
            self.fence();
        }
        match name {
            "init" => {
                form.arity(2)?;
                let count = self.source(&form.operands[1], Ty::U32)?;
                self.operate(Op::Init, &form.operands[0], tag, (count, None))
            }
            "inval" => {
                form.arity(1)?;
                let none = self.const32(0);
                self.operate(Op::Inval, &form.operands[0], tag, (none, None))
            }
            "expect_tx" | "complete_tx" => {
                form.arity(2)?;
                let op = match name {
                    "expect_tx" => Op::ExpectTx,
                    _ => Op::CompleteTx,
                };
                let none = self.const32(0);
                let bytes = self.source(&form.operands[1], Ty::U32)?;
                self.operate(op, &form.operands[0], tag, (none, Some(bytes)))
            }
            "arrive" | "arrive_drop" => self.barrier_arrive(form, name == "arrive_drop", tag),
            _ => self.barrier_test(form, name == "try_wait", tag),
        }
    }

    /// Decodes an operation without a result. The last parameter holds the count, and the number of
    /// bytes if there is one.
    pub(super) fn operate(
        &mut self,
        op: Op,
        address: &Operand<'a>,
        tag: u64,
        (count, bytes): (Slot, Option<Slot>),
    ) -> Decoded {
        let a = self.whole_address(address, tag)?;
        let none = self.const32(0);
        let d = self.temp64();
        let kind = Kind::Memory(memory_fn::<Operate>(self.wide()));
        self.emit(kind, d, a, count, 0, op.number());
        self.last_source(bytes.unwrap_or(none));
        Ok(())
    }

    fn barrier_arrive(&mut self, form: &mut Form<'a>, drops: bool, tag: u64) -> Decoded {
        let expects = form.flag("expect_tx");
        let op = match (drops, form.flag("noComplete")) {
            (false, false) => Op::Arrive,
            (true, false) => Op::ArriveDrop,
            (false, true) => Op::ArriveNoComplete,
            (true, true) => Op::ArriveDropNoComplete,
        };
        let (state, rest) = match form.operands {
            // An arrival at a barrier of another block returns no state.
            [Operand::Address(..), ..] => (None, form.operands),
            [state, rest @ ..] => (Some(state), rest),
            [] => return unsupported("these operands"),
        };
        let (address, number) = match rest {
            [address] => (address, None),
            [address, number] => (address, Some(number)),
            _ => return unsupported("these operands"),
        };
        let mut count = self.const32(1);
        let mut bytes = self.const32(0);
        if let Some(number) = number {
            let slot = self.source(number, Ty::U32)?;
            *if expects { &mut bytes } else { &mut count } = slot;
        } else if expects {
            return unsupported("without a byte count");
        }
        let a = self.whole_address(address, tag)?;
        let (d, widen) = match state {
            Some(state) => self.dest(state, Ty::B64)?,
            None => (self.temp64(), None),
        };
        let kind = Kind::Memory(memory_fn::<Operate>(self.wide()));
        self.emit(kind, d, a, count, 0, op.number());
        self.last_source(bytes);
        self.finish(widen);
        Ok(())
    }

    fn barrier_test(&mut self, form: &mut Form<'a>, tries: bool, tag: u64) -> Decoded {
        let by_parity = form.flag("parity");
        let (passed, address, which) = match form.operands {
            [passed, address, which] => (passed, address, which),
            // The time limit of the wait is only a hint.
            [passed, address, which, _] if tries => (passed, address, which),
            _ => return unsupported("these operands"),
        };
        let a = self.whole_address(address, tag)?;
        let none = self.const32(0);
        let (op, b, e) = if by_parity {
            let parity = self.source(which, Ty::new(Class::Unsigned, 32))?;
            (Op::TestParity, none, parity)
        } else {
            (Op::TestState, self.source(which, Ty::B64)?, none)
        };
        let (d, _) = self.dest(passed, Ty::PRED)?;
        let kind = Kind::Memory(memory_fn::<Operate>(self.wide()));
        self.emit(kind, d, a, b, 0, op.number());
        self.last_source(e);
        if tries {
            self.emit(Kind::Pause, 0, 0, 0, 0, 0);
        }
        self.fence();
        Ok(())
    }
}
