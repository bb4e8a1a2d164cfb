//! A model of the adders of tensor cores, with the parameters that are open.

use half::{bf16, f16};

use crate::types::Ty;

/// The parameters of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// The fraction bits that a term keeps after the leading bit of the largest term.
    pub(crate) fraction: i32,
    /// The number of products that are added together; the result is then rounded.
    pub(crate) step: usize,
    /// Whether dropped bits round towards negative infinity instead of zero.
    pub(crate) floors: bool,
    /// The fraction bits of a result of type f32.
    pub(crate) result: i32,
}

/// A finite number: `significand * 2^exponent`. `lead` is the exponent of its leading bit, or what
/// an adder takes for it.
#[derive(Clone, Copy, Debug)]
struct Exact {
    significand: i128,
    exponent: i32,
    lead: i32,
}

/// The exact value of finite bits.
fn exact(ty: Ty, bits: u32) -> Exact {
    let (bits, fraction, width) = match ty {
        Ty::F16 => (bits, 10, 5),
        Ty::Bf16 => (bits, 7, 8),
        Ty::Tf32 => (bits >> 13, 10, 8),
        Ty::F32 => (bits, 23, 8),
        Ty::E4m3 => (bits, 3, 4),
        Ty::E5m2 => (bits, 2, 5),
        _ => panic!("{ty:?} is not a floating-point type"),
    };
    let field = (bits >> fraction) & ((1 << width) - 1);
    let mantissa = bits & ((1 << fraction) - 1);
    let magnitude = if field == 0 {
        mantissa
    } else {
        mantissa | 1 << fraction
    };
    let lead = field.max(1) as i32 - ((1 << (width - 1)) - 1);
    let sign = if bits >> (fraction + width) & 1 == 1 {
        -1
    } else {
        1
    };
    Exact {
        significand: sign * i128::from(magnitude),
        exponent: lead - fraction,
        lead,
    }
}

impl Model {
    fn cut(self, value: i128, bits: i32) -> i128 {
        if self.floors {
            return value >> bits.min(120);
        }
        let magnitude = value.unsigned_abs() >> bits.min(120);
        magnitude as i128 * value.signum()
    }

    /// The bits of `c` plus the products.
    pub(crate) fn sum(self, [d, a, b]: [Ty; 3], pairs: &[(u32, u32)], c: u32) -> u32 {
        let mut sum = c;
        for pairs in pairs.chunks(self.step) {
            let mut terms = vec![exact(d, sum)];
            for &(x, y) in pairs {
                let (x, y) = (exact(a, x), exact(b, y));
                terms.push(Exact {
                    significand: x.significand * y.significand,
                    exponent: x.exponent + y.exponent,
                    lead: x.lead + y.lead,
                });
            }
            let counted = terms.iter().filter(|term| term.significand != 0);
            let Some(lead) = counted.map(|term| term.lead).max() else {
                return 0;
            };
            let unit = lead - self.fraction;
            let total: i128 = terms
                .iter()
                .map(|term| match term.exponent - unit {
                    up @ 0.. => term.significand << up.min(90),
                    down => self.cut(term.significand, -down),
                })
                .sum();
            sum = self.rounded(d, total, unit);
        }
        sum
    }

    /// The bits of `total * 2^unit` in the type of the sum.
    fn rounded(self, d: Ty, total: i128, unit: i32) -> u32 {
        if d == Ty::F16 {
            return f16::from_f64(total as f64 * 2f64.powi(unit))
                .to_bits()
                .into();
        }
        if total == 0 {
            return 0;
        }
        let top = 127 - total.unsigned_abs().leading_zeros() as i32;
        let last = (unit + top - self.result).max(-149);
        let kept = match last - unit {
            cut @ 1.. => self.cut(total, cut) << cut,
            _ => total,
        };
        ((kept as f64 * 2f64.powi(unit)) as f32).to_bits()
    }
}

/// Random finite bits with exponents between -`spread` and `spread`.
pub(crate) fn random_bits(ty: Ty, spread: i32, random: &mut fastrand::Rng) -> u32 {
    let exponent = random.i32(-spread..=spread);
    let value = (random.f64() + 1.0) * 2f64.powi(exponent) * if random.bool() { 1.0 } else { -1.0 };
    match ty {
        Ty::F16 => f16::from_f64(value).to_bits().into(),
        Ty::Bf16 => bf16::from_f64(value).to_bits().into(),
        Ty::Tf32 => (value as f32).to_bits() & !0x1fff,
        Ty::F32 => (value as f32).to_bits(),
        // The high half of an f16, or one with fewer bits of exponent.
        Ty::E5m2 => u32::from(f16::from_f64(value).to_bits() >> 8),
        Ty::E4m3 => {
            let half = u32::from(f16::from_f64(value).to_bits());
            let field = (half >> 10 & 31) as i32 - 15 + 7;
            half >> 8 & 0x80 | (field.clamp(1, 14) as u32) << 3 | half >> 7 & 7
        }
        _ => panic!("{ty:?} is not a floating-point type"),
    }
}

/// The model of Hopper that the software device uses. An H100 gives the same bits.
pub(crate) fn hopper(a: Ty) -> Model {
    match a {
        Ty::E4m3 | Ty::E5m2 => Model {
            fraction: 13,
            step: 64,
            floors: false,
            result: 13,
        },
        _ => Model {
            fraction: 25,
            step: 64,
            floors: false,
            result: 23,
        },
    }
}
