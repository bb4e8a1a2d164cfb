//! Pairs of 16-bit integers or of floats in a register, and non-negative integer results (`.relu`).

use super::float::{input, rounded};
use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::operation::{FloatOp, IntegerOp};
use super::{Decoded, unsupported};
use crate::vm::lanes::lanes;
use crate::vm::rounding::{self, Round};
use crate::vm::vector::each;

/// Applies `f` to the lower and to the upper halves.
#[inline(always)]
fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let low = f(a as u16, b as u16);
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u32::from(high) << 16 | u32::from(low)
}

#[inline(always)]
fn signed_halves(a: u32, b: u32, f: impl Fn(i16, i16) -> i16) -> u32 {
    halves(a, b, |a, b| f(a as i16, b as i16) as u16)
}

/// Applies `f` to the lower and to the upper floats. `flags` are those of f32 operations.
#[inline(always)]
fn floats(a: u64, b: u64, c: u64, flags: u64, f: impl Fn(Round, [f32; 3]) -> f32) -> u64 {
    let one = |shift: u32| {
        let sources = [a, b, c].map(|value| input((value >> shift) as u32, flags));
        u64::from(rounded(|round| f(round, sources), flags)) << shift
    };
    one(32) | one(0)
}

/// An operation with three sources, the last of which is optional.
macro_rules! floats {
    ($wide:expr, |$round:ident, $a:ident, $b:ident, $c:ident| $body:expr) => {
        lanes!($wide, with w, i, m {
            let (a, b, c) = (w.get64(i.a), w.get64(i.b), w.get64(i.c));
            let value = each(|lane| {
                floats(a[lane], b[lane], c[lane], i.imm, |$round, [$a, $b, $c]| $body)
            });
            w.put64(i.d, m, &value);
        })
    };
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `add`, `mul` and `fma` of two floats in a register.
    pub(super) fn packed_floats(&mut self, form: &Form<'a>, op: FloatOp, imm: u64) -> Decoded {
        let wide = self.wide();
        let kind = match op {
            FloatOp::Add => floats!(wide, |round, a, b, _c| rounding::add32(a, b, round)),
            FloatOp::Sub => floats!(wide, |round, a, b, _c| rounding::add32(a, -b, round)),
            FloatOp::Mul => floats!(wide, |round, a, b, _c| rounding::mul32(a, b, round)),
            FloatOp::Fma => floats!(wide, |round, a, b, c| rounding::fma32(a, b, c, round)),
            _ => return unsupported("two floats"),
        };
        let count = op.sources();
        form.arity(count + 1)?;
        let mut slots = [0; 3];
        for (slot, operand) in slots.iter_mut().zip(&form.operands[1..]) {
            *slot = self.source(operand, Ty::B64)?;
        }
        if count == 2 {
            slots[2] = slots[0];
        }
        let (d, _) = self.dest(&form.operands[0], Ty::B64)?;
        self.emit(kind, d, slots[0], slots[1], slots[2], imm);
        Ok(())
    }

    /// Decodes `add`, `min` and `max` of two integers in a register, and `min` and `max` with
    /// `.relu`.
    pub(super) fn packed_integers(
        &mut self,
        form: &mut Form<'a>,
        op: IntegerOp,
        ty: Ty,
    ) -> Decoded {
        let wide = self.wide();
        let relu = form.flag("relu");
        let kind = match (op, ty.signed(), ty.width(), relu) {
            (IntegerOp::Add, _, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 {
                    halves(a, b, u16::wrapping_add)
                })
            }
            (IntegerOp::Min, false, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 { halves(a, b, u16::min) })
            }
            (IntegerOp::Max, false, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 { halves(a, b, u16::max) })
            }
            (IntegerOp::Min, true, 32, true) if !ty.packed => {
                lanes!(wide, |a: i32, b: i32| -> i32 { a.min(b).max(0) })
            }
            (IntegerOp::Max, true, 32, true) if !ty.packed => {
                lanes!(wide, |a: i32, b: i32| -> i32 { a.max(b).max(0) })
            }
            (IntegerOp::Min, true, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 {
                    signed_halves(a, b, i16::min)
                })
            }
            (IntegerOp::Max, true, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 {
                    signed_halves(a, b, i16::max)
                })
            }
            (IntegerOp::Min, true, 32, true) => lanes!(wide, |a: u32, b: u32| -> u32 {
                signed_halves(a, b, |a, b| a.min(b).max(0))
            }),
            (IntegerOp::Max, true, 32, true) => lanes!(wide, |a: u32, b: u32| -> u32 {
                signed_halves(a, b, |a, b| a.max(b).max(0))
            }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, Ty::B32, &[Ty::B32; 2])
    }
}
