//! Arithmetic on f16 and bf16, one or two values per register.

use crate::vm::vector::each;
use half::{bf16, f16};

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::operation::FloatOp;
use super::{Decoded, unsupported};
use crate::vm::lanes::lanes;
use crate::vm::rounding::{Round, round_f32};

/// Bits of `Ins::imm`: the operation, then these flags.
const BRAIN: u64 = 1 << 8;
const FTZ: u64 = 1 << 9;
const SAT: u64 = 1 << 10;
const RELU: u64 = 1 << 11;
const NAN: u64 = 1 << 12;

/// The operations with a form for 16 bits; the index is the number in `Ins::imm`.
const OPERATIONS: [FloatOp; 10] = [
    FloatOp::Add,
    FloatOp::Sub,
    FloatOp::Mul,
    FloatOp::Fma,
    FloatOp::Min,
    FloatOp::Max,
    FloatOp::Neg,
    FloatOp::Abs,
    FloatOp::Exp2,
    FloatOp::Tanh,
];

/// The value of 16 bits as f32.
pub(in crate::vm) fn widen(bits: u16, brain: bool) -> f32 {
    if brain {
        bf16::from_bits(bits).to_f32()
    } else {
        f16::from_bits(bits).to_f32()
    }
}

/// `high + low`, rounded once to 16 bits.
pub(in crate::vm) fn narrow(high: f64, low: f64, brain: bool) -> u16 {
    if high.is_nan() {
        return 0x7fff;
    }
    // Go through f32 with rounding to odd. It has enough bits for the second rounding to be the
    // only effective one.
    let mut value = round_f32(high, Round::Zero);
    let rest = high - f64::from(value);
    let below = rest != 0.0 || low != 0.0;
    if below && value.is_finite() && high.is_finite() {
        let against = rest == 0.0 && low != 0.0 && (low < 0.0) == (high > 0.0);
        if against && value != 0.0 {
            value = f32::from_bits(value.to_bits() - 1);
        }
        value = f32::from_bits(value.to_bits() | 1);
    }
    if brain {
        bf16::from_f32(value).to_bits()
    } else {
        f16::from_f32(value).to_bits()
    }
}

/// `a + b`
pub(in crate::vm) fn add(a: u16, b: u16, brain: bool) -> u16 {
    compute(if brain { BRAIN } else { 0 }, a, b, 0)
}

fn flush(bits: u16, flags: u64) -> u16 {
    let exponent = if flags & BRAIN != 0 { 0x7f80 } else { 0x7c00 };
    if flags & FTZ != 0 && bits & exponent == 0 {
        bits & 0x8000
    } else {
        bits
    }
}

/// Whether `high + low` is below the least normal number.
fn is_tiny(high: f64, low: f64, brain: bool) -> bool {
    let least = widen(if brain { 0x80 } else { 0x400 }, brain).into();
    high.abs() < least || high.abs() == least && low != 0.0 && (low < 0.0) == (high > 0.0)
}

/// Replaces any NaN by the canonical one. The ISA does not specify which NaN `neg` and `abs`
/// return; an H200 returns this one.
fn canonical(bits: u16, brain: bool) -> u16 {
    let infinity = if brain { 0x7f80 } else { 0x7c00 };
    if bits & 0x7fff > infinity {
        0x7fff
    } else {
        bits
    }
}

fn compute(flags: u64, a: u16, b: u16, c: u16) -> u16 {
    let brain = flags & BRAIN != 0;
    let operation = OPERATIONS
        .get((flags & 0xff) as usize)
        .copied()
        .unwrap_or(FloatOp::Add);
    match operation {
        FloatOp::Neg => return canonical(flush(a, flags) ^ 0x8000, brain),
        FloatOp::Abs => return canonical(flush(a, flags) & 0x7fff, brain),
        _ => {}
    }
    let value = |bits| f64::from(widen(flush(bits, flags), brain));
    let (a, b, c) = (value(a), value(b), value(c));
    let exact = |x: f64, y: f64| {
        let sum = x + y;
        let rest = sum - x;
        let low = (x - (sum - rest)) + (y - rest);
        let low = if low.is_finite() { low } else { 0.0 };
        if sum == 0.0 { (sum, 0.0) } else { (sum, low) }
    };
    let (high, low) = match operation {
        FloatOp::Add => exact(a, b),
        FloatOp::Sub => exact(a, -b),
        FloatOp::Mul => (a * b, 0.0),
        FloatOp::Fma => exact(a * b, c),
        FloatOp::Exp2 => (libm::exp2(a), 0.0),
        FloatOp::Tanh => (libm::tanh(a), 0.0),
        FloatOp::Min | FloatOp::Max => {
            let sign = if operation == FloatOp::Max { -1.0 } else { 1.0 };
            let (x, y) = (a * sign, b * sign);
            let smaller = if x < y || (x == y && x.is_sign_negative()) {
                x
            } else {
                y
            };
            let chosen = match (x.is_nan(), y.is_nan()) {
                (true, _) | (_, true) if flags & NAN != 0 => f64::NAN,
                (true, true) => f64::NAN,
                (true, false) => y,
                (false, true) => x,
                _ => smaller,
            };
            (chosen * sign, 0.0)
        }
        _ => (f64::NAN, 0.0),
    };
    // The flush test uses the value before rounding, see `rounding::flush_rounded`.
    let mut bits = match flags & FTZ != 0 && is_tiny(high, low, brain) {
        true => u16::from(high.is_sign_negative()) << 15,
        false => narrow(high, low, brain),
    };
    let nan = high.is_nan();
    if flags & SAT != 0 {
        bits = narrow(
            super::float::clamp_unit(f64::from(widen(bits, brain))),
            0.0,
            brain,
        );
    }
    if flags & RELU != 0 && bits & 0x8000 != 0 && !nan {
        bits = 0;
    }
    bits
}

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn half(&mut self, form: &mut Form<'a>, op: FloatOp) -> Decoded {
        let ty = form.ty()?;
        let Some(operation) = OPERATIONS.iter().position(|&other| other == op) else {
            return unsupported("");
        };
        form.flag("rn");
        form.flag("approx");
        let mut imm = operation as u64;
        let options = [("ftz", FTZ), ("sat", SAT), ("relu", RELU), ("NaN", NAN)];
        for (name, bit) in options {
            if form.flag(name) {
                imm |= bit;
            }
        }
        if ty.class == Class::Brain {
            imm |= BRAIN;
        }
        let count = op.sources();
        form.arity(count + 1)?;
        let mut slots = [0; 3];
        for (slot, operand) in slots.iter_mut().zip(&form.operands[1..]) {
            *slot = self.source(
                operand,
                Ty {
                    class: Class::Bits,
                    ..ty
                },
            )?;
        }
        let (d, widen) = self.dest(&form.operands[0], ty)?;
        let kind = if ty.packed {
            lanes!(self.wide(), with w, i, m {
                let (a, b, c) = (w.get32(i.a), w.get32(i.b), w.get32(i.c));
                let value = each(|lane| {
                    let (a, b, c) = (a[lane], b[lane], c[lane]);
                    let low = compute(i.imm, a as u16, b as u16, c as u16);
                    let high =
                        compute(i.imm, (a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
                    u32::from(high) << 16 | u32::from(low)
                });
                w.put32(i.d, m, &value);
            })
        } else {
            lanes!(self.wide(), with w, i, m {
                let (a, b, c) = (w.get32(i.a), w.get32(i.b), w.get32(i.c));
                let value = each(|lane| {
                    u32::from(compute(i.imm, a[lane] as u16, b[lane] as u16, c[lane] as u16))
                });
                w.put32(i.d, m, &value);
            })
        };
        // Absent sources read the first register of the frame, which a function may not have.
        let spare = slots[0];
        for slot in &mut slots[count..] {
            *slot = spare;
        }
        self.emit(kind, d, slots[0], slots[1], slots[2], imm);
        self.finish(widen);
        Ok(())
    }
}
