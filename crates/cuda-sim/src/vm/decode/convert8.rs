//! Conversions (`cvt`) to and from 8-bit floating point, two values per register.

use half::f16;

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::half::widen;
use super::{Decoded, unsupported};
use crate::vm::lanes::lanes;
use crate::vm::vector::{Over, each};

/// Bits of `Ins::imm`: 5 bits of exponent and 2 of fraction instead of 4 and 3; negative results
/// become zero.
const SHORT: u64 = 1;
const RELU: u64 = 2;

/// The types; each of these conversions has one of them.
pub(super) const TYPES: [&str; 2] = ["e4m3x2", "e5m2x2"];

/// Rounds to the nearest 8-bit number. A value that is too large becomes the largest finite one.
fn narrow(value: f32, flags: u64) -> u32 {
    if value.is_nan() {
        return 0x7f;
    }
    let sign = value.to_bits() >> 24 & 0x80;
    if flags & RELU != 0 && sign != 0 {
        return 0;
    }
    let (fraction, least, most) = match flags & SHORT {
        0 => (3, -6, 0x7e),
        _ => (2, -14, 0x7b),
    };
    let value = f64::from(value.abs());
    if value > 1e6 {
        return sign | most;
    }
    let exponent = ((value.to_bits() >> 52) as i32 - 1023).max(least);
    let steps = (value * f64::from(fraction - exponent).exp2()).round_ties_even() as u32;
    let bits = steps + (((exponent - least) as u32) << fraction);
    sign | bits.min(most)
}

/// The value as f16.
fn widened(bits: u8, flags: u64) -> u32 {
    let magnitude = bits & 0x7f;
    let is_nan = match flags & SHORT {
        0 => magnitude == 0x7f,
        _ => magnitude > 0x7c,
    };
    if is_nan {
        return 0x7fff;
    }
    if flags & RELU != 0 && bits & 0x80 != 0 {
        return 0;
    }
    if flags & SHORT != 0 {
        return u32::from(bits) << 8;
    }
    let (exponent, fraction) = (i32::from(magnitude >> 3), f32::from(magnitude & 7));
    let value = match exponent {
        0 => fraction * (-9_f32).exp2(),
        _ => (8.0 + fraction) * ((exponent - 10) as f32).exp2(),
    };
    u32::from(f16::from_f32(value).to_bits()) | u32::from(bits & 0x80) << 8
}

impl<'a> FunctionDecoder<'a, '_> {
    pub(super) fn convert_bytes(&mut self, form: &mut Form<'a>) -> Decoded {
        let last = form.modifiers.last().copied().unwrap_or_default();
        let Some(byte) = form.one_of(&TYPES) else {
            return unsupported("type");
        };
        if !form.flag("rn") {
            return unsupported("rounding");
        }
        let relu = if form.flag("relu") { RELU } else { 0 };
        let imm = relu | if byte == "e5m2x2" { SHORT } else { 0 };
        let other = form.ty()?;
        let (short, pair) = (Ty::new(Class::Bits, 16), Ty::B32);
        if last == byte {
            if (other.class, other.bits, other.packed) != (Class::Float, 16, true) {
                return unsupported("type");
            }
            let kind = lanes!(self.wide(), with w, i, m {
                let value = w.get32(i.a).over(|a| {
                    widened((a >> 8) as u8, i.imm) << 16 | widened(a as u8, i.imm)
                });
                w.put32(i.d, m, &value);
            });
            form.arity(2)?;
            let a = self.source(&form.operands[1], short)?;
            let (d, _) = self.dest(&form.operands[0], pair)?;
            self.emit(kind, d, a, 0, 0, imm);
            return Ok(());
        }
        if !form.flag("satfinite") {
            return unsupported("no `.satfinite`");
        }
        let (kind, a, b) = match (other.class, other.bits, other.packed) {
            (Class::Float, 32, false) => {
                form.arity(3)?;
                let [a, b] = self.sources(&form.operands[1..3], other)?;
                let kind = lanes!(self.wide(), with w, i, m {
                    let (a, b) = (w.get32(i.a), w.get32(i.b));
                    let value = each(|lane| {
                        let [a, b] = [a[lane], b[lane]].map(f32::from_bits);
                        narrow(a, i.imm) << 8 | narrow(b, i.imm)
                    });
                    w.put32(i.d, m, &value);
                });
                (kind, a, b)
            }
            (Class::Float, 16, true) => {
                form.arity(2)?;
                let a = self.source(&form.operands[1], pair)?;
                let kind = lanes!(self.wide(), with w, i, m {
                    let value = w.get32(i.a).over(|a| {
                        let [high, low] = [a >> 16, a].map(|half| widen(half as u16, false));
                        narrow(high, i.imm) << 8 | narrow(low, i.imm)
                    });
                    w.put32(i.d, m, &value);
                });
                (kind, a, a)
            }
            _ => return unsupported("type"),
        };
        let (d, _) = self.dest(&form.operands[0], short)?;
        self.emit(kind, d, a, b, 0, imm);
        Ok(())
    }
}
