//! Matrix multiplication of warpgroups: `wgmma`.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::matrix::{Shape, aligned, elements, take_elements};
use super::{Decoded, invalid, unsupported};
use crate::vm::check::GroupEvent;
use crate::vm::code::Kind;
use crate::vm::lanes::memory_fn;
use crate::vm::matrix::{
    Element, Factors, Fragment, GroupMultiply, GroupProduct, Layout, Side, Sparse,
};
use cuda_ptx::{Literal, Operand};

/// The rows of a product.
const ROWS: usize = 64;
/// The rows that each warp of a warpgroup computes.
const WARP_ROWS: usize = 16;
/// The most groups of which `wgmma.wait_group` may leave the newest ones pending.
const MAX_GROUPS: u64 = 7;

/// Whether `wgmma` supports these types of `d`, `a` and `b` in this shape.
fn has(shape: Shape, [d, a, b]: [Element; 3], is_sparse: bool) -> bool {
    use Element as E;
    let (depth, types) = match a {
        E::F16 => (16, b == E::F16 && matches!(d, E::F16 | E::F32)),
        E::Bf16 => (16, b == E::Bf16 && d == E::F32),
        E::Tf32 => (8, b == E::Tf32 && d == E::F32),
        E::E4m3 | E::E5m2 => (
            32,
            matches!(b, E::E4m3 | E::E5m2) && matches!(d, E::F16 | E::F32),
        ),
        E::S8 | E::U8 => (32, matches!(b, E::S8 | E::U8) && d == E::S32),
        E::B1 => (256, b == E::B1 && d == E::S32 && !is_sparse),
        _ => return false,
    };
    let depth = if is_sparse { 2 * depth } else { depth };
    let columns = match a {
        // Integers have fewer widths.
        E::S8 | E::U8 | E::B1 => {
            matches!(shape.n, 8 | 24) || shape.n.is_multiple_of(16) && shape.n > 0
        }
        _ => shape.n.is_multiple_of(8) && shape.n > 0,
    };
    types && shape.m == ROWS && shape.k == depth && columns && shape.n <= 256
}

/// The immediate operands after the sum's predicate.
#[derive(Clone, Copy, Debug, Default)]
struct Immediates {
    is_negated: bool,
    a_is_transposed: bool,
    b_is_transposed: bool,
}

impl Immediates {
    fn of(operands: &[Operand<'_>], a: Element, a_is_shared: bool) -> Decoded<Self> {
        let mut values = Vec::new();
        for operand in operands {
            let Operand::Literal(Literal::Int(value)) = operand else {
                return invalid("Immediate operand expected for instruction 'wgmma.mma_async'");
            };
            values.push(*value as i64);
        }
        let (scales, transposes) = match (a, &values[..]) {
            (Element::F16 | Element::Bf16, [a, b, rest @ ..]) => ([*a, *b], rest),
            (Element::Tf32 | Element::E4m3 | Element::E5m2, [a, b]) => ([*a, *b], &[][..]),
            (Element::S8 | Element::U8 | Element::B1, []) => ([1, 1], &[][..]),
            _ => return invalid("Arguments mismatch for instruction 'wgmma.mma_async'"),
        };
        let (of_a, of_b) = match (a, a_is_shared, transposes) {
            (Element::F16 | Element::Bf16, true, [of_a, of_b]) => (*of_a, *of_b),
            (Element::F16 | Element::Bf16, false, [of_b]) => (0, *of_b),
            (Element::F16 | Element::Bf16, ..) => {
                return invalid("Arguments mismatch for instruction 'wgmma.mma_async'");
            }
            _ => (0, 0),
        };
        if scales.iter().any(|scale| !matches!(scale, 1 | -1)) {
            return invalid("The scale of a matrix of 'wgmma.mma_async' must be 1 or -1");
        }
        if [of_a, of_b].iter().any(|flag| !matches!(flag, 0 | 1)) {
            return invalid("The transpose operand of 'wgmma.mma_async' must be 0 or 1");
        }
        Ok(Self {
            is_negated: scales[0] != scales[1],
            a_is_transposed: of_a == 1,
            b_is_transposed: of_b == 1,
        })
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `wgmma`.
    pub(super) fn group_matrix(&mut self, form: &mut Form<'a>) -> Decoded {
        match form.one_of(&["mma_async", "fence", "commit_group", "wait_group"]) {
            Some("mma_async") => self.group_product(form),
            Some("wait_group") => {
                aligned(form)?;
                form.arity(1)?;
                let pending = match form.operands[0] {
                    Operand::Literal(Literal::Int(pending @ 0..=MAX_GROUPS)) => pending,
                    _ => {
                        return invalid(format!(
                            "The operand of 'wgmma.wait_group' must be 0 to {MAX_GROUPS}"
                        ));
                    }
                };
                self.group_event(2 + pending);
                Ok(())
            }
            Some(event) => {
                aligned(form)?;
                form.arity(0)?;
                self.group_event(if event == "fence" { 0 } else { 1 });
                Ok(())
            }
            None => unsupported(""),
        }
    }

    /// Emits an instruction that only matters to the checks, because products are complete at once.
    fn group_event(&mut self, number: u64) {
        let kind = match self.out.checked {
            true => Kind::Converged(memory_fn::<GroupEvent>(self.wide())),
            false => Kind::Nop,
        };
        self.emit(kind, 0, 0, 0, 0, number);
    }

    fn group_product(&mut self, form: &mut Form<'a>) -> Decoded {
        let is_sparse = form.flag("sp");
        aligned(form)?;
        let shape = Shape::take(form)?;
        let Ok(types @ [d, a, b]) = <[Element; 3]>::try_from(take_elements(form)) else {
            return unsupported("these types");
        };
        if !has(shape, types, is_sparse) {
            return unsupported("these types with this shape");
        }
        let saturates = matches!(a, Element::S8 | Element::U8) && form.flag("satfinite");
        if a == Element::B1 && !(form.flag("and") && form.flag("popc")) {
            return unsupported("this operation on bits");
        }
        form.done()?;
        let (places, sparse, rest) = match form.operands {
            [d, a, b, metadata, selector, rest @ ..] if is_sparse => {
                ([d, a, b], Some((metadata, selector)), rest)
            }
            [d, a, b, rest @ ..] if !is_sparse => ([d, a, b], None, rest),
            _ => return invalid("Arguments mismatch for instruction 'wgmma.mma_async'"),
        };
        let [adds, rest @ ..] = rest else {
            return invalid("Arguments mismatch for instruction 'wgmma.mma_async'");
        };
        let a_is_shared = !matches!(places[1], Operand::Vector(_));
        let immediates = Immediates::of(rest, a, a_is_shared)?;
        let depth = shape.k / b.count();
        let sparse = match sparse {
            Some((metadata, selector)) => Some(self.sparse(a, metadata, selector)?),
            None => None,
        };
        let adds = self.predicate(adds)?;
        let a_depth = if is_sparse { depth / 2 } else { depth };
        let a = if a_is_shared {
            self.shared_factors(places[1], a, immediates.a_is_transposed)?
        } else {
            let fragment = self.group_fragment(places[1], (Side::A, a), a_depth)?;
            Factors::Registers(fragment)
        };
        let b = self.shared_factors(places[2], b, immediates.b_is_transposed)?;
        let d = self.group_fragment(places[0], (Side::Sum, d), shape.n)?;
        let number = self.out.program.group_products.len() as u64;
        self.out.program.group_products.push(GroupProduct {
            a,
            b,
            d,
            depth,
            adds,
            is_negated: immediates.is_negated,
            saturates,
            sparse,
        });
        let kind = Kind::Converged(memory_fn::<GroupMultiply>(self.wide()));
        self.emit(kind, 0, 0, 0, 0, number);
        Ok(())
    }

    fn shared_factors(
        &mut self,
        operand: &Operand<'a>,
        element: Element,
        is_transposed: bool,
    ) -> Decoded<Factors> {
        Ok(Factors::Shared {
            descriptor: self.source(operand, Ty::B64)?,
            element,
            is_transposed,
        })
    }

    fn sparse(
        &mut self,
        a: Element,
        metadata: &Operand<'a>,
        selector: &Operand<'a>,
    ) -> Decoded<Sparse> {
        // The registers of all threads describe rows of bytes.
        let limit = if a.bits() == 8 { 0 } else { 1 };
        let selector = match selector {
            Operand::Literal(Literal::Int(value)) if *value <= limit => *value as usize,
            _ => {
                return invalid(format!(
                    "The sparsity selector of 'wgmma.mma_async' must be 0 to {limit}"
                ));
            }
        };
        Ok(Sparse {
            metadata: self.source(metadata, Ty::B32)?,
            selector,
        })
    }

    /// The registers of the 16 rows of a matrix that a warp holds.
    fn group_fragment(
        &mut self,
        operand: &Operand<'a>,
        (side, element): (Side, Element),
        columns: usize,
    ) -> Decoded<Fragment> {
        let mut slots = Vec::new();
        for operand in elements(operand) {
            slots.push(match side {
                Side::Sum => match self.dest(operand, Ty::B32)? {
                    (slot, None) => slot,
                    _ => return unsupported("this register for a sum"),
                },
                _ => self.source(operand, Ty::B32)?,
            });
        }
        let count = WARP_ROWS * columns * element.bits() as usize / 32 / 32;
        if slots.len() != count {
            return invalid(format!(
                "Bad vector size: {} registers for a matrix that takes {count}",
                slots.len()
            ));
        }
        Ok(Fragment {
            element,
            side,
            layout: Layout::Mma,
            rows: WARP_ROWS,
            columns,
            slots,
        })
    }
}
