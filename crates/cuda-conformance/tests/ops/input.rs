//! Inputs of operations: edge values, and random values of all kinds.

use fastrand::Rng;

use crate::number::{BF16, F16, F32, F64, Format, Mode, Number};
use crate::operation::{Operation, Source, Ty, Values, bits, cut};

/// The sources for `count` threads: first every pair of edge values, then random ones.
pub(crate) fn inputs(operation: &Operation, count: usize) -> Vec<Vec<u64>> {
    // The seed depends only on the text: every device gets the same values, each operation its own.
    let seed = operation.text.bytes().fold(17_u64, |seed, byte| {
        seed.wrapping_mul(1_099_511_628_211) ^ u64::from(byte)
    });
    let mut random = Rng::with_seed(seed);
    let edges: Vec<Vec<u64>> = operation.sources.iter().map(edges).collect();
    let mut list = Vec::with_capacity(count);
    if let Some((first, rest)) = edges.split_first() {
        let second = rest.first().map_or(&[0][..], |edges| edges);
        for &a in first {
            for &b in second {
                let mut one: Vec<u64> = operation
                    .sources
                    .iter()
                    .map(|source| value(source, &mut random))
                    .collect();
                one[0] = a;
                if one.len() > 1 {
                    one[1] = b;
                }
                list.push(one);
            }
        }
        // If only some pairs fit, they are a random choice rather than always the first ones.
        random.shuffle(&mut list);
        list.truncate(count * 3 / 4);
    }
    while list.len() < count {
        let sources = operation.sources.iter();
        list.push(sources.map(|source| value(source, &mut random)).collect());
    }
    list
}

fn format(ty: Ty) -> Option<Format> {
    Some(match ty {
        "f16" | "f16x2" => F16,
        "bf16" | "bf16x2" => BF16,
        "f32" | "f32x2" => F32,
        "f64" => F64,
        _ => return None,
    })
}

fn edges(source: &Source) -> Vec<u64> {
    match (source.values, format(source.ty)) {
        (Values::Any, Some(format)) if source.ty.ends_with("x2") => {
            let edges = float_edges(format);
            let others = edges.iter().cycle().skip(7);
            edges
                .iter()
                .zip(others)
                .map(|(a, b)| a << format.bits() | b)
                .collect()
        }
        (Values::Any, Some(format)) => float_edges(format),
        (Values::Any, None) => integer_edges(source.ty),
        (Values::Below(limit), _) => (0..limit.min(20)).chain([limit - 1]).collect(),
        (Values::Between(least, greatest), Some(format)) => [least, greatest, 0.5, 1.0]
            .into_iter()
            .filter(|value| (least..=greatest).contains(value))
            .map(|value| narrow(value, format))
            .collect(),
        (Values::Between(..), None) => panic!(
            "Values::Between needs a floating-point type, but {} is an integer type",
            source.ty
        ),
    }
}

fn narrow(value: f64, format: Format) -> u64 {
    Number::read(value.to_bits(), F64).round(format, Mode::Near)
}

fn integer_edges(ty: Ty) -> Vec<u64> {
    let bits = bits(ty);
    let top = 1_u64 << (bits - 1);
    let mut edges = vec![
        0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x1234,
    ];
    edges.extend([top, top - 1, top + 1, top | top >> 1]);
    edges.extend([
        u64::MAX,
        u64::MAX - 1,
        0x5555_5555_5555_5555,
        0xfedc_ba98_7654_3210,
    ]);
    if bits > 16 {
        edges.extend([0x7fff, 0x8000, 0xffff, 0xff_ffff, 0x80_0000]);
    }
    if bits > 32 {
        edges.extend([0xffff_ffff, 0x7fff_ffff, 0x8000_0000, 0x1_0000_0000]);
    }
    edges.into_iter().map(|edge| cut(ty, edge)).collect()
}

fn float_edges(format: Format) -> Vec<u64> {
    let unit = 1_u64 << format.fraction;
    let infinity = format.infinity();
    let of = |value: f64| narrow(value, format);
    let exact = f64::from(format.fraction).exp2();
    let mut edges = vec![
        0,
        1,
        unit - 1,
        unit,
        unit + 1,
        of(0.25),
        of(0.5),
        of(0.5) - 1,
        of(1.0) - 1,
        of(1.0),
        of(1.0) + 1,
        of(1.5),
        of(2.0),
        of(2.5),
        of(3.0),
        of(exact),
        of(exact) + 1,
        of(exact / 2.0) + 1,
        of(exact * 2.0) - 1,
        of(255.5),
        infinity - 1,
        infinity,
        infinity + unit / 2 + 1,
        infinity + 1,
    ];
    if format.exponent >= 8 {
        edges.extend([of(2_147_483_648.0), of(1e19), of(32_767.5), of(65_536.0)]);
    }
    let negative: Vec<u64> = edges.iter().map(|edge| edge | format.sign()).collect();
    edges.extend(negative);
    edges
}

fn value(source: &Source, random: &mut Rng) -> u64 {
    match (source.values, format(source.ty)) {
        (Values::Below(limit), _) => random.u64(..limit),
        (Values::Between(least, greatest), Some(format)) => {
            narrow(least + (greatest - least) * random.f64(), format)
        }
        (_, Some(format)) if source.ty.ends_with("x2") => {
            float(format, random) << format.bits() | float(format, random)
        }
        (_, Some(format)) => float(format, random),
        (_, None) => integer(source.ty, random),
    }
}

fn integer(ty: Ty, random: &mut Rng) -> u64 {
    let value = random.u64(..) >> random.u32(..64);
    let value = match random.u32(..6) {
        0 => random.choice(integer_edges(ty)).unwrap_or_default(),
        1 | 2 => value,
        3 => value.wrapping_neg(),
        _ => random.u64(..),
    };
    cut(ty, value)
}

fn float(format: Format, random: &mut Rng) -> u64 {
    let bits = random.u64(..);
    let fraction = bits & ((1 << format.fraction) - 1);
    let sign = bits & 1 << 63;
    let sign = if sign != 0 { format.sign() } else { 0 };
    let bias = format.bias();
    let near = |random: &mut Rng, range: i64| {
        let exponent = (bias + random.i64(-range..=range)).clamp(0, 2 * bias);
        u64::try_from(exponent).unwrap() << format.fraction
    };
    match random.u32(..8) {
        0 => random.choice(float_edges(format)).unwrap_or_default(),
        1 => cut_bits(bits, format),
        // Few significant bits, so that results are exact or half way between two numbers.
        2 => {
            let kept = random.u32(1..5).min(format.fraction);
            let few = fraction & !(((1 << format.fraction) - 1) >> kept);
            sign | near(random, i64::from(format.fraction) + 2) | few
        }
        3 => sign | near(random, 2) | fraction,
        4 => sign | fraction,
        5 => sign | near(random, bias / 2) | fraction,
        _ => sign | near(random, i64::from(format.fraction) + 2) | fraction,
    }
}

fn cut_bits(bits: u64, format: Format) -> u64 {
    bits & (u64::MAX >> (64 - format.bits()))
}
