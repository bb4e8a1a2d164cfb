//! Loads, stores and transposes of 8 × 8 matrices: `ldmatrix`, `stmatrix`, `movmatrix`.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::matrix::aligned;
use super::{Decoded, invalid, missing};
use crate::vm::code::Kind;
use crate::vm::lanes::pick_touch;
use crate::vm::matrix::{LoadRows, StoreRows, Transpose};
use crate::vm::space::SHARED;
use cuda_ptx::Operand;

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn rows(&mut self, form: &mut Form<'a>) -> Decoded {
        aligned(form)?;
        if !form.flag("m8n8") {
            return missing("shape");
        }
        let is_move = form.opcode == "movmatrix";
        let count = match form.one_of(&["x1", "x2", "x4"]) {
            Some("x1") => 1,
            Some("x2") => 2,
            Some(_) => 4,
            None if is_move => 1,
            None => return missing("number of matrices"),
        };
        let is_transposed = form.flag("trans");
        let tag = match form.one_of(&["shared", "shared::cta"]) {
            Some(_) => SHARED,
            None => 0,
        };
        if !form.flag("b16") {
            return missing("type");
        }
        form.arity(2)?;
        let [to, from] = form.operands else {
            return missing("operands");
        };
        match form.opcode {
            "movmatrix" if is_transposed => {
                let a = self.source(from, Ty::B32)?;
                let (d, widen) = self.dest(to, Ty::B32)?;
                let kind = Kind::Together(pick_touch::<Transpose>(self.wide()));
                self.emit(kind, d, a, 0, 0, 0);
                self.finish(widen);
                Ok(())
            }
            "ldmatrix" => {
                let address = self.whole_address(from, tag)?;
                let (mut slots, mut after) = (Vec::new(), Vec::new());
                for operand in registers(to, count)? {
                    let (slot, widen) = self.dest(operand, Ty::B32)?;
                    slots.push(slot);
                    after.push(widen);
                }
                let list = self.list(slots);
                let kind = Kind::Together(pick_touch::<LoadRows>(self.wide()));
                self.emit(kind, 0, address, 0, 0, list);
                self.last_source(u32::from(is_transposed));
                for widen in after {
                    self.finish(widen);
                }
                Ok(())
            }
            "stmatrix" => {
                let address = self.whole_address(to, tag)?;
                let mut slots = Vec::new();
                for operand in registers(from, count)? {
                    slots.push(self.source(operand, Ty::B32)?);
                }
                let list = self.list(slots);
                let kind = Kind::Together(pick_touch::<StoreRows>(self.wide()));
                self.emit(kind, 0, address, 0, 0, list);
                self.last_source(u32::from(is_transposed));
                Ok(())
            }
            _ => missing(""),
        }
    }

    /// Stores a list of registers; returns its number.
    pub(super) fn list(&mut self, slots: Vec<u32>) -> u64 {
        self.out.program.lists.push(slots);
        self.out.program.lists.len() as u64 - 1
    }

    /// Sets the further source `e` of the last instruction.
    pub(super) fn last_source(&mut self, e: u32) {
        if let Some(last) = self.out.program.code.last_mut() {
            last.e = e;
        }
    }
}

fn registers<'v, 'a>(operand: &'v Operand<'a>, count: usize) -> Decoded<&'v [Operand<'a>]> {
    let list = match operand {
        Operand::Vector(list) => &list[..],
        single => std::slice::from_ref(single),
    };
    if list.len() != count {
        return invalid("Bad vector size");
    }
    Ok(list)
}
