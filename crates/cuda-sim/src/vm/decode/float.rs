//! Arithmetic on f32 and f64.

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::operation::FloatOp;
use super::{Decoded, unsupported};
use crate::vm::code::{Kind, Slot};
use crate::vm::lanes::lanes;
use crate::vm::rounding::{
    self, NAN32, Round, canonical, flush, flush_rounded, fused32, fused64, saturate, saturate64,
};
use crate::vm::vector::{Over, each};

/// Bits of `Ins::imm` next to those of the rounding mode.
const FTZ: u64 = 4;
const SAT: u64 = 8;
const NAN: u64 = 16;

/// An f32 operation that evaluates all options at run time.
macro_rules! slow {
    ($wide:expr, |$round:ident, $a:ident| $body:expr) => {
        lanes!($wide, with w, i, m {
            let a = w.get32(i.a);
            let value = each(|lane| {
                let $a = input(a[lane], i.imm);
                rounded(|$round| $body, i.imm)
            });
            w.put32(i.d, m, &value);
        })
    };
    ($wide:expr, |$round:ident, $a:ident, $b:ident| $body:expr) => {
        lanes!($wide, with w, i, m {
            let (a, b) = (w.get32(i.a), w.get32(i.b));
            let value = each(|lane| {
                let ($a, $b) = (input(a[lane], i.imm), input(b[lane], i.imm));
                rounded(|$round| $body, i.imm)
            });
            w.put32(i.d, m, &value);
        })
    };
    ($wide:expr, |$round:ident, $a:ident, $b:ident, $c:ident| $body:expr) => {
        lanes!($wide, with w, i, m {
            let (a, b, c) = (w.get32(i.a), w.get32(i.b), w.get32(i.c));
            let value = each(|lane| {
                let ($a, $b) = (input(a[lane], i.imm), input(b[lane], i.imm));
                let $c = input(c[lane], i.imm);
                rounded(|$round| $body, i.imm)
            });
            w.put32(i.d, m, &value);
        })
    };
}

/// An f64 operation with a rounding mode.
macro_rules! slow64 {
    ($wide:expr, |$round:ident, $a:ident| $body:expr) => {
        lanes!($wide, with w, i, m {
            let $round = Round::from_bits(i.imm);
            let value = w.get64(i.a).over(|a| {
                let $a = f64::from_bits(a);
                f64::to_bits($body)
            });
            w.put64(i.d, m, &value);
        })
    };
    ($wide:expr, |$round:ident, $a:ident, $b:ident| $body:expr) => {
        lanes!($wide, with w, i, m {
            let $round = Round::from_bits(i.imm);
            let (a, b) = (w.get64(i.a), w.get64(i.b));
            let value = each(|lane| {
                let ($a, $b) = (f64::from_bits(a[lane]), f64::from_bits(b[lane]));
                f64::to_bits($body)
            });
            w.put64(i.d, m, &value);
        })
    };
    ($wide:expr, |$round:ident, $a:ident, $b:ident, $c:ident| $body:expr) => {
        lanes!($wide, with w, i, m {
            let $round = Round::from_bits(i.imm);
            let (a, b, c) = (w.get64(i.a), w.get64(i.b), w.get64(i.c));
            let value = each(|lane| {
                let ($a, $b) = (f64::from_bits(a[lane]), f64::from_bits(b[lane]));
                let $c = f64::from_bits(c[lane]);
                f64::to_bits($body)
            });
            w.put64(i.d, m, &value);
        })
    };
}

#[inline(always)]
pub(super) fn input(bits: u32, flags: u64) -> f32 {
    let value = f32::from_bits(bits);
    if flags & FTZ != 0 {
        flush(value)
    } else {
        value
    }
}

#[inline(always)]
fn output(value: f32, flags: u64) -> u32 {
    let value = if flags & FTZ != 0 {
        flush(value)
    } else {
        value
    };
    if flags & SAT != 0 {
        saturate(value).to_bits()
    } else {
        canonical(value).to_bits()
    }
}

/// The result of `f` in a rounding mode, with the options of the instruction.
#[inline(always)]
pub(super) fn rounded(f: impl Fn(Round) -> f32, flags: u64) -> u32 {
    let round = Round::from_bits(flags);
    let value = if flags & FTZ != 0 {
        flush_rounded(round, f)
    } else {
        f(round)
    };
    output(value, flags)
}

/// The minimum; of two zeros the negative one; the number if one operand is a NaN.
#[inline(always)]
fn min32(a: f32, b: f32) -> f32 {
    let smaller = if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        smaller
    }
}

#[inline(always)]
fn min64(a: f64, b: f64) -> f64 {
    let smaller = if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        smaller
    }
}

/// The upper half of an approximate f64 result, computed from the upper half of a number. Subnormal
/// numbers are flushed to zero before and after.
fn rough(a: f64, f: impl Fn(f64) -> f64) -> f64 {
    let flush = |value: f64| match value.is_subnormal() {
        true => 0.0_f64.copysign(value),
        false => value,
    };
    let upper = |value: f64| f64::from_bits(value.to_bits() & !0xffff_ffff);
    upper(flush(f(flush(upper(a)))))
}

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn float(&mut self, form: &mut Form<'a>, op: FloatOp) -> Decoded {
        let ty = form.ty()?;
        if ty.class != Class::Float || ty.bits < 32 {
            return unsupported("this type");
        }
        let double = ty.bits == 64;
        let round = form.one_of(&["rn", "rz", "rm", "rp"]);
        let approx = form.one_of(&["approx", "full"]).is_some();
        let ftz = form.flag("ftz");
        let sat = form.flag("sat");
        let is_extreme = matches!(op, FloatOp::Min | FloatOp::Max);
        let nan = is_extreme && form.flag("NaN");
        let mode = match round {
            Some("rz") => Round::Zero,
            Some("rm") => Round::Down,
            Some("rp") => Round::Up,
            _ => Round::Near,
        };
        let imm = mode.bits()
            | if ftz { FTZ } else { 0 }
            | if sat { SAT } else { 0 }
            | if nan { NAN } else { 0 };
        if ty.packed {
            if approx || sat || nan {
                return unsupported("this modifier on packed values");
            }
            return self.packed_floats(form, op, imm);
        }
        let kind = if double {
            if sat || (ftz && !approx) {
                return unsupported("`.ftz` or `.sat` on f64");
            }
            self.double_kind(op, approx && ftz, mode)?
        } else if imm == 0 {
            self.single_kind(op)?
        } else {
            self.single_slow(op)?
        };
        if is_extreme && form.operands.len() == 4 {
            return self.extreme_of_three(form, ty, kind, imm);
        }
        let (slots, d, widen) = self.float_operands(form, ty, op.sources())?;
        self.emit(kind, d, slots[0], slots[1], slots[2], imm);
        self.finish(widen);
        Ok(())
    }

    /// Decodes `min` and `max` of three f32, which apply the operation twice. With `.abs` the
    /// sources are replaced by their absolute values.
    fn extreme_of_three(&mut self, form: &mut Form<'a>, ty: Ty, kind: Kind, imm: u64) -> Decoded {
        if ty.bits != 32 || imm & SAT != 0 {
            return unsupported("a third source");
        }
        let mut sources: [Slot; 3] = self.sources(&form.operands[1..4], ty)?;
        if form.flag("abs") {
            for source in &mut sources {
                let magnitude = self.temp32();
                let abs = lanes!(self.wide(), |a: u32| -> u32 { a & 0x7fff_ffff });
                self.emit(abs, magnitude, *source, 0, 0, 0);
                *source = magnitude;
            }
        }
        let [a, b, c] = sources;
        let of_two = self.temp32();
        self.emit(kind, of_two, a, b, 0, imm);
        let (d, widen) = self.dest(&form.operands[0], ty)?;
        self.emit(kind, d, of_two, c, 0, imm);
        self.finish(widen);
        Ok(())
    }

    fn float_operands(
        &mut self,
        form: &Form<'a>,
        ty: Ty,
        count: usize,
    ) -> Decoded<([Slot; 3], Slot, Option<super::operand::Widen>)> {
        form.arity(count + 1)?;
        let mut slots = [0; 3];
        for (slot, operand) in slots.iter_mut().zip(&form.operands[1..]) {
            *slot = self.source(operand, ty)?;
        }
        let (d, widen) = self.dest(&form.operands[0], ty)?;
        Ok((slots, d, widen))
    }

    /// The operation in its common form: round to nearest, without flushing or saturation.
    fn single_kind(&self, op: FloatOp) -> Decoded<Kind> {
        let wide = self.wide();
        Ok(match op {
            FloatOp::Add => lanes!(wide, |a: f32, b: f32| -> f32 { canonical(a + b) }),
            FloatOp::Sub => lanes!(wide, |a: f32, b: f32| -> f32 { canonical(a - b) }),
            FloatOp::Mul => lanes!(wide, |a: f32, b: f32| -> f32 { canonical(a * b) }),
            FloatOp::Div => lanes!(wide, |a: f32, b: f32| -> f32 { canonical(a / b) }),
            FloatOp::Fma | FloatOp::Mad => {
                lanes!(wide, |a: f32, b: f32, c: f32| -> f32 {
                    canonical(fused32(a, b, c))
                })
            }
            FloatOp::Sqrt => lanes!(wide, |a: f32| -> f32 { canonical(a.sqrt()) }),
            FloatOp::Reciprocal => lanes!(wide, |a: f32| -> f32 { canonical(1.0 / a) }),
            FloatOp::ReciprocalSqrt => lanes!(wide, |a: f32| -> f32 { canonical(1.0 / a.sqrt()) }),
            // The ISA does not specify which NaN `neg` of a NaN returns; an H200 returns the
            // canonical one.
            FloatOp::Neg => lanes!(wide, |a: f32| -> f32 { canonical(-a) }),
            FloatOp::Abs => lanes!(wide, |a: f32| -> f32 { canonical(a.abs()) }),
            FloatOp::CopySign => lanes!(wide, |a: u32, b: u32| -> u32 {
                a & 1 << 31 | b & !(1 << 31)
            }),
            FloatOp::Min => lanes!(wide, |a: f32, b: f32| -> f32 { canonical(min32(a, b)) }),
            FloatOp::Max => lanes!(wide, |a: f32, b: f32| -> f32 { canonical(-min32(-a, -b)) }),
            FloatOp::Sin | FloatOp::Cos | FloatOp::Log2 | FloatOp::Exp2 | FloatOp::Tanh => {
                return self.single_slow(op);
            }
        })
    }

    fn single_slow(&self, op: FloatOp) -> Decoded<Kind> {
        let wide = self.wide();
        Ok(match op {
            FloatOp::Add => slow!(wide, |round, a, b| rounding::add32(a, b, round)),
            FloatOp::Sub => slow!(wide, |round, a, b| rounding::add32(a, -b, round)),
            FloatOp::Mul => slow!(wide, |round, a, b| rounding::mul32(a, b, round)),
            FloatOp::Div => slow!(wide, |round, a, b| rounding::div32(a, b, round)),
            FloatOp::Fma | FloatOp::Mad => {
                slow!(wide, |round, a, b, c| rounding::fma32(a, b, c, round))
            }
            FloatOp::Sqrt => slow!(wide, |round, a| rounding::sqrt32(a, round)),
            FloatOp::Reciprocal => slow!(wide, |round, a| rounding::div32(1.0, a, round)),
            FloatOp::ReciprocalSqrt => slow!(wide, |_round, a| 1.0 / a.sqrt()),
            FloatOp::Sin => slow!(wide, |_round, a| libm::sinf(a)),
            FloatOp::Cos => slow!(wide, |_round, a| libm::cosf(a)),
            FloatOp::Log2 => slow!(wide, |_round, a| libm::log2f(a)),
            FloatOp::Exp2 => slow!(wide, |_round, a| libm::exp2f(a)),
            FloatOp::Tanh => slow!(wide, |_round, a| libm::tanhf(a)),
            FloatOp::Neg => slow!(wide, |_round, a| -a),
            FloatOp::Abs => slow!(wide, |_round, a| a.abs()),
            FloatOp::Min => lanes!(wide, with w, i, m {
                let (a, b) = (w.get32(i.a), w.get32(i.b));
                let value = each(|lane| {
                    output(extreme(input(a[lane], i.imm), input(b[lane], i.imm), i.imm), i.imm)
                });
                w.put32(i.d, m, &value);
            }),
            FloatOp::Max => lanes!(wide, with w, i, m {
                let (a, b) = (w.get32(i.a), w.get32(i.b));
                let value = each(|lane| {
                    output(-extreme(-input(a[lane], i.imm), -input(b[lane], i.imm), i.imm), i.imm)
                });
                w.put32(i.d, m, &value);
            }),
            FloatOp::CopySign => return unsupported(""),
        })
    }

    fn double_kind(&self, op: FloatOp, is_rough: bool, mode: Round) -> Decoded<Kind> {
        let wide = self.wide();
        let near = mode == Round::Near;
        Ok(match op {
            FloatOp::Add if near => lanes!(wide, |a: f64, b: f64| -> f64 { a + b }),
            FloatOp::Sub if near => lanes!(wide, |a: f64, b: f64| -> f64 { a - b }),
            FloatOp::Mul if near => lanes!(wide, |a: f64, b: f64| -> f64 { a * b }),
            FloatOp::Fma | FloatOp::Mad if near => {
                lanes!(wide, |a: f64, b: f64, c: f64| -> f64 { fused64(a, b, c) })
            }
            FloatOp::Add => slow64!(wide, |round, a, b| rounding::add64(a, b, round)),
            FloatOp::Sub => slow64!(wide, |round, a, b| rounding::add64(a, -b, round)),
            FloatOp::Mul => slow64!(wide, |round, a, b| rounding::mul64(a, b, round)),
            FloatOp::Fma | FloatOp::Mad => {
                slow64!(wide, |round, a, b, c| rounding::fma64(a, b, c, round))
            }
            FloatOp::Div => slow64!(wide, |round, a, b| rounding::div64(a, b, round)),
            FloatOp::Sqrt => slow64!(wide, |round, a| rounding::sqrt64(a, round)),
            FloatOp::Reciprocal if is_rough => {
                lanes!(wide, |a: f64| -> f64 { rough(a, |a| 1.0 / a) })
            }
            FloatOp::Reciprocal => slow64!(wide, |round, a| rounding::div64(1.0, a, round)),
            FloatOp::ReciprocalSqrt if is_rough => {
                lanes!(wide, |a: f64| -> f64 { rough(a, |a| 1.0 / a.sqrt()) })
            }
            FloatOp::ReciprocalSqrt => lanes!(wide, |a: f64| -> f64 { 1.0 / a.sqrt() }),
            FloatOp::Neg => lanes!(wide, |a: f64| -> f64 { -a }),
            FloatOp::Abs => lanes!(wide, |a: f64| -> f64 { a.abs() }),
            FloatOp::CopySign => lanes!(wide, |a: f64, b: f64| -> f64 { b.copysign(a) }),
            FloatOp::Min => lanes!(wide, |a: f64, b: f64| -> f64 { min64(a, b) }),
            FloatOp::Max => lanes!(wide, |a: f64, b: f64| -> f64 { -min64(-a, -b) }),
            FloatOp::Sin | FloatOp::Cos | FloatOp::Log2 | FloatOp::Exp2 | FloatOp::Tanh => {
                return unsupported("");
            }
        })
    }
}

fn extreme(a: f32, b: f32, flags: u64) -> f32 {
    if flags & NAN != 0 && (a.is_nan() || b.is_nan()) {
        return NAN32;
    }
    min32(a, b)
}

/// Saturates an f64, for conversions.
pub(super) fn clamp_unit(value: f64) -> f64 {
    saturate64(value)
}
