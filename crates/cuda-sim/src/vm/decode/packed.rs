//! Integers of 16 bits, two in a register, and results that are not negative.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, missing};
use crate::vm::lanes::lanes;

/// What `f` makes of the lower and of the upper halves.
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

impl<'a> FunctionDecoder<'a, '_> {
    /// `add`, `min` and `max` of two integers in a register, and `min` and `max` with `.relu`.
    pub(super) fn packed_integers(&mut self, form: &mut Form<'a>, ty: Ty) -> Decoded {
        let wide = self.wide();
        let relu = form.flag("relu");
        let kind = match (form.opcode, ty.signed(), ty.width(), relu) {
            ("add", _, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 {
                    halves(a, b, u16::wrapping_add)
                })
            }
            ("min", false, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 { halves(a, b, u16::min) })
            }
            ("max", false, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 { halves(a, b, u16::max) })
            }
            ("min", true, 32, true) if !ty.packed => {
                lanes!(wide, |a: i32, b: i32| -> i32 { a.min(b).max(0) })
            }
            ("max", true, 32, true) if !ty.packed => {
                lanes!(wide, |a: i32, b: i32| -> i32 { a.max(b).max(0) })
            }
            ("min", true, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 {
                    signed_halves(a, b, i16::min)
                })
            }
            ("max", true, 32, false) => {
                lanes!(wide, |a: u32, b: u32| -> u32 {
                    signed_halves(a, b, i16::max)
                })
            }
            ("min", true, 32, true) => lanes!(wide, |a: u32, b: u32| -> u32 {
                signed_halves(a, b, |a, b| a.min(b).max(0))
            }),
            ("max", true, 32, true) => lanes!(wide, |a: u32, b: u32| -> u32 {
                signed_halves(a, b, |a, b| a.max(b).max(0))
            }),
            _ => return missing("type"),
        };
        self.emit_plain(form, kind, Ty::B32, &[Ty::B32; 2])
    }
}
