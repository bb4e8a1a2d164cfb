//! 8-bit floating point, two values packed in a 16-bit register.

use crate::number::{F16, F32, Format, Mode, Number};
use crate::operation::{Operation, Source, Ty, below};

/// An 8-bit format.
#[derive(Clone, Copy)]
struct Byte {
    ty: &'static str,
    format: Format,
    /// Whether the format has no infinity: the highest exponent encodes numbers too.
    finite: bool,
}

const FORMATS: [Byte; 2] = [
    Byte {
        ty: "e4m3x2",
        format: Format::new(4, 3),
        finite: true,
    },
    Byte {
        ty: "e5m2x2",
        format: Format::new(5, 2),
        finite: false,
    },
];

impl Byte {
    /// All numbers that are not negative, in the order of their bits.
    fn values(self) -> Vec<f64> {
        (0..0x80_u32)
            .take_while(|&bits| self.is_number(bits))
            .map(|bits| self.value(bits))
            .collect()
    }

    fn is_number(self, bits: u32) -> bool {
        if self.finite {
            bits & 0x7f < 0x7f
        } else {
            bits & 0x7f < 0x7c
        }
    }

    /// The value by definition, from fraction and exponent, without the sign.
    fn value(self, bits: u32) -> f64 {
        let fraction = bits & ((1 << self.format.fraction) - 1);
        let exponent = bits >> self.format.fraction & ((1 << self.format.exponent) - 1);
        let unit = f64::from(1 << self.format.fraction);
        let bias = self.format.bias() as i32;
        match exponent {
            0 => f64::from(fraction) / unit * f64::from(1 - bias).exp2(),
            _ => (1.0 + f64::from(fraction) / unit) * f64::from(exponent as i32 - bias).exp2(),
        }
    }

    /// The nearest number; a tie is rounded to even, and numbers beyond the range become the last
    /// one.
    fn nearest(self, number: &Number, values: &[f64], relu: bool) -> u64 {
        if number.is_nan() {
            return 0x7f;
        }
        let value = number.to_f64();
        let negative = number.is_negative();
        if relu && negative {
            return 0;
        }
        let off = |k: usize| (values[k] - value.abs()).abs();
        let best = (0..values.len())
            .min_by(|&a, &b| off(a).total_cmp(&off(b)).then((a & 1).cmp(&(b & 1))))
            .unwrap();
        let best = if value.abs() > values[values.len() - 1] {
            values.len() - 1
        } else {
            best
        };
        best as u64 | if negative { 0x80 } else { 0 }
    }

    /// The value as an f16.
    fn widened(self, bits: u64, relu: bool) -> u64 {
        let bits = bits as u32 & 0xff;
        if !self.is_number(bits) {
            let infinite = !self.finite && bits & 0x7f == 0x7c;
            return match (infinite, bits >> 7) {
                (false, _) => 0x7fff,
                (true, 0) => 0x7c00,
                (true, _) if relu => 0,
                (true, _) => 0xfc00,
            };
        }
        let magnitude = self.value(bits & 0x7f).to_bits();
        let negative = bits >> 7 != 0;
        if negative && relu {
            return 0;
        }
        let number = Number::read(magnitude, Format::of("f64"));
        number.round(F16, Mode::Near) | if negative { F16.sign() } else { 0 }
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for byte in FORMATS {
        for relu in [false, true] {
            let suffix = if relu { ".relu" } else { "" };
            let ty = byte.ty;
            let values = byte.values();
            let text = format!("cvt.rn.satfinite{suffix}.{ty}.f32 %d, %a, %b;");
            let reference = move |v: &[u64]| {
                let one = |bits| byte.nearest(&Number::read(bits, F32), &values, relu);
                one(v[0]) << 8 | one(v[1])
            };
            let sources: [Ty; 2] = ["f32"; 2];
            let one = Operation::new(text, &sources, "b16", reference);
            all.push(one.since(90).version(8, 1));
            let values = byte.values();
            let text = format!("cvt.rn.satfinite{suffix}.{ty}.f16x2 %d, %a;");
            let reference = move |v: &[u64]| {
                let one = |bits| byte.nearest(&Number::read(bits & 0xffff, F16), &values, relu);
                one(v[0] >> 16) << 8 | one(v[0])
            };
            let one = Operation::new(text, &["f16x2"], "b16", reference);
            all.push(one.since(90).version(8, 1));
            let text = format!("cvt.rn{suffix}.f16x2.{ty} %d, %a;");
            let reference =
                move |v: &[u64]| byte.widened(v[0] >> 8, relu) << 16 | byte.widened(v[0], relu);
            let sources: [Source; 1] = [below("b16", 0x1_0000)];
            let one = Operation::new(text, &sources, "f16x2", reference);
            all.push(one.since(90).version(8, 1));
        }
    }
    all
}
