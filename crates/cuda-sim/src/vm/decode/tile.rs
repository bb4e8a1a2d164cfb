//! Matrix loads and stores: `wmma.load` and `wmma.store`.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::matrix::{Shape, aligned, take_elements, wmma_has};
use super::{Decoded, unsupported};
use crate::vm::address::SHARED;
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::{lanes, memory_fn};
use crate::vm::matrix::{Element, Layout, LoadTile, Side, StoreTile, Tile};
use cuda_ptx::Operand;

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn wmma(&mut self, form: &mut Form<'a>) -> Decoded {
        match form.one_of(&["load", "store", "mma"]) {
            Some("load") => self.wmma_load(form),
            Some("store") => self.wmma_store(form),
            Some(_) => self.wmma_multiply(form),
            None => unsupported(""),
        }
    }

    /// A register with the generic address of an operand. `tag` is the tag of the instruction's
    /// space.
    pub(super) fn whole_address(&mut self, operand: &Operand<'a>, tag: u64) -> Decoded<Slot> {
        let (base, offset, bits) = self.address(operand, tag)?;
        let to = self.temp64();
        let kind = lanes!(self.wide(), with w, i, m {
            let value = w.generic(i.a, i);
            w.put64(i.d, m, &value);
        });
        self.emit(kind, to, base, 0, bits, offset);
        Ok(to)
    }

    /// The tag of the space, among the spaces that can hold matrices.
    fn tile_space(form: &mut Form<'_>) -> u64 {
        match form.one_of(&["shared", "shared::cta", "global"]) {
            Some("shared" | "shared::cta") => SHARED,
            _ => 0,
        }
    }

    /// Decodes the address and the stride.
    fn tile_place(
        &mut self,
        address: &Operand<'a>,
        stride: Option<&Operand<'a>>,
        tag: u64,
        packed: usize,
    ) -> Decoded<(Slot, Slot)> {
        let address = self.whole_address(address, tag)?;
        let stride = match stride {
            Some(operand) => self.source(operand, Ty::U32)?,
            None => self.const32(packed as u32),
        };
        Ok((address, stride))
    }

    fn wmma_load(&mut self, form: &mut Form<'a>) -> Decoded {
        let side = match form.one_of(&["a", "b", "c"]) {
            Some("a") => Side::A,
            Some("b") => Side::B,
            Some(_) => Side::Sum,
            None => return unsupported("without the name of a matrix"),
        };
        aligned(form)?;
        let by_column = is_by_column(form)?;
        let shape = Shape::take(form)?;
        let tag = Self::tile_space(form);
        let [element] = take_elements(form)[..] else {
            return unsupported("this type");
        };
        if !has(side, shape, element) {
            return unsupported("this type with this shape");
        }
        let (rows, columns) = shape.of(side, element);
        let packed = if by_column { rows } else { columns } * element.count();
        let (to, from, stride) = operands(form)?;
        let (address, stride) = self.tile_place(from, stride, tag, packed)?;
        let (fragment, after) = self.write_fragment(to, shape, (side, element, Layout::Opaque))?;
        let number = self.out.program.tiles.len() as u64;
        self.out.program.tiles.push(Tile {
            fragment,
            by_column,
            address,
            stride,
        });
        let kind = Kind::Converged(memory_fn::<LoadTile>(self.wide()));
        self.emit(kind, 0, 0, 0, 0, number);
        for widen in after {
            self.finish(widen);
        }
        Ok(())
    }

    fn wmma_store(&mut self, form: &mut Form<'a>) -> Decoded {
        if !form.flag("d") {
            return unsupported("without the name of a matrix");
        }
        aligned(form)?;
        let by_column = is_by_column(form)?;
        let shape = Shape::take(form)?;
        let tag = Self::tile_space(form);
        let [element] = take_elements(form)[..] else {
            return unsupported("this type");
        };
        if !has(Side::Sum, shape, element) {
            return unsupported("this type with this shape");
        }
        let packed = if by_column { shape.m } else { shape.n };
        let (to, from, stride) = operands(form)?;
        let (address, stride) = self.tile_place(to, stride, tag, packed)?;
        let fragment = self.stored_fragment(from, shape, element)?;
        let number = self.out.program.tiles.len() as u64;
        self.out.program.tiles.push(Tile {
            fragment,
            by_column,
            address,
            stride,
        });
        let kind = Kind::Converged(memory_fn::<StoreTile>(self.wide()));
        self.emit(kind, 0, 0, 0, 0, number);
        Ok(())
    }
}

/// The two operands, and the stride if there is one.
fn operands<'a>(
    form: &Form<'a>,
) -> Decoded<(&'a Operand<'a>, &'a Operand<'a>, Option<&'a Operand<'a>>)> {
    match form.operands {
        [to, from] => Ok((to, from, None)),
        [to, from, stride] => Ok((to, from, Some(stride))),
        _ => unsupported("these operands"),
    }
}

fn is_by_column(form: &mut Form<'_>) -> Decoded<bool> {
    match form.one_of(&["row", "col"]) {
        Some(layout) => Ok(layout == "col"),
        None => unsupported("this layout"),
    }
}

/// Whether a matrix of this type can be loaded or stored in this shape.
fn has(side: Side, shape: Shape, element: Element) -> bool {
    use Element as E;
    if side != Side::Sum {
        return wmma_has(shape, element);
    }
    let multiplicands: &[E] = match element {
        E::F16 => &[E::F16],
        E::F32 => &[E::F16, E::Tf32],
        E::F64 => &[E::F64],
        E::S32 => &[E::S8, E::S4, E::B1],
        _ => &[],
    };
    multiplicands.iter().any(|&a| wmma_has(shape, a))
}
