//! Matrix multiplication: `mma` and `wmma.mma`.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::operand::Widen;
use super::{Decoded, unsupported};
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::memory_fn;
use crate::vm::matrix::{BitOp, Element, Fragment, Layout, Multiply, Product, Side};
use crate::vm::rounding::Round;
use cuda_ptx::Operand;

/// The rows of `a`, the columns of `b`, and the columns of `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Shape {
    /// Parses a shape such as `m16n8k16`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Self {
            m: m.parse().ok()?,
            n: n.parse().ok()?,
            k: k.parse().ok()?,
        })
    }

    /// Takes the shape out of the modifiers.
    pub(super) fn take(form: &mut Form<'_>) -> Decoded<Self> {
        let shapes = form.modifiers.iter().map(|text| Self::parse(text));
        let Some((index, shape)) = shapes.enumerate().find_map(|(i, s)| Some((i, s?))) else {
            return unsupported("without a shape");
        };
        form.modifiers.remove(index);
        Ok(shape)
    }

    /// The rows and columns of a matrix of `element`.
    pub(super) fn of(self, side: Side, element: Element) -> (usize, usize) {
        let k = self.k / element.count();
        match side {
            Side::A => (self.m, k),
            Side::B => (k, self.n),
            Side::Sum => (self.m, self.n),
        }
    }

    fn is_one_of(self, list: &[(usize, usize, usize)]) -> bool {
        list.contains(&(self.m, self.n, self.k))
    }
}

/// Takes all element types.
pub(super) fn take_elements(form: &mut Form<'_>) -> Vec<Element> {
    let all = form.modifiers.iter();
    let elements = all.filter_map(|text| Element::parse(text)).collect();
    form.modifiers.retain(|text| Element::parse(text).is_none());
    elements
}

/// Whether `mma` supports these types of `d`, `a`, `b` and `c`.
fn mma_has(shape: Shape, [d, a, b, c]: [Element; 4]) -> bool {
    use Element as E;
    if d != c {
        return false;
    }
    match (a, b) {
        (E::F16, E::F16) => {
            matches!(d, E::F16 | E::F32) && shape.is_one_of(&[(16, 8, 8), (16, 8, 16)])
        }
        (E::Bf16, E::Bf16) => d == E::F32 && shape.is_one_of(&[(16, 8, 8), (16, 8, 16)]),
        (E::Tf32, E::Tf32) => d == E::F32 && shape.is_one_of(&[(16, 8, 4), (16, 8, 8)]),
        (E::E4m3 | E::E5m2, E::E4m3 | E::E5m2) => {
            matches!(d, E::F16 | E::F32) && shape.is_one_of(&[(16, 8, 16), (16, 8, 32)])
        }
        (E::F64, E::F64) => {
            d == E::F64 && shape.is_one_of(&[(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)])
        }
        (E::S8 | E::U8, E::S8 | E::U8) => {
            d == E::S32 && shape.is_one_of(&[(8, 8, 16), (16, 8, 16), (16, 8, 32)])
        }
        (E::S4 | E::U4, E::S4 | E::U4) => {
            d == E::S32 && shape.is_one_of(&[(8, 8, 32), (16, 8, 32), (16, 8, 64)])
        }
        (E::B1, E::B1) => {
            d == E::S32 && shape.is_one_of(&[(8, 8, 128), (16, 8, 128), (16, 8, 256)])
        }
        _ => false,
    }
}

/// Whether `wmma` supports multiplicands of this type in this shape.
pub(super) fn wmma_has(shape: Shape, a: Element) -> bool {
    use Element as E;
    match a {
        E::F16 | E::Bf16 | E::S8 | E::U8 => {
            shape.is_one_of(&[(16, 16, 16), (32, 8, 16), (8, 32, 16)])
        }
        E::Tf32 => shape.is_one_of(&[(16, 16, 8)]),
        E::F64 => shape.is_one_of(&[(8, 8, 4)]),
        E::S4 | E::U4 => shape.is_one_of(&[(8, 8, 32)]),
        E::B1 => shape.is_one_of(&[(8, 8, 128)]),
        _ => false,
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// The registers of a matrix that is read.
    fn read_fragment(
        &mut self,
        operand: &Operand<'a>,
        shape: Shape,
        (side, element, layout): (Side, Element, Layout),
    ) -> Decoded<Fragment> {
        let ty = register(element);
        let mut slots = Vec::new();
        for operand in elements(operand) {
            slots.push(self.source(operand, ty)?);
        }
        fragment(shape, side, element, layout, slots)
    }

    /// The registers of a matrix that is written.
    pub(super) fn write_fragment(
        &mut self,
        operand: &Operand<'a>,
        shape: Shape,
        (side, element, layout): (Side, Element, Layout),
    ) -> Decoded<(Fragment, Vec<Option<Widen>>)> {
        let ty = register(element);
        let (mut slots, mut after) = (Vec::new(), Vec::new());
        for operand in elements(operand) {
            let (slot, widen) = self.dest(operand, ty)?;
            slots.push(slot);
            after.push(widen);
        }
        Ok((fragment(shape, side, element, layout, slots)?, after))
    }

    /// The fragment of `wmma.store`.
    pub(super) fn stored_fragment(
        &mut self,
        operand: &Operand<'a>,
        shape: Shape,
        element: Element,
    ) -> Decoded<Fragment> {
        self.read_fragment(operand, shape, (Side::Sum, element, Layout::Opaque))
    }

    fn product(
        &mut self,
        form: &Form<'a>,
        shape: Shape,
        [d, a, b, c]: [Element; 4],
        layout: Layout,
        (saturates, round, bits): (bool, Round, BitOp),
    ) -> Decoded {
        form.done()?;
        form.arity(4)?;
        let of = &form.operands;
        let a = self.read_fragment(&of[1], shape, (Side::A, a, layout))?;
        let b = self.read_fragment(&of[2], shape, (Side::B, b, layout))?;
        let c = self.read_fragment(&of[3], shape, (Side::Sum, c, layout))?;
        let (d, after) = self.write_fragment(&of[0], shape, (Side::Sum, d, layout))?;
        let number = self.out.program.products.len() as u64;
        self.out.program.products.push(Product {
            a,
            b,
            c,
            d,
            saturates,
            round,
            bits,
        });
        let kind = Kind::Converged(memory_fn::<Multiply>(self.wide()));
        self.emit(kind, 0, 0, 0, 0, number);
        for widen in after {
            self.finish(widen);
        }
        Ok(())
    }

    pub(super) fn mma(&mut self, form: &mut Form<'a>) -> Decoded {
        aligned(form)?;
        let shape = Shape::take(form)?;
        if !form.flag("row") || !form.flag("col") {
            return unsupported("this layout");
        }
        let types = take_elements(form);
        let Ok(types) = <[Element; 4]>::try_from(types) else {
            return unsupported("these types");
        };
        if !mma_has(shape, types) {
            return unsupported("these types with this shape");
        }
        let options = options(form, types[1])?;
        self.product(form, shape, types, Layout::Mma, options)
    }

    /// Decodes `wmma.mma`.
    pub(super) fn wmma_multiply(&mut self, form: &mut Form<'a>) -> Decoded {
        aligned(form)?;
        // The fragments do not depend on the layouts in memory.
        for _ in 0..2 {
            if form.one_of(&["row", "col"]).is_none() {
                return unsupported("this layout");
            }
        }
        let shape = Shape::take(form)?;
        let types = take_elements(form);
        let types = match types[..] {
            [d, c] => [d, Element::F16, Element::F16, c],
            [d, a, b, c] => [d, a, b, c],
            _ => return unsupported("these types"),
        };
        use Element as E;
        let [d, a, b, c] = types;
        let sums = match a {
            E::F16 => matches!((d, c), (E::F16 | E::F32, E::F16 | E::F32)),
            E::Bf16 | E::Tf32 => (d, c) == (E::F32, E::F32),
            E::F64 => (d, c) == (E::F64, E::F64),
            _ => (d, c) == (E::S32, E::S32),
        };
        if !sums || a != b || !wmma_has(shape, a) {
            return unsupported("these types with this shape");
        }
        let options = options(form, a)?;
        self.product(form, shape, types, Layout::Opaque, options)
    }
}

/// Takes the modifier that says that all threads of the warp take part.
pub(super) fn aligned(form: &mut Form<'_>) -> Decoded {
    if form.flag("sync") && form.flag("aligned") {
        return Ok(());
    }
    unsupported("without `.sync.aligned`")
}

fn options(form: &mut Form<'_>, a: Element) -> Decoded<(bool, Round, BitOp)> {
    let is_integer = matches!(a, Element::S8 | Element::U8 | Element::S4 | Element::U4);
    let saturates = is_integer && form.flag("satfinite");
    let mut round = Round::Near;
    if a == Element::F64 {
        round = match form.one_of(&["rn", "rz", "rm", "rp"]) {
            Some("rz") => Round::Zero,
            Some("rm") => Round::Down,
            Some("rp") => Round::Up,
            _ => Round::Near,
        };
    }
    let mut bits = BitOp::And;
    if a == Element::B1 {
        bits = match form.one_of(&["and", "xor"]) {
            Some("and") => BitOp::And,
            Some(_) => BitOp::Xor,
            None => return unsupported("this operation on bits"),
        };
        if !form.flag("popc") {
            return unsupported("without `.popc`");
        }
    }
    Ok((saturates, round, bits))
}

/// The type of a fragment's registers.
fn register(element: Element) -> Ty {
    match element {
        Element::F64 => Ty::B64,
        _ => Ty::B32,
    }
}

pub(super) fn elements<'v, 'a>(operand: &'v Operand<'a>) -> &'v [Operand<'a>] {
    match operand {
        Operand::Vector(elements) => elements,
        single => std::slice::from_ref(single),
    }
}

/// The fragment in `slots`, if their number is the one that the ISA specifies.
fn fragment(
    shape: Shape,
    side: Side,
    element: Element,
    layout: Layout,
    slots: Vec<Slot>,
) -> Decoded<Fragment> {
    let (rows, columns) = shape.of(side, element);
    let per_register = if element == Element::F64 {
        1
    } else {
        32 / element.bits() as usize
    };
    let mut count = rows * columns / 32 / per_register;
    if layout == Layout::Opaque && element == Element::F16 && side != Side::Sum {
        // The fragment has 16 elements per lane, whatever the size of the matrix.
        count = 8;
    }
    if slots.len() != count {
        return super::invalid(format!(
            "Bad vector size: {} registers for a matrix that takes {count}",
            slots.len()
        ));
    }
    Ok(Fragment {
        element,
        side,
        layout,
        rows,
        columns,
        slots,
    })
}
