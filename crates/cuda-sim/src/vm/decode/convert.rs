//! Conversions: `cvt`.

use super::float::clamp_unit;
use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::half;
use super::{Decoded, unsupported};
use crate::vm::code::Kind;
use crate::vm::lanes::lanes;
use crate::vm::rounding::{self, Round, canonical, flush, flush_rounded};
use crate::vm::vector::{Over, each};

/// Bits of `Ins::imm` next to those of the rounding mode.
const FTZ: u64 = 1 << 2;
const SAT: u64 = 1 << 3;
const RELU: u64 = 1 << 4;
/// The result is rounded to an integral value (`.rni` and so on).
const INTEGRAL: u64 = 1 << 5;
/// The position of the types: `pack` is shifted by this.
const FROM: u32 = 8;
const TO: u32 = 24;

fn pack(ty: Ty) -> u64 {
    let class = match ty.class {
        Class::Unsigned => 0,
        Class::Signed => 1,
        Class::Float => 2,
        _ => 3,
    };
    u64::from(ty.bits) << 2 | class
}

fn unpack(bits: u64) -> Ty {
    let class = match bits & 3 {
        0 => Class::Unsigned,
        1 => Class::Signed,
        2 => Class::Float,
        _ => Class::Brain,
    };
    Ty::new(class, (bits >> 2 & 0xff) as u32)
}

/// A number during a conversion.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

fn read(bits: u64, ty: Ty) -> Number {
    match (ty.class, ty.bits) {
        (Class::Unsigned, 8) => Number::Int((bits as u8).into()),
        (Class::Unsigned, 16) => Number::Int((bits as u16).into()),
        (Class::Unsigned, 32) => Number::Int((bits as u32).into()),
        (Class::Unsigned, _) => Number::Int(bits.into()),
        (Class::Signed, 8) => Number::Int((bits as i8).into()),
        (Class::Signed, 16) => Number::Int((bits as i16).into()),
        (Class::Signed, 32) => Number::Int((bits as i32).into()),
        (Class::Signed, _) => Number::Int((bits as i64).into()),
        (Class::Float, 64) => Number::Float(f64::from_bits(bits)),
        (Class::Float, 32) => Number::Float(f32::from_bits(bits as u32).into()),
        (class, _) => Number::Float(half::widen(bits as u16, class == Class::Brain).into()),
    }
}

/// Performs any conversion.
fn convert(bits: u64, imm: u64) -> u64 {
    let (from, to) = (unpack(imm >> FROM), unpack(imm >> TO));
    let round = Round::from_bits(imm);
    let mut number = read(bits, from);
    let single = |ty: Ty| ty.class == Class::Float && ty.bits == 32;
    if imm & FTZ != 0
        && single(from)
        && let Number::Float(value) = number
    {
        number = Number::Float(flush(value as f32).into());
    }
    match (number, to.class) {
        (Number::Int(value), Class::Unsigned | Class::Signed) => {
            if imm & SAT != 0 {
                clamp(value, to) as u64
            } else {
                value as u64
            }
        }
        (Number::Float(value), Class::Unsigned | Class::Signed) => {
            if value.is_nan() {
                let zero = from.bits != 64 && to.bits != 64;
                return if zero { 0 } else { 1 << (to.bits - 1) };
            }
            let value = rounding::integral(value, round);
            clamp(value as i128, to) as u64
        }
        (Number::Int(value), _) => {
            let value = match to.bits {
                64 => rounding::int_to_f64(value, round),
                32 => rounding::int_to_f32(value, round).into(),
                _ => rounding::int_to_odd(value),
            };
            write(value, to, round, imm)
        }
        (Number::Float(value), _) => {
            let integral = imm & INTEGRAL != 0;
            let value = if integral {
                rounding::integral(value, round)
            } else {
                value
            };
            write(value, to, round, imm)
        }
    }
}

fn clamp(value: i128, to: Ty) -> i128 {
    if to.signed() {
        value.clamp(-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << to.bits) - 1)
    }
}

fn write(mut value: f64, to: Ty, round: Round, imm: u64) -> u64 {
    if imm & SAT != 0 {
        value = clamp_unit(value);
    }
    // This also applies to negative zero.
    if imm & RELU != 0 && value <= 0.0 {
        value = 0.0;
    }
    match (to.class, to.bits) {
        (_, 64) => value.to_bits(),
        (_, 32) => {
            let rounded = |round| canonical(rounding::round_f32(value, round));
            let value = match imm & FTZ != 0 {
                true => flush_rounded(round, rounded),
                false => rounded(round),
            };
            value.to_bits().into()
        }
        (class, _) => {
            let brain = class == Class::Brain;
            let near = half::narrow(value, 0.0, brain);
            let back = f64::from(half::widen(near, brain));
            // If the nearest value is on the wrong side, step back by one. It has the sign of
            // `value`, even if it is zero.
            let is_negative = near >> 15 == 1;
            let step = match round {
                Round::Near => 0,
                Round::Zero => -i16::from(back.abs() > value.abs()),
                Round::Down if is_negative => i16::from(back > value),
                Round::Down => -i16::from(back > value),
                Round::Up if is_negative => -i16::from(back < value),
                Round::Up => i16::from(back < value),
            };
            u64::from(near.wrapping_add_signed(step))
        }
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `cvt`.
    pub(super) fn conversion(&mut self, form: &mut Form<'a>) -> Decoded {
        if form
            .modifiers
            .iter()
            .any(|name| super::convert_small::TYPES.contains(name))
        {
            return self.convert_small(form);
        }
        if form.flag("pack") {
            return self.convert_pack(form);
        }
        if form.flag("tf32") {
            return self.convert_tf32(form);
        }
        self.convert(form)
    }

    fn convert(&mut self, form: &mut Form<'a>) -> Decoded {
        let from = form.ty()?;
        let to = form.ty()?;
        let rounding = form.one_of(&["rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"]);
        let mode = match rounding {
            Some("rz" | "rzi") => Round::Zero,
            Some("rm" | "rmi") => Round::Down,
            Some("rp" | "rpi") => Round::Up,
            _ => Round::Near,
        };
        let mut imm = mode.bits() | pack(from) << FROM | pack(to) << TO;
        if rounding.is_some_and(|name| name.ends_with('i')) {
            imm |= INTEGRAL;
        }
        let options = [("ftz", FTZ), ("sat", SAT), ("relu", RELU)];
        let mut plain =
            mode == Round::Near || to.class == Class::Signed || to.class == Class::Unsigned;
        for (name, bit) in options {
            if form.flag(name) {
                imm |= bit;
                plain = false;
            }
        }
        if matches!(from.class, Class::Bits | Class::Pred) || from.packed {
            return unsupported("this type");
        }
        if to.packed {
            return self.convert_pair(form, from, to, imm);
        }
        if matches!(to.class, Class::Bits | Class::Pred) {
            return unsupported("this type");
        }
        let kind = match self.convert_fast(
            from,
            to,
            plain && imm & INTEGRAL == 0,
            plain && mode == Round::Zero,
        ) {
            Some(kind) => kind,
            None => self.convert_slow(from, to, imm),
        };
        form.arity(2)?;
        let a = self.source(&form.operands[1], from)?;
        let (d, widen) = self.dest(&form.operands[0], to)?;
        self.emit(kind, d, a, 0, 0, imm);
        self.finish(widen);
        Ok(())
    }

    fn convert_slow(&self, from: Ty, to: Ty, _imm: u64) -> Kind {
        let wide = self.wide();
        let cut = |to: Ty| to.bits;
        match (from.bits == 64, cut(to)) {
            (true, 64) => lanes!(wide, with w, i, m {
                let value = w.get64(i.a).over(|a| convert(a, i.imm));
                w.put64(i.d, m, &value);
            }),
            (false, 64) => lanes!(wide, with w, i, m {
                let value = w.get32(i.a).over(|a| convert(a.into(), i.imm));
                w.put64(i.d, m, &value);
            }),
            (true, _) => lanes!(wide, with w, i, m {
                let bits = unpack(i.imm >> TO).bits;
                let value = w.get64(i.a).over(|a| convert(a, i.imm) as u32 & ones(bits));
                w.put32(i.d, m, &value);
            }),
            (false, _) => lanes!(wide, with w, i, m {
                let bits = unpack(i.imm >> TO).bits;
                let value = w.get32(i.a).over(|a| convert(a.into(), i.imm) as u32 & ones(bits));
                w.put32(i.d, m, &value);
            }),
        }
    }

    /// The specialized implementation of a common conversion.
    fn convert_fast(&self, from: Ty, to: Ty, plain: bool, towards_zero: bool) -> Option<Kind> {
        use Class::{Float, Signed, Unsigned};
        if !plain && !towards_zero {
            return None;
        }
        let wide = self.wide();
        macro_rules! int {
            ($($class:ident $bits:literal $from:ty;)*) => {
                match (from.class, from.bits, to.class, to.bits) {
                    $(($class, $bits, Signed | Unsigned, 8) => {
                        Some(lanes!(wide, |a: $from| -> u8 { a as u8 }))
                    }
                    ($class, $bits, Signed | Unsigned, 16) => {
                        Some(lanes!(wide, |a: $from| -> u16 { a as u16 }))
                    }
                    ($class, $bits, Signed | Unsigned, 32) => {
                        Some(lanes!(wide, |a: $from| -> u32 { a as u32 }))
                    }
                    ($class, $bits, Signed | Unsigned, 64) => {
                        Some(lanes!(wide, |a: $from| -> u64 { a as u64 }))
                    }
                    ($class, $bits, Float, 32) => {
                        Some(lanes!(wide, |a: $from| -> f32 { a as f32 }))
                    }
                    ($class, $bits, Float, 64) => {
                        Some(lanes!(wide, |a: $from| -> f64 { a as f64 }))
                    })*
                    // Casts in Rust round towards zero, saturate, and convert NaN to 0, as PTX does
                    // for these conversions.
                    (Float, 32, Signed, 32) if towards_zero => {
                        Some(lanes!(wide, |a: f32| -> i32 { a as i32 }))
                    }
                    (Float, 32, Unsigned, 32) if towards_zero => {
                        Some(lanes!(wide, |a: f32| -> u32 { a as u32 }))
                    }
                    _ if !plain => None,
                    (Float, 32, Float, 64) => {
                        Some(lanes!(wide, |a: f32| -> f64 { f64::from(a) }))
                    }
                    (Float, 64, Float, 32) => {
                        Some(lanes!(wide, |a: f64| -> f32 { canonical(a as f32) }))
                    }
                    _ => None,
                }
            };
        }
        int! {
            Unsigned 8 u8;
            Unsigned 16 u16;
            Unsigned 32 u32;
            Unsigned 64 u64;
            Signed 8 i8;
            Signed 16 i16;
            Signed 32 i32;
            Signed 64 i64;
        }
    }

    /// Decodes `cvt.rn.f16x2.f32 d, a, b`: `a` becomes the upper half.
    fn convert_pair(&mut self, form: &mut Form<'a>, from: Ty, to: Ty, imm: u64) -> Decoded {
        if from.class != Class::Float || from.bits != 32 {
            return unsupported("this type");
        }
        form.arity(3)?;
        let [a, b] = self.sources(&form.operands[1..3], from)?;
        let (d, widen) = self.dest(&form.operands[0], to)?;
        let kind = lanes!(self.wide(), with w, i, m {
            let (a, b) = (w.get32(i.a), w.get32(i.b));
            let value = each(|lane| {
                let high = convert(a[lane].into(), i.imm) as u32;
                let low = convert(b[lane].into(), i.imm) as u32;
                high << 16 | low & 0xffff
            });
            w.put32(i.d, m, &value);
        });
        self.emit(kind, d, a, b, 0, imm);
        self.finish(widen);
        Ok(())
    }
}

fn ones(bits: u32) -> u32 {
    if bits >= 32 {
        u32::MAX
    } else {
        (1 << bits) - 1
    }
}

/// The bits of an f32 without the last 13; `bias` is added first.
fn tf32(bits: u32, bias: u32, relu: bool) -> u32 {
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7fff_ffff;
    }
    if relu && bits >> 31 != 0 {
        return 0;
    }
    bits & 0x8000_0000 | (magnitude + bias) & !0x1fff
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `cvt.rna.tf32.f32` and its variants, which round to 10 bits of mantissa.
    fn convert_tf32(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        if (ty.class, ty.bits) != (Class::Float, 32) {
            return unsupported("this type");
        }
        let wide = self.wide();
        let relu = form.flag("relu");
        let kind = match (form.one_of(&["rna", "rn", "rz"]), relu) {
            (Some("rna"), false) => lanes!(wide, |a: u32| -> u32 { tf32(a, 0x1000, false) }),
            (Some("rn"), false) => {
                lanes!(wide, |a: u32| -> u32 {
                    tf32(a, 0xfff + (a >> 13 & 1), false)
                })
            }
            (Some("rn"), true) => {
                lanes!(wide, |a: u32| -> u32 {
                    tf32(a, 0xfff + (a >> 13 & 1), true)
                })
            }
            (Some("rz"), false) => lanes!(wide, |a: u32| -> u32 { tf32(a, 0, false) }),
            (Some("rz"), true) => lanes!(wide, |a: u32| -> u32 { tf32(a, 0, true) }),
            _ => return unsupported("this rounding mode"),
        };
        self.emit_plain(form, kind, Ty::B32, &[Ty::B32])
    }
}
