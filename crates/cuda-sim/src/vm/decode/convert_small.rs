//! Conversions (`cvt`) to and from floating point of 4, 6 and 8 bits, two values per register, and
//! `cvt.pack`.

use half::f16;

use super::form::{Class, Form, Ty};
use super::function::FunctionDecoder;
use super::half::widen;
use super::{Decoded, unsupported};
use crate::vm::lanes::lanes;
use crate::vm::vector::{Over, each};

/// A floating-point format of at most 8 bits.
#[derive(Clone, Copy, Debug)]
struct Format {
    /// The name of a pair in PTX.
    name: &'static str,
    /// The number of bits of the fraction.
    fraction: i32,
    /// The exponent of the least normal number.
    least: i32,
    /// The bits of the largest finite number.
    most: u32,
    /// The bits that a NaN is converted to: a NaN, or the largest number of a format without NaN.
    nan: u32,
    /// The position of the sign.
    sign: u32,
    /// The number of bits from one value of a pair to the next.
    step: u32,
}

const FORMATS: [Format; 5] = [
    Format {
        name: "e4m3x2",
        fraction: 3,
        least: -6,
        most: 0x7e,
        nan: 0x7f,
        sign: 7,
        step: 8,
    },
    Format {
        name: "e5m2x2",
        fraction: 2,
        least: -14,
        most: 0x7b,
        nan: 0x7f,
        sign: 7,
        step: 8,
    },
    Format {
        name: "e2m3x2",
        fraction: 3,
        least: 0,
        most: 0x1f,
        nan: 0x1f,
        sign: 5,
        step: 8,
    },
    Format {
        name: "e3m2x2",
        fraction: 2,
        least: -2,
        most: 0x1f,
        nan: 0x1f,
        sign: 5,
        step: 8,
    },
    Format {
        name: "e2m1x2",
        fraction: 1,
        least: 0,
        most: 0x7,
        nan: 0x7,
        sign: 3,
        step: 4,
    },
];

/// A bit of `Ins::imm`: negative results become zero. The bits from [`FORMAT`] on are the index of
/// the format.
const RELU: u64 = 1;
const FORMAT: u32 = 1;

/// Bits of `Ins::imm` of conversions to `ue8m0x2`: round up, and replace infinity by the largest
/// finite number.
const UP: u64 = 1;
const FINITE: u64 = 2;

/// The pair of exponents without sign and fraction.
const SCALES: &str = "ue8m0x2";

/// The types of conversions that [`FunctionDecoder::convert_small`] decodes.
pub(super) const TYPES: [&str; 6] = ["e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2", SCALES];

fn format_of(imm: u64) -> Format {
    let index = (imm >> FORMAT) as usize;
    FORMATS[index.min(FORMATS.len() - 1)]
}

/// Rounds to the nearest number of the format. A value that is too large becomes the largest finite
/// one.
fn narrow(value: f32, imm: u64) -> u32 {
    let format = format_of(imm);
    if value.is_nan() {
        return format.nan;
    }
    let sign = (value.to_bits() >> 31) << format.sign;
    if imm & RELU != 0 && sign != 0 {
        return 0;
    }
    let value = f64::from(value.abs());
    if value > 1e6 {
        return sign | format.most;
    }
    let exponent = ((value.to_bits() >> 52) as i32 - 1023).max(format.least);
    let steps = (value * f64::from(format.fraction - exponent).exp2()).round_ties_even() as u32;
    let bits = steps + (((exponent - format.least) as u32) << format.fraction);
    sign | bits.min(format.most)
}

/// The value of `bits` as f16, which holds every number of these formats.
fn widened(bits: u32, imm: u64) -> u32 {
    let format = format_of(imm);
    let is_negative = bits >> format.sign & 1 != 0;
    let magnitude = bits & ((1 << format.sign) - 1);
    let infinity = format.most + 1;
    let has_infinity = format.most + 1 < format.nan;
    if magnitude > format.most && !(has_infinity && magnitude == infinity) {
        return 0x7fff;
    }
    if is_negative && imm & RELU != 0 {
        return 0;
    }
    let value = match (magnitude >> format.fraction) as i32 {
        _ if magnitude > format.most => f32::INFINITY,
        0 => magnitude as f32 * ((format.least - format.fraction) as f32).exp2(),
        exponent => {
            let fraction = magnitude & ((1 << format.fraction) - 1) | 1 << format.fraction;
            fraction as f32 * ((format.least + exponent - 1 - format.fraction) as f32).exp2()
        }
    };
    u32::from(f16::from_f32(value).to_bits()) | u32::from(is_negative) << 15
}

/// The exponent of the magnitude of a value, as a number of 8 bits with a bias of 127.
fn scale(value: f32, imm: u64) -> u32 {
    let magnitude = value.to_bits() & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0xff;
    }
    let exponent = magnitude >> 23;
    // The least number is 2^-127, which is a subnormal f32.
    let rounds_up = imm & UP != 0
        && magnitude & 0x7f_ffff != 0
        && magnitude > 0x40_0000
        && magnitude < 0x7f80_0000;
    let exponent = exponent + u32::from(rounds_up);
    if imm & FINITE != 0 {
        exponent.min(0xfe)
    } else {
        exponent
    }
}

/// The value of an exponent as bf16.
fn scale_value(bits: u32) -> u32 {
    match bits & 0xff {
        0xff => 0x7fff,
        0 => 0x40,
        exponent => exponent << 7,
    }
}

/// The bits of an integer type of `cvt.pack`, and whether it is signed.
fn pack_type(name: &str) -> Option<(u32, bool)> {
    let (class, bits) = name.split_at_checked(1)?;
    let is_signed = match class {
        "s" => true,
        "u" => false,
        _ => return None,
    };
    let bits = bits.parse().ok()?;
    matches!(bits, 2 | 4 | 8 | 16).then_some((bits, is_signed))
}

/// A bit of `Ins::imm` of `cvt.pack`: the result is signed. The lower bits are its size in bits.
const SIGNED: u64 = 1 << 8;

/// The low bits of `value`, limited to the values of the type in `imm`.
fn saturated(value: u32, imm: u64) -> u32 {
    let bits = imm as u32 & 0xff;
    let value = value as i32;
    let limited = if imm & SIGNED != 0 {
        value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    };
    limited as u32 & ((1 << bits) - 1)
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes a conversion from or to one of [`TYPES`].
    pub(super) fn convert_small(&mut self, form: &mut Form<'a>) -> Decoded {
        let place = |form: &Form<'a>, is: &dyn Fn(&str) -> bool| {
            form.modifiers.iter().position(|name| is(name))
        };
        let small = place(form, &|name| TYPES.contains(&name));
        let other = place(form, &|name| Ty::parse(name).is_some());
        // The type of the result is the first one.
        let widens = other < small;
        let Some(name) = form.one_of(&TYPES) else {
            return unsupported("this type");
        };
        let other = form.ty()?;
        if name == SCALES {
            return self.convert_scales(form, other, widens);
        }
        let Some(index) = FORMATS.iter().position(|format| format.name == name) else {
            return unsupported("this type");
        };
        if !form.flag("rn") {
            return unsupported("this rounding mode");
        }
        let relu = if form.flag("relu") { RELU } else { 0 };
        let imm = relu | (index as u64) << FORMAT;
        let small = Ty::new(Class::Bits, FORMATS[index].step * 2);
        if widens {
            if (other.class, other.bits, other.packed) != (Class::Float, 16, true) {
                return unsupported("this type");
            }
            let kind = lanes!(self.wide(), with w, i, m {
                let step = format_of(i.imm).step;
                let value = w.get32(i.a).over(|a| {
                    let low = a & ((1 << step) - 1);
                    widened(a >> step, i.imm) << 16 | widened(low, i.imm)
                });
                w.put32(i.d, m, &value);
            });
            form.arity(2)?;
            let a = self.source(&form.operands[1], small)?;
            let (d, _) = self.dest(&form.operands[0], Ty::B32)?;
            self.emit(kind, d, a, 0, 0, imm);
            return Ok(());
        }
        if !form.flag("satfinite") {
            return unsupported("without `.satfinite`");
        }
        let [a, b] = self.pair_of_floats(form, other)?;
        let kind = lanes!(self.wide(), with w, i, m {
            let (a, b) = (w.get32(i.a), w.get32(i.b));
            let step = format_of(i.imm).step;
            let value = each(|lane| {
                let [a, b] = [a[lane], b[lane]].map(f32::from_bits);
                narrow(a, i.imm) << step | narrow(b, i.imm)
            });
            w.put32(i.d, m, &value);
        });
        let (d, _) = self.dest(&form.operands[0], small)?;
        self.emit(kind, d, a, b, 0, imm);
        Ok(())
    }

    /// Decodes a conversion from or to pairs of exponents.
    fn convert_scales(&mut self, form: &mut Form<'a>, other: Ty, widens: bool) -> Decoded {
        let pair = Ty::new(Class::Bits, 16);
        if widens {
            let is_pair = (other.class, other.packed) == (Class::Brain, true);
            if !is_pair || !form.flag("rn") {
                return unsupported("this type or rounding mode");
            }
            let kind = lanes!(self.wide(), |a: u32| -> u32 {
                scale_value(a >> 8) << 16 | scale_value(a)
            });
            return self.emit_plain(form, kind, Ty::B32, &[pair]);
        }
        if (other.class, other.bits) == (Class::Float, 16) {
            return unsupported("this type");
        }
        let up = match form.one_of(&["rz", "rp"]) {
            Some("rz") => 0,
            Some(_) => UP,
            None => return unsupported("this rounding mode"),
        };
        let imm = up | if form.flag("satfinite") { FINITE } else { 0 };
        let [a, b] = self.pair_of_floats(form, other)?;
        let kind = lanes!(self.wide(), with w, i, m {
            let (a, b) = (w.get32(i.a), w.get32(i.b));
            let value = each(|lane| {
                let [a, b] = [a[lane], b[lane]].map(f32::from_bits);
                scale(a, i.imm) << 8 | scale(b, i.imm)
            });
            w.put32(i.d, m, &value);
        });
        let (d, _) = self.dest(&form.operands[0], pair)?;
        self.emit(kind, d, a, b, 0, imm);
        Ok(())
    }

    /// The slots of two f32 sources, upper value first. A pair of halves in one register is widened
    /// first.
    fn pair_of_floats(&mut self, form: &Form<'a>, ty: Ty) -> Decoded<[u32; 2]> {
        let is_brain = match (ty.class, ty.bits, ty.packed) {
            (Class::Float, 32, false) => {
                form.arity(3)?;
                return self.sources(&form.operands[1..3], ty);
            }
            (Class::Float, 16, true) => false,
            (Class::Brain, 16, true) => true,
            _ => return unsupported("this type"),
        };
        form.arity(2)?;
        let from = self.source(&form.operands[1], Ty::B32)?;
        let kind = if is_brain {
            lanes!(self.wide(), with w, i, m {
                let value = w.get32(i.a).over(|a| widen((a >> i.imm) as u16, true).to_bits());
                w.put32(i.d, m, &value);
            })
        } else {
            lanes!(self.wide(), with w, i, m {
                let value = w.get32(i.a).over(|a| widen((a >> i.imm) as u16, false).to_bits());
                w.put32(i.d, m, &value);
            })
        };
        let slots = [self.temp32(), self.temp32()];
        for (slot, shift) in slots.into_iter().zip([16, 0]) {
            self.emit(kind, slot, from, 0, 0, shift);
        }
        Ok(slots)
    }

    /// Decodes `cvt.pack.sat`: two integers become the low bits of the result, and a third operand
    /// is shifted in above them.
    pub(super) fn convert_pack(&mut self, form: &mut Form<'a>) -> Decoded {
        if !form.flag("sat") || !form.flag("s32") {
            return unsupported("without `.sat` or `.s32`");
        }
        let found = form
            .modifiers
            .iter()
            .position(|name| pack_type(name).is_some());
        let to = found.and_then(|index| pack_type(form.modifiers.remove(index)));
        let Some((bits, is_signed)) = to else {
            return unsupported("this type");
        };
        let is_whole = bits == 16;
        if is_whole == form.flag("b32") {
            return unsupported("a third source");
        }
        form.arity(if is_whole { 3 } else { 4 })?;
        let [a, b] = self.sources(&form.operands[1..3], Ty::new(Class::Signed, 32))?;
        let c = match form.operands.get(3) {
            Some(operand) => self.source(operand, Ty::B32)?,
            None => self.const32(0),
        };
        let kind = lanes!(self.wide(), with w, i, m {
            let (a, b, c) = (w.get32(i.a), w.get32(i.b), w.get32(i.c));
            let bits = i.imm as u32 & 0xff;
            let value = each(|lane| {
                let pair = saturated(a[lane], i.imm) << bits | saturated(b[lane], i.imm);
                c[lane].checked_shl(2 * bits).unwrap_or(0) | pair
            });
            w.put32(i.d, m, &value);
        });
        let imm = u64::from(bits) | if is_signed { SIGNED } else { 0 };
        let (d, _) = self.dest(&form.operands[0], Ty::U32)?;
        self.emit(kind, d, a, b, c, imm);
        Ok(())
    }
}
