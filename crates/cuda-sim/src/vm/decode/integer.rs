//! Integer arithmetic and logic.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::multiply::{high24, product_kind};
use super::operation::{IntegerOp, LogicOp};
use super::{Decoded, unsupported};
use crate::vm::code::Kind;
use crate::vm::lanes::lanes;

/// Selects by width, for operations that do not depend on the sign.
macro_rules! any {
    ($wide:expr, $ty:expr, |$($a:ident),+| $body:expr) => {
        match $ty.bits {
            16 => any!(@one $wide, u16, |$($a),+| $body),
            32 => any!(@one $wide, u32, |$($a),+| $body),
            64 => any!(@one $wide, u64, |$($a),+| $body),
            _ => return unsupported("this type"),
        }
    };
    (@one $wide:expr, $t:ty, |$a:ident| $body:expr) => {
        lanes!($wide, |$a: $t| -> $t { $body })
    };
    (@one $wide:expr, $t:ty, |$a:ident, $b:ident| $body:expr) => {
        lanes!($wide, |$a: $t, $b: $t| -> $t { $body })
    };
    (@one $wide:expr, $t:ty, |$a:ident, $b:ident, $c:ident| $body:expr) => {
        lanes!($wide, |$a: $t, $b: $t, $c: $t| -> $t { $body })
    };
}

pub(super) use any;

/// Selects by width and sign.
macro_rules! signed {
    ($wide:expr, $ty:expr, |$($a:ident),+| $body:expr) => {
        match ($ty.signed(), $ty.bits) {
            (false, 16) => any!(@one $wide, u16, |$($a),+| $body),
            (false, 32) => any!(@one $wide, u32, |$($a),+| $body),
            (false, 64) => any!(@one $wide, u64, |$($a),+| $body),
            (true, 16) => any!(@one $wide, i16, |$($a),+| $body),
            (true, 32) => any!(@one $wide, i32, |$($a),+| $body),
            (true, 64) => any!(@one $wide, i64, |$($a),+| $body),
            _ => return unsupported("this type"),
        }
    };
}

/// Selects by width for bit types, including predicates.
macro_rules! bitwise {
    ($wide:expr, $ty:expr, |$a:ident, $b:ident| $body:expr) => {
        if $ty.class == Class::Pred {
            lanes!($wide, with w, i, m {
                let ($a, $b) = (w.get_pred(i.a), w.get_pred(i.b));
                w.put_pred(i.d, m, $body);
            })
        } else {
            any!($wide, $ty, |$a, $b| $body)
        }
    };
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Emits `kind` for sources of type `ty` and a destination of type `to`.
    pub(super) fn emit_plain(
        &mut self,
        form: &Form<'a>,
        kind: Kind,
        to: Ty,
        from: &[Ty],
    ) -> Decoded {
        form.arity(from.len() + 1)?;
        let mut slots = [0; 4];
        for (index, &ty) in from.iter().enumerate() {
            slots[index] = self.source(&form.operands[index + 1], ty)?;
        }
        let (d, widen) = self.dest(&form.operands[0], to)?;
        self.emit(kind, d, slots[0], slots[1], slots[2], slots[3].into());
        self.finish(widen);
        Ok(())
    }

    /// Decodes arithmetic on integers.
    pub(super) fn integer(&mut self, form: &mut Form<'a>, op: IntegerOp) -> Decoded {
        let ty = form.ty()?;
        let wide = self.wide();
        if ty.packed || form.modifiers.contains(&"relu") {
            return self.packed_integers(form, op, ty);
        }
        let saturates = form.flag("sat");
        if saturates {
            if ty != Ty::new(Class::Signed, 32) {
                return unsupported("`.sat`");
            }
            let kind = match op {
                IntegerOp::Add => lanes!(wide, |a: i32, b: i32| -> i32 { a.saturating_add(b) }),
                IntegerOp::Sub => lanes!(wide, |a: i32, b: i32| -> i32 { a.saturating_sub(b) }),
                IntegerOp::Mad if form.flag("hi") => {
                    let kind = lanes!(wide, |a: i32, b: i32, c: i32| -> i32 {
                        let high = ((i64::from(a) * i64::from(b)) >> 32) as i32;
                        high.saturating_add(c)
                    });
                    return self.emit_plain(form, kind, ty, &[ty; 3]);
                }
                IntegerOp::Mad24 if form.flag("hi") => {
                    let kind = lanes!(wide, |a: i32, b: i32, c: i32| -> i32 {
                        high24(a, b).saturating_add(c)
                    });
                    return self.emit_plain(form, kind, ty, &[ty; 3]);
                }
                _ => return unsupported("`.sat`"),
            };
            return self.emit_plain(form, kind, ty, &[ty; 2]);
        }
        let two = [ty; 2];
        let (kind, from) = match op {
            IntegerOp::Add
            | IntegerOp::AddCarry
            | IntegerOp::Sub
            | IntegerOp::SubCarry
            | IntegerOp::MadCarry => return self.carrying(form, op, ty),
            IntegerOp::Mad if form.modifiers.contains(&"cc") => {
                return self.carrying(form, op, ty);
            }
            IntegerOp::Mul | IntegerOp::Mad => {
                return self.multiply(form, ty, op == IntegerOp::Mad);
            }
            IntegerOp::Mul24 | IntegerOp::Mad24 => {
                return self.multiply24(form, ty, op == IntegerOp::Mad24);
            }
            // Division by zero returns what the hardware returns: all ones; the remainder is the
            // dividend.
            IntegerOp::Div => {
                let kind = match (ty.signed(), ty.bits) {
                    (true, 16) => lanes!(wide, |a: i16, b: i16| -> i16 {
                        if b == 0 { -1 } else { a.wrapping_div(b) }
                    }),
                    (true, 32) => lanes!(wide, |a: i32, b: i32| -> i32 {
                        if b == 0 { -1 } else { a.wrapping_div(b) }
                    }),
                    (true, 64) => lanes!(wide, |a: i64, b: i64| -> i64 {
                        if b == 0 { -1 } else { a.wrapping_div(b) }
                    }),
                    (false, 16) => {
                        lanes!(wide, |a: u16, b: u16| -> u16 {
                            a.checked_div(b).unwrap_or(!0)
                        })
                    }
                    (false, 32) => {
                        lanes!(wide, |a: u32, b: u32| -> u32 {
                            a.checked_div(b).unwrap_or(!0)
                        })
                    }
                    (false, 64) => {
                        lanes!(wide, |a: u64, b: u64| -> u64 {
                            a.checked_div(b).unwrap_or(!0)
                        })
                    }
                    _ => return unsupported("this type"),
                };
                (kind, &two[..])
            }
            IntegerOp::Rem => {
                let kind = signed!(wide, ty, |a, b| if b == 0 { a } else { a.wrapping_rem(b) });
                (kind, &two[..])
            }
            IntegerOp::Min => (signed!(wide, ty, |a, b| a.min(b)), &two[..]),
            IntegerOp::Max => (signed!(wide, ty, |a, b| a.max(b)), &two[..]),
            IntegerOp::Abs => {
                let kind = match ty.bits {
                    16 => lanes!(wide, |a: i16| -> i16 { a.wrapping_abs() }),
                    32 => lanes!(wide, |a: i32| -> i32 { a.wrapping_abs() }),
                    64 => lanes!(wide, |a: i64| -> i64 { a.wrapping_abs() }),
                    _ => return unsupported("this type"),
                };
                (kind, &two[..1])
            }
            IntegerOp::Neg => (any!(wide, ty, |a| a.wrapping_neg()), &two[..1]),
            IntegerOp::Sad => {
                let kind = match (ty.signed(), ty.bits) {
                    (true, 16) => lanes!(wide, |a: i16, b: i16, c: u16| -> u16 {
                        a.abs_diff(b).wrapping_add(c)
                    }),
                    (true, 32) => lanes!(wide, |a: i32, b: i32, c: u32| -> u32 {
                        a.abs_diff(b).wrapping_add(c)
                    }),
                    (true, 64) => lanes!(wide, |a: i64, b: i64, c: u64| -> u64 {
                        a.abs_diff(b).wrapping_add(c)
                    }),
                    _ => any!(wide, ty, |a, b, c| a.abs_diff(b).wrapping_add(c)),
                };
                return self.emit_plain(form, kind, ty, &[ty; 3]);
            }
        };
        if ty.class == Class::Bits {
            return unsupported("this type");
        }
        self.emit_plain(form, kind, ty, from)
    }

    /// Decodes `add`, `sub` and `mad` with the carry flag as input or output.
    fn carrying(&mut self, form: &mut Form<'a>, op: IntegerOp, ty: Ty) -> Decoded {
        let out = form.flag("cc");
        let carries = matches!(
            op,
            IntegerOp::AddCarry | IntegerOp::SubCarry | IntegerOp::MadCarry
        );
        let subtracts = matches!(op, IntegerOp::Sub | IntegerOp::SubCarry);
        let multiplies = matches!(op, IntegerOp::Mad | IntegerOp::MadCarry);
        let wide = self.wide();
        if !out && !carries {
            let kind = match subtracts {
                false => any!(wide, ty, |a, b| a.wrapping_add(b)),
                true => any!(wide, ty, |a, b| a.wrapping_sub(b)),
            };
            return self.emit_plain(form, kind, ty, &[ty; 2]);
        }
        let high = form.flag("hi");
        if multiplies && !high && !form.flag("lo") {
            return unsupported("without `.lo` or `.hi`");
        }
        if ty.bits != 32 && ty.bits != 64 {
            return unsupported("this type");
        }
        let from = [ty; 3];
        form.arity(if multiplies { 4 } else { 3 })?;
        let mut slots = [0; 3];
        let count = form.operands.len() - 1;
        for (index, slot) in slots[..count].iter_mut().enumerate() {
            *slot = self.source(&form.operands[index + 1], from[index])?;
        }
        let (d, widen) = self.dest(&form.operands[0], ty)?;
        // Bits of `imm`: write the carry; read it; subtract.
        let imm = u64::from(out) | u64::from(carries) << 1 | u64::from(subtracts) << 2;
        if multiplies {
            let product = if ty.bits == 64 {
                self.temp64()
            } else {
                self.temp32()
            };
            let kind = product_kind(wide, ty, high)?;
            self.emit(kind, product, slots[0], slots[1], 0, 0);
            slots = [product, slots[2], 0];
        }
        let kind = if ty.bits == 64 {
            lanes!(wide, with w, i, m {
                let (a, b) = (w.get64(i.a), w.get64(i.b));
                let (d, carry) = carry_chain(a, b, w.carry, i.imm, u64::overflowing_add, |b: u64| !b);
                w.put64(i.d, m, &d);
                if i.imm & 1 != 0 {
                    w.carry = w.carry & !m | carry & m;
                }
            })
        } else {
            lanes!(wide, with w, i, m {
                let (a, b) = (w.get32(i.a), w.get32(i.b));
                let (d, carry) = carry_chain(a, b, w.carry, i.imm, u32::overflowing_add, |b: u32| !b);
                w.put32(i.d, m, &d);
                if i.imm & 1 != 0 {
                    w.carry = w.carry & !m | carry & m;
                }
            })
        };
        self.emit(kind, d, slots[0], slots[1], 0, imm);
        self.finish(widen);
        Ok(())
    }

    /// Decodes logic and bit counts.
    pub(super) fn logic(&mut self, form: &mut Form<'a>, op: LogicOp) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let two = [ty; 2];
        let (kind, to, from) = match op {
            LogicOp::And => (bitwise!(wide, ty, |a, b| a & b), ty, &two[..]),
            LogicOp::Or => (bitwise!(wide, ty, |a, b| a | b), ty, &two[..]),
            LogicOp::Xor => (bitwise!(wide, ty, |a, b| a ^ b), ty, &two[..]),
            LogicOp::Not if ty.class == Class::Pred => {
                let kind = lanes!(wide, with w, i, m {
                    let value = !w.get_pred(i.a);
                    w.put_pred(i.d, m, value);
                });
                (kind, ty, &two[..1])
            }
            LogicOp::Not => (any!(wide, ty, |a| !a), ty, &two[..1]),
            LogicOp::IsZero => (any!(wide, ty, |a| u8::from(a == 0).into()), ty, &two[..1]),
            LogicOp::CountOnes if ty.bits == 32 => (
                lanes!(wide, |a: u32| -> u32 { a.count_ones() }),
                Ty::U32,
                &two[..1],
            ),
            LogicOp::CountOnes => (
                lanes!(wide, |a: u64| -> u32 { a.count_ones() }),
                Ty::U32,
                &two[..1],
            ),
            LogicOp::LeadingZeros if ty.bits == 32 => (
                lanes!(wide, |a: u32| -> u32 { a.leading_zeros() }),
                Ty::U32,
                &two[..1],
            ),
            LogicOp::LeadingZeros => (
                lanes!(wide, |a: u64| -> u32 { a.leading_zeros() }),
                Ty::U32,
                &two[..1],
            ),
            LogicOp::ReverseBits if ty.bits == 32 => (
                lanes!(wide, |a: u32| -> u32 { a.reverse_bits() }),
                ty,
                &two[..1],
            ),
            LogicOp::ReverseBits => (
                lanes!(wide, |a: u64| -> u64 { a.reverse_bits() }),
                ty,
                &two[..1],
            ),
        };
        let counts = matches!(
            op,
            LogicOp::CountOnes | LogicOp::LeadingZeros | LogicOp::ReverseBits
        );
        if counts && !matches!((ty.class, ty.bits), (Class::Bits, 32 | 64)) {
            return unsupported("this type");
        }
        if ty.packed || matches!(ty.class, Class::Float | Class::Brain) {
            return unsupported("this type");
        }
        self.emit_plain(form, kind, to, from)
    }

    /// Decodes `shl`, or `shr` if not `left`.
    pub(super) fn shift(&mut self, form: &mut Form<'a>, left: bool) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        // Shift amounts beyond the width give zero, or the sign.
        let kind = match (left, ty.signed(), ty.bits) {
            (true, _, 16) => lanes!(wide, |a: u16, b: u32| -> u16 {
                if b > 15 { 0 } else { a << b }
            }),
            (true, _, 32) => lanes!(wide, |a: u32, b: u32| -> u32 {
                if b > 31 { 0 } else { a << (b & 31) }
            }),
            (true, _, 64) => lanes!(wide, |a: u64, b: u32| -> u64 {
                if b > 63 { 0 } else { a << (b & 63) }
            }),
            (_, false, 16) => lanes!(wide, |a: u16, b: u32| -> u16 {
                if b > 15 { 0 } else { a >> b }
            }),
            (_, false, 32) => lanes!(wide, |a: u32, b: u32| -> u32 {
                if b > 31 { 0 } else { a >> (b & 31) }
            }),
            (_, false, 64) => lanes!(wide, |a: u64, b: u32| -> u64 {
                if b > 63 { 0 } else { a >> (b & 63) }
            }),
            (_, true, 16) => lanes!(wide, |a: i16, b: u32| -> i16 { a >> b.min(15) }),
            (_, true, 32) => lanes!(wide, |a: i32, b: u32| -> i32 { a >> b.min(31) }),
            (_, true, 64) => lanes!(wide, |a: i64, b: u32| -> i64 { a >> b.min(63) }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, ty, &[ty, Ty::U32])
    }

    /// Decodes `bfind`.
    pub(super) fn find_leading_bit(&mut self, form: &mut Form<'a>) -> Decoded {
        let wide = self.wide();
        let ty = form.ty()?;
        let amount = form.flag("shiftamt");
        let kind = match (ty.signed(), ty.bits, amount) {
            (false, 32, false) => lanes!(wide, |a: u32| -> u32 {
                31u32.wrapping_sub(a.leading_zeros())
            }),
            (false, 32, true) => lanes!(wide, |a: u32| -> u32 {
                if a == 0 { !0 } else { a.leading_zeros() }
            }),
            (true, 32, false) => lanes!(wide, |a: i32| -> u32 {
                31u32.wrapping_sub((a ^ (a >> 31)).leading_zeros())
            }),
            (true, 32, true) => lanes!(wide, |a: i32| -> u32 {
                let a = a ^ (a >> 31);
                if a == 0 { !0 } else { a.leading_zeros() }
            }),
            (false, 64, false) => lanes!(wide, |a: u64| -> u32 {
                63u32.wrapping_sub(a.leading_zeros())
            }),
            (false, 64, true) => lanes!(wide, |a: u64| -> u32 {
                if a == 0 { !0 } else { a.leading_zeros() }
            }),
            (true, 64, false) => lanes!(wide, |a: i64| -> u32 {
                63u32.wrapping_sub((a ^ (a >> 63)).leading_zeros())
            }),
            (true, 64, true) => lanes!(wide, |a: i64| -> u32 {
                let a = a ^ (a >> 63);
                if a == 0 { !0 } else { a.leading_zeros() }
            }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, Ty::U32, &[ty])
    }
}

/// `a + b`, with carry in and out as `flags` specify. `a - b` is computed as `a + !b + 1`, so its
/// carry flag means that nothing was borrowed. An addition that follows a subtraction sees the flag
/// in this form, as NVIDIA's code for 128-bit division expects.
#[inline(always)]
fn carry_chain<T: Copy + Default + From<bool>>(
    a: [T; 32],
    b: [T; 32],
    carry: u32,
    flags: u64,
    add: impl Fn(T, T) -> (T, bool),
    not: impl Fn(T) -> T,
) -> ([T; 32], u32) {
    let mut sums = [T::default(); 32];
    let mut carries = 0;
    let (reads, subtracts) = (flags & 2 != 0, flags & 4 != 0);
    for lane in 0..32 {
        let flag = if reads {
            carry >> lane & 1 != 0
        } else {
            subtracts
        };
        let b = if subtracts { not(b[lane]) } else { b[lane] };
        let (sum, first) = add(a[lane], b);
        let (sum, second) = add(sum, T::from(flag));
        sums[lane] = sum;
        carries |= u32::from(first | second) << lane;
    }
    (sums, carries)
}
