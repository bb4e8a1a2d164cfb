//! Loads, stores and transposes of 8 × 8 matrices: `ldmatrix`, `stmatrix`, `movmatrix`.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::matrix::aligned;
use super::{Decoded, invalid, unsupported};
use crate::vm::address::SHARED;
use crate::vm::code::Kind;
use crate::vm::lanes::memory_fn;
use crate::vm::matrix::{LoadRows, StoreRows, Transpose};
use cuda_ptx::Operand;

/// The parts that the three instructions have in common.
struct Rows<'a> {
    to: &'a Operand<'a>,
    from: &'a Operand<'a>,
    /// The number of matrices.
    count: usize,
    is_transposed: bool,
    /// The tag of the memory space.
    tag: u64,
}

impl<'a> Rows<'a> {
    /// Takes all parts. `count` is the number of matrices if the instruction does not name it.
    fn take(form: &mut Form<'a>, count: Option<usize>) -> Decoded<Self> {
        aligned(form)?;
        if !form.flag("m8n8") {
            return unsupported("this shape");
        }
        let count = match (form.one_of(&["x1", "x2", "x4"]), count) {
            (Some("x1"), _) => 1,
            (Some("x2"), _) => 2,
            (Some(_), _) => 4,
            (None, Some(count)) => count,
            (None, None) => return unsupported("this number of matrices"),
        };
        let is_transposed = form.flag("trans");
        let tag = match form.one_of(&["shared", "shared::cta"]) {
            Some(_) => SHARED,
            None => 0,
        };
        if !form.flag("b16") {
            return unsupported("this type");
        }
        form.arity(2)?;
        let [to, from] = form.operands else {
            return unsupported("these operands");
        };
        Ok(Self {
            to,
            from,
            count,
            is_transposed,
            tag,
        })
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `ldmatrix`.
    pub(super) fn load_rows(&mut self, form: &mut Form<'a>) -> Decoded {
        let Rows {
            to,
            from,
            count,
            is_transposed,
            tag,
        } = Rows::take(form, None)?;
        let address = self.whole_address(from, tag)?;
        let (mut slots, mut after) = (Vec::new(), Vec::new());
        for operand in registers(to, count)? {
            let (slot, widen) = self.dest(operand, Ty::B32)?;
            slots.push(slot);
            after.push(widen);
        }
        let list = self.list(slots);
        let kind = Kind::Converged(memory_fn::<LoadRows>(self.wide()));
        self.emit(kind, 0, address, 0, 0, list);
        self.last_source(u32::from(is_transposed));
        for widen in after {
            self.finish(widen);
        }
        Ok(())
    }

    /// Decodes `stmatrix`.
    pub(super) fn store_rows(&mut self, form: &mut Form<'a>) -> Decoded {
        let Rows {
            to,
            from,
            count,
            is_transposed,
            tag,
        } = Rows::take(form, None)?;
        let address = self.whole_address(to, tag)?;
        let mut slots = Vec::new();
        for operand in registers(from, count)? {
            slots.push(self.source(operand, Ty::B32)?);
        }
        let list = self.list(slots);
        let kind = Kind::Converged(memory_fn::<StoreRows>(self.wide()));
        self.emit(kind, 0, address, 0, 0, list);
        self.last_source(u32::from(is_transposed));
        Ok(())
    }

    /// Decodes `movmatrix`.
    pub(super) fn transpose_rows(&mut self, form: &mut Form<'a>) -> Decoded {
        let Rows {
            to,
            from,
            is_transposed,
            ..
        } = Rows::take(form, Some(1))?;
        if !is_transposed {
            return unsupported("");
        }
        let a = self.source(from, Ty::B32)?;
        let (d, widen) = self.dest(to, Ty::B32)?;
        let kind = Kind::Converged(memory_fn::<Transpose>(self.wide()));
        self.emit(kind, d, a, 0, 0, 0);
        self.finish(widen);
        Ok(())
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
