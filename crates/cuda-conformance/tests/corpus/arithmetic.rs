//! Floating-point operations whose results IEEE 754 defines exactly, and conversions.

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source = Source::new("arithmetic.cu", include_str!("kernels/arithmetic.cu"));

const EDGES: [f64; 12] = [
    0.0,
    -0.0,
    0.5,
    -1.5,
    2.5,
    1.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    f32::MAX as f64,
    -8_388_609.0,
];

/// Random numbers of magnitudes around one, then all pairs of edge values.
fn pairs(seed: u64) -> Vec<[f64; 2]> {
    let mut random = numbers(seed);
    let mut number = || {
        let scale = f64::from(random.i32(-12..12)).exp2();
        f64::from((random.f32() - 0.5) * 2.0) * scale
    };
    let mut pairs: Vec<[f64; 2]> = (0..600).map(|_| [number(), number()]).collect();
    pairs.extend(EDGES.iter().flat_map(|a| EDGES.map(|b| [*a, b])));
    pairs
}

/// A directed rounding: towards zero, up or down.
#[derive(Clone, Copy)]
enum Towards {
    Zero,
    Up,
    Down,
}

/// Rounds `exact` in one direction to a float, starting from the nearest float.
fn rounded(exact: f64, towards: Towards) -> f32 {
    let nearest = exact as f32;
    let wide = f64::from(nearest);
    let (above, below) = (wide > exact, wide < exact);
    match towards {
        Towards::Zero if exact > 0.0 && above => nearest.next_down(),
        Towards::Zero if exact < 0.0 && below => nearest.next_up(),
        Towards::Up if below => nearest.next_up(),
        Towards::Down if above => nearest.next_down(),
        _ => nearest,
    }
}

/// Whether two floats have the same bits, or are both a NaN.
fn same(found: u32, expected: f32) -> bool {
    found == expected.to_bits() || (f32::from_bits(found).is_nan() && expected.is_nan())
}

fn nearest_minimum(a: f32, b: f32) -> f32 {
    if a == b {
        f32::from_bits(a.to_bits() | b.to_bits())
    } else {
        a.min(b)
    }
}

fn nearest_maximum(a: f32, b: f32) -> f32 {
    if a == b {
        f32::from_bits(a.to_bits() & b.to_bits())
    } else {
        a.max(b)
    }
}

#[test]
fn single_precision() {
    let input: Vec<[f32; 2]> = pairs(50)
        .iter()
        .map(|pair| pair.map(|v| v as f32))
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<[u32; 24]> = unsafe { fixture.map(&SOURCE, "single", &input) };
        for ([a, b], found) in input.iter().copied().zip(output) {
            let (wide_a, wide_b) = (f64::from(a), f64::from(b));
            // The product of two floats is exact in double precision.
            let (sum, product) = (wide_a + wide_b, wide_a * wide_b);
            let expected = [
                Some(a + b),
                Some(a - b),
                Some(a * b),
                Some(a / b),
                Some(a.abs().sqrt()),
                Some(a.mul_add(b, a)),
                sum_is_exact(wide_a, wide_b).then(|| rounded(sum, Towards::Zero)),
                sum_is_exact(wide_a, wide_b).then(|| rounded(sum, Towards::Up)),
                sum_is_exact(wide_a, wide_b).then(|| rounded(sum, Towards::Down)),
                Some(rounded(product, Towards::Zero)),
                Some(rounded(product, Towards::Up)),
                Some(rounded(product, Towards::Down)),
                Some(a.round_ties_even()),
                Some(a.floor()),
                Some(a.ceil()),
                Some(a.trunc()),
                Some(a.round()),
                Some(nearest_minimum(a, b)),
                Some(nearest_maximum(a, b)),
                (!a.is_nan()).then(|| a.copysign(b)),
                Some(1.0 / b),
                Some(next_after(a, b)),
                Some(if a.is_nan() {
                    0.0
                } else {
                    a.clamp(0.0, 1.0) + 0.0
                }),
                None,
            ];
            for (k, expected) in expected.iter().enumerate() {
                let Some(expected) = *expected else { continue };
                assert!(
                    same(found[k], expected),
                    "result {k} of {a:e}, {b:e}: got {:e}, expected {expected:e}, on {}",
                    f32::from_bits(found[k]),
                    fixture.name
                );
            }
            // The smallest float that is not below 1 / `b`, which its product with `b` shows.
            let up = f64::from(f32::from_bits(found[23]));
            if b.is_normal() && b.abs() < 1e30 {
                let below = f64::from(f32::from_bits(found[23]).next_down());
                let [at, under] = [up, below].map(|v| (v * wide_b) * wide_b.signum());
                assert!(
                    at >= wide_b.signum() && under < wide_b.signum(),
                    "1 / {b:e}: {up:e}"
                );
            }
        }
    }
}

/// Whether the sum of two floats is exact in double precision; false for zeros and for numbers that
/// are not finite.
fn sum_is_exact(a: f64, b: f64) -> bool {
    let sum = a + b;
    sum.is_finite() && sum != 0.0 && sum - a == b && sum - b == a
}

fn next_after(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a == b {
        b
    } else if a == 0.0 {
        f32::from_bits(1).copysign(b)
    } else if a < b {
        a.next_up()
    } else {
        a.next_down()
    }
}

#[test]
fn double_precision() {
    let input = pairs(51);
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<[u64; 12]> = unsafe { fixture.map(&SOURCE, "twice", &input) };
        for ([a, b], found) in input.iter().copied().zip(output) {
            let zeros = a == 0.0 && b == 0.0;
            let expected = [
                a + b,
                a - b,
                a * b,
                a / b,
                a.abs().sqrt(),
                a.mul_add(b, a),
                a.floor(),
                a.round_ties_even(),
                if zeros {
                    f64::from_bits(a.to_bits() | b.to_bits())
                } else {
                    a.min(b)
                },
                if zeros {
                    f64::from_bits(a.to_bits() & b.to_bits())
                } else {
                    a.max(b)
                },
                a.trunc(),
                1.0 / b,
            ];
            for (k, expected) in expected.into_iter().enumerate() {
                let value = f64::from_bits(found[k]);
                assert!(
                    found[k] == expected.to_bits() || (value.is_nan() && expected.is_nan()),
                    "result {k} of {a:e}, {b:e}: got {value:e}, expected {expected:e}, on {}",
                    fixture.name
                );
            }
        }
    }
}

/// Converts numbers only, because the integer that a NaN becomes depends on the device.
#[test]
fn conversions() {
    let mut random = numbers(52);
    let mut input: Vec<f64> = (0..600)
        .map(|_| (random.f64() - 0.5) * f64::from(random.i32(-10..70)).exp2())
        .collect();
    input.extend(EDGES.iter().filter(|edge| !edge.is_nan()));
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<[u64; 20]> = unsafe { fixture.map(&SOURCE, "convert", &input) };
        for (d, found) in input.iter().copied().zip(output) {
            let f = d as f32;
            let bits = |value: f32| u64::from(value.to_bits());
            let word = |value: i32| u64::from(value.cast_unsigned());
            let mut expected = [
                bits(f),
                bits(rounded(d, Towards::Zero)),
                bits(rounded(d, Towards::Up)),
                word(f as i32),
                word(f.round_ties_even() as i32),
                word(f.ceil() as i32),
                word(f.floor() as i32),
                u64::from(f as u32),
                (d as i64).cast_unsigned(),
                d as u64,
                word(d.round_ties_even() as i32),
                ((d as i64) as f64).to_bits(),
                bits((d as i64) as f32),
                bits(rounded(f64::from(f as u32), Towards::Zero)),
                bits((f as i32) as f32),
                f64::from(f).to_bits(),
                u64::from((f as i32) as u8),
                i64::from((d.to_bits() >> 32) as i32).cast_unsigned(),
                i64::from(d.to_bits() as i32).cast_unsigned(),
                2 * u64::from(f.is_infinite())
                    + 4 * u64::from(d.is_sign_negative())
                    + 8 * u64::from(d.is_finite()),
            ];
            if d.is_infinite() {
                // A directed rounding without saturation keeps an infinity.
                expected[1] = bits(f);
                expected[2] = bits(f);
            }
            assert_eq!(found, expected, "{d:e} on {}", fixture.name);
        }
    }
}
