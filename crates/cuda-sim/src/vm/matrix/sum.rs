//! Sums of products as `wgmma` computes them. Their precision follows publications about Hopper's
//! tensor cores, and gives the bits of an H100.
//!
//! The manual leaves the precision open. Here, the products of a step and the previous sum are
//! aligned to the largest exponent among them. Bits below the last fraction bit are dropped, the
//! terms are added exactly, and the result is truncated to f32, or rounded to the nearest f16.

use super::Element;

/// A finite number: `significand * 2^exponent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Factor {
    pub(super) significand: i64,
    /// The exponent that an adder aligns by: that of the leading bit, unless it is subnormal.
    pub(super) lead: i32,
    /// The number of bits of the significand after the leading one.
    pub(super) fraction: i32,
}

impl Factor {
    /// The number with these bits; `None` for infinities and NaN.
    pub(super) fn of(element: Element, bits: u64) -> Option<Self> {
        let (fraction, width, bits) = match element {
            Element::F16 => (10, 5, bits),
            Element::Bf16 => (7, 8, bits),
            // The low bits are ignored.
            Element::Tf32 => (10, 8, bits >> 13),
            Element::F32 => (23, 8, bits),
            Element::E4m3 => (3, 4, bits),
            Element::E5m2 => (2, 5, bits),
            _ => return None,
        };
        let mantissa = (bits & ((1 << fraction) - 1)) as i64;
        let top = (1 << width) - 1;
        let field = (bits >> fraction) as i32 & top;
        let is_special = match element {
            Element::E4m3 => field == top && mantissa == 7,
            _ => field == top,
        };
        if is_special {
            return None;
        }
        let magnitude = mantissa | i64::from(field != 0) << fraction;
        let is_negative = bits >> (fraction + width) & 1 != 0;
        Some(Self {
            significand: if is_negative { -magnitude } else { magnitude },
            lead: field.max(1) - (top >> 1),
            fraction,
        })
    }

    fn times(self, other: Self) -> Self {
        Self {
            significand: self.significand * other.significand,
            lead: self.lead + other.lead,
            fraction: self.fraction + other.fraction,
        }
    }

    /// The number in units of `2^(lead - fraction)`, with the lower bits dropped.
    fn aligned(self, lead: i32, fraction: i32) -> i64 {
        let shift = self.lead - self.fraction - (lead - fraction);
        if shift >= 0 {
            return self.significand << shift.min(32);
        }
        let magnitude = self.significand.unsigned_abs() >> (-shift).min(63);
        magnitude as i64 * self.significand.signum()
    }
}

/// The precision of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Precision {
    /// The bits that a term keeps after the leading bit of the largest term.
    fraction: i32,
    /// The bits that the sum keeps after its leading bit, if it is an f32.
    result: i32,
}

impl Precision {
    /// The precision for factors of this type.
    pub(super) fn of(element: Element) -> Self {
        match element {
            Element::E4m3 | Element::E5m2 => Self {
                fraction: 13,
                result: 13,
            },
            _ => Self {
                fraction: 25,
                result: 23,
            },
        }
    }

    /// The bits of `c` plus the sum of the products of `a` and `b`, in the type of `c`.
    pub(super) fn sum(self, (a, b): (&[Factor], &[Factor]), c: Factor, to: Element) -> u64 {
        let terms = || a.iter().zip(b).map(|(&a, &b)| a.times(b)).chain([c]);
        let counted = terms().filter(|term| term.significand != 0);
        let Some(lead) = counted.map(|term| term.lead).max() else {
            return 0;
        };
        let sum: i64 = terms().map(|term| term.aligned(lead, self.fraction)).sum();
        let exponent = lead - self.fraction;
        if to == Element::F16 {
            return to.nearest(scaled(sum, exponent));
        }
        let magnitude = sum.unsigned_abs();
        let top = 63_i32.wrapping_sub_unsigned(magnitude.leading_zeros());
        // The last bit of the result; that of subnormal numbers is 2^-149.
        let last = (exponent + top - self.result).max(-149);
        let cut = (last - exponent).clamp(0, 63);
        let kept = (magnitude >> cut << cut) as i64 * sum.signum();
        to.nearest(scaled(kept, exponent))
    }
}

/// `value * 2^exponent`, exact for the numbers here.
fn scaled(value: i64, exponent: i32) -> f64 {
    value as f64 * 2f64.powi(exponent)
}
