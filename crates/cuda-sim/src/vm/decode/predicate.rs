//! Comparisons and selections.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, half, unsupported};
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::{Bit, lanes};
use crate::vm::rounding::flush;
use crate::vm::vector::Over;
use cuda_ptx::Operand;

const COMPARISONS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

macro_rules! ordered {
    ($wide:expr, $op:expr, $t:ty) => {
        match $op {
            "eq" => lanes!($wide, |a: $t, b: $t| -> Bit { Bit(a == b) }),
            "ne" => lanes!($wide, |a: $t, b: $t| -> Bit { Bit(a != b) }),
            "lt" | "lo" => lanes!($wide, |a: $t, b: $t| -> Bit { Bit(a < b) }),
            "le" | "ls" => lanes!($wide, |a: $t, b: $t| -> Bit { Bit(a <= b) }),
            "gt" | "hi" => lanes!($wide, |a: $t, b: $t| -> Bit { Bit(a > b) }),
            "ge" | "hs" => lanes!($wide, |a: $t, b: $t| -> Bit { Bit(a >= b) }),
            _ => return unsupported("this comparison"),
        }
    };
}

macro_rules! unordered {
    ($wide:expr, $op:expr, $t:ty, $prepare:expr) => {
        match $op {
            "eq" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit($prepare(a) == $prepare(b))
            }),
            "ne" => lanes!($wide, |a: $t, b: $t| -> Bit {
                let (a, b) = ($prepare(a), $prepare(b));
                Bit(a != b && !a.is_nan() && !b.is_nan())
            }),
            "lt" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit($prepare(a) < $prepare(b))
            }),
            "le" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit($prepare(a) <= $prepare(b))
            }),
            "gt" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit($prepare(a) > $prepare(b))
            }),
            "ge" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit($prepare(a) >= $prepare(b))
            }),
            "equ" => lanes!($wide, |a: $t, b: $t| -> Bit {
                let (a, b) = ($prepare(a), $prepare(b));
                Bit(a == b || a.is_nan() || b.is_nan())
            }),
            "neu" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit($prepare(a) != $prepare(b))
            }),
            "ltu" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit(!($prepare(a) >= $prepare(b)))
            }),
            "leu" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit(!($prepare(a) > $prepare(b)))
            }),
            "gtu" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit(!($prepare(a) <= $prepare(b)))
            }),
            "geu" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit(!($prepare(a) < $prepare(b)))
            }),
            "num" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit(!a.is_nan() && !b.is_nan())
            }),
            "nan" => lanes!($wide, |a: $t, b: $t| -> Bit {
                Bit(a.is_nan() || b.is_nan())
            }),
            _ => return unsupported("this comparison"),
        }
    };
}

/// The identity, used where a comparison needs no preparation.
#[inline(always)]
fn same<T>(a: T) -> T {
    a
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `p = a op b` to a predicate slot. For two values in a register it compares the lower
    /// ones, or the upper ones if `upper`.
    #[expect(
        clippy::neg_cmp_op_on_partial_ord,
        reason = "`!(a < b)` is what `geu` means: true for a NaN"
    )]
    fn comparison(
        &mut self,
        form: &Form<'a>,
        (op, ftz): (&str, bool),
        ty: Ty,
        p: Slot,
        upper: bool,
    ) -> Decoded {
        let wide = self.wide();
        let [mut a, mut b] = self.sources(&form.operands[1..3], ty)?;
        let unsigned_name = matches!(op, "lo" | "ls" | "hi" | "hs");
        let kind = match (ty.class, ty.bits) {
            (Class::Unsigned | Class::Bits, 16) => ordered!(wide, op, u16),
            (Class::Unsigned | Class::Bits, 32) => ordered!(wide, op, u32),
            (Class::Unsigned | Class::Bits, 64) => ordered!(wide, op, u64),
            (Class::Signed, _) if unsigned_name => return unsupported("this comparison"),
            (Class::Signed, 16) => ordered!(wide, op, i16),
            (Class::Signed, 32) => ordered!(wide, op, i32),
            (Class::Signed, 64) => ordered!(wide, op, i64),
            (Class::Float, 32) if ftz => unordered!(wide, op, f32, flush),
            (Class::Float, 32) => unordered!(wide, op, f32, same),
            (Class::Float, 64) => unordered!(wide, op, f64, same),
            (Class::Float | Class::Brain, 16) => {
                a = self.half_to_single(a, ty, ftz, upper);
                b = self.half_to_single(b, ty, ftz, upper);
                unordered!(wide, op, f32, same)
            }
            _ => return unsupported("this type"),
        };
        self.emit(kind, p, a, b, 0, 0);
        Ok(())
    }

    fn half_to_single(&mut self, from: Slot, ty: Ty, ftz: bool, upper: bool) -> Slot {
        let to = self.temp32();
        let kind = match (ty.class == Class::Brain, ftz) {
            (true, _) => lanes!(self.wide(), with w, i, m {
                let value = w.get32(i.a).over(|a| half::widen((a >> i.imm) as u16, true).to_bits());
                w.put32(i.d, m, &value);
            }),
            (false, true) => lanes!(self.wide(), with w, i, m {
                let value = w.get32(i.a).over(|a| {
                    let a = (a >> i.imm) as u16;
                    let kept = if a & 0x7c00 == 0 { a & 0x8000 } else { a };
                    half::widen(kept, false).to_bits()
                });
                w.put32(i.d, m, &value);
            }),
            (false, false) => lanes!(self.wide(), with w, i, m {
                let value = w.get32(i.a).over(|a| half::widen((a >> i.imm) as u16, false).to_bits());
                w.put32(i.d, m, &value);
            }),
        };
        self.emit(kind, to, from, 0, 0, if upper { 16 } else { 0 });
        to
    }

    /// Takes the comparison of `set` and `setp`; returns it and whether subnormal numbers are
    /// flushed.
    fn comparing(form: &mut Form<'a>) -> Decoded<(&'static str, bool)> {
        match form.one_of(&COMPARISONS) {
            Some(op) => Ok((op, form.flag("ftz"))),
            None => unsupported("without a comparison"),
        }
    }

    fn combine(
        &mut self,
        op: Option<&str>,
        p: Slot,
        c: Option<Slot>,
        to: Slot,
        negated: bool,
    ) -> Decoded {
        let negate = u64::from(negated);
        let wide = self.wide();
        let kind = match op {
            None => lanes!(wide, with w, i, m {
                let value = w.get_pred(i.a) ^ (i.imm as u32).wrapping_neg();
                w.put_pred(i.d, m, value);
            }),
            Some("and") => lanes!(wide, with w, i, m {
                let value = (w.get_pred(i.a) ^ (i.imm as u32).wrapping_neg()) & w.get_pred(i.b);
                w.put_pred(i.d, m, value);
            }),
            Some("or") => lanes!(wide, with w, i, m {
                let value = (w.get_pred(i.a) ^ (i.imm as u32).wrapping_neg()) | w.get_pred(i.b);
                w.put_pred(i.d, m, value);
            }),
            _ => lanes!(wide, with w, i, m {
                let value = w.get_pred(i.a) ^ (i.imm as u32).wrapping_neg() ^ w.get_pred(i.b);
                w.put_pred(i.d, m, value);
            }),
        };
        self.emit(kind, to, p, c.unwrap_or(p), 0, negate);
        Ok(())
    }

    pub(super) fn setp(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        let combine = form.one_of(&["and", "or", "xor"]);
        form.arity(if combine.is_some() { 4 } else { 3 })?;
        let (first, second) = match &form.operands[0] {
            Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
            other => (other, None),
        };
        let (p, _) = self.dest(first, Ty::PRED)?;
        let how = Self::comparing(form)?;
        if ty.packed && second.is_none() {
            return unsupported("one predicate for two values");
        }
        if combine.is_none() && second.is_none() {
            return self.comparison(form, how, ty, p, false);
        }
        let c = match combine {
            Some(_) => Some(self.predicate(&form.operands[3])?),
            None => None,
        };
        let result = self.temp_pred();
        self.comparison(form, how, ty, result, false)?;
        if let Some(second) = second {
            let (q, _) = self.dest(second, Ty::PRED)?;
            // `c` may be one of the destinations.
            let spare = self.temp_pred();
            if ty.packed {
                let upper = self.temp_pred();
                self.comparison(form, how, ty, upper, true)?;
                self.combine(combine, upper, c, spare, false)?;
            } else {
                self.combine(combine, result, c, spare, true)?;
            }
            self.combine(combine, result, c, p, false)?;
            return self.combine(None, spare, None, q, false);
        }
        self.combine(combine, result, c, p, false)
    }

    pub(super) fn set(&mut self, form: &mut Form<'a>) -> Decoded {
        let from = form.ty()?;
        let to = form.ty()?;
        let combine = form.one_of(&["and", "or", "xor"]);
        form.arity(if combine.is_some() { 4 } else { 3 })?;
        let c = match combine {
            Some(_) => Some(self.predicate(&form.operands[3])?),
            None => None,
        };
        let how = Self::comparing(form)?;
        let one = match (to.class, to.bits) {
            (Class::Float, 32) => 1f32.to_bits(),
            (Class::Unsigned | Class::Signed, 32) if from.packed => 0xffff,
            (Class::Unsigned | Class::Signed, 32) => u32::MAX,
            (Class::Unsigned | Class::Signed, 16) if !to.packed => 0xffff,
            (Class::Float, 16) => 0x3c00,
            (Class::Brain, 16) => 0x3f80,
            _ => return unsupported("this type"),
        };
        if to.packed && !from.packed || from.packed && to.width() != 32 {
            return unsupported("this type");
        }
        let (d, widen) = self.dest(&form.operands[0], to)?;
        let (yes, no) = (self.const32(one), self.const32(0));
        let kind = self.select_kind(32);
        let result = self.temp_pred();
        self.comparison(form, how, from, result, false)?;
        self.combine(combine, result, c, result, false)?;
        if from.packed {
            let (high, upper) = (self.const32(one << 16), self.temp_pred());
            self.comparison(form, how, from, upper, true)?;
            self.combine(combine, upper, c, upper, false)?;
            let halves = [self.temp32(), self.temp32()];
            self.emit(kind, halves[0], yes, no, result, 0);
            self.emit(kind, halves[1], high, no, upper, 0);
            let join = lanes!(self.wide(), |a: u32, b: u32| -> u32 { a | b });
            self.emit(join, d, halves[0], halves[1], 0, 0);
        } else {
            self.emit(kind, d, yes, no, result, 0);
        }
        self.finish(widen);
        Ok(())
    }

    fn select_kind(&self, bits: u32) -> Kind {
        let wide = self.wide();
        if bits == 64 {
            lanes!(wide, |a: u64, b: u64, c: Bit| -> u64 {
                if c.0 { a } else { b }
            })
        } else {
            lanes!(wide, |a: u32, b: u32, c: Bit| -> u32 {
                if c.0 { a } else { b }
            })
        }
    }

    pub(super) fn selp(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        if ty.class == Class::Pred || ty.bits < 16 {
            return unsupported("this type");
        }
        let kind = self.select_kind(ty.width());
        self.emit_plain(form, kind, ty, &[ty, ty, Ty::PRED])
    }

    pub(super) fn slct(&mut self, form: &mut Form<'a>) -> Decoded {
        let by = form.ty()?;
        let ty = form.ty()?;
        let ftz = form.flag("ftz");
        let wide = self.wide();
        form.arity(4)?;
        let p = self.temp_pred();
        let c = self.source(&form.operands[3], by)?;
        let kind = match (by.class, by.bits) {
            (Class::Signed, 32) => lanes!(wide, |a: i32| -> Bit { Bit(a >= 0) }),
            (Class::Float, 32) if ftz => lanes!(wide, |a: f32| -> Bit { Bit(flush(a) >= 0.0) }),
            (Class::Float, 32) => lanes!(wide, |a: f32| -> Bit { Bit(a >= 0.0) }),
            _ => return unsupported("this type"),
        };
        self.emit(kind, p, c, 0, 0, 0);
        let [a, b] = self.sources(&form.operands[1..3], ty)?;
        let (d, widen) = self.dest(&form.operands[0], ty)?;
        let kind = self.select_kind(ty.width());
        self.emit(kind, d, a, b, p, 0);
        self.finish(widen);
        Ok(())
    }

    pub(super) fn testp(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        let wide = self.wide();
        let names = [
            "finite",
            "infinite",
            "number",
            "notanumber",
            "normal",
            "subnormal",
        ];
        let what = form.one_of(&names);
        macro_rules! test {
            ($t:ty) => {
                match what {
                    Some("finite") => lanes!(wide, |a: $t| -> Bit { Bit(a.is_finite()) }),
                    Some("infinite") => lanes!(wide, |a: $t| -> Bit { Bit(a.is_infinite()) }),
                    Some("number") => lanes!(wide, |a: $t| -> Bit { Bit(!a.is_nan()) }),
                    Some("notanumber") => lanes!(wide, |a: $t| -> Bit { Bit(a.is_nan()) }),
                    Some("normal") => {
                        lanes!(wide, |a: $t| -> Bit { Bit(a.is_normal() || a == 0.0) })
                    }
                    Some("subnormal") => lanes!(wide, |a: $t| -> Bit { Bit(a.is_subnormal()) }),
                    _ => return unsupported("this test"),
                }
            };
        }
        let kind = match (ty.class, ty.bits) {
            (Class::Float, 32) => test!(f32),
            (Class::Float, 64) => test!(f64),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, Ty::PRED, &[ty])
    }
}
