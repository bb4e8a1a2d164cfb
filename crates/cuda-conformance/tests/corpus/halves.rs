//! Kernels that use `cuda_fp16.h` and `cuda_bf16.h`.

use cuda_driver::prelude::*;
use half::{bf16, f16};

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source = Source::new("halves.cu", include_str!("kernels/halves.cu")).with_headers();

/// Operands whose sums, products and fused multiply-adds are all exact in double precision.
fn pairs(seed: u64, bits: impl Fn(f32) -> u16) -> Vec<[u16; 2]> {
    let mut random = numbers(seed);
    let mut number = || bits((random.f32() - 0.5) * f32::from(random.i8(-4..9)).exp2());
    (0..600).map(|_| [number(), number()]).collect()
}

fn order(a: f64, b: f64) -> u16 {
    u16::from(a < b) + 2 * u16::from(a == b) + 4 * u16::from(a >= b)
}

/// The next half above or below `value`, without counting both zeros.
fn half_beside(value: f16, step: i16) -> f16 {
    let outward = if value.is_sign_negative() {
        -step
    } else {
        step
    };
    f16::from_bits(value.to_bits().wrapping_add_signed(outward))
}

#[test]
fn half_precision() {
    let mut input = pairs(60, |value| f16::from_f32(value).to_bits());
    // Subnormal, largest and infinite.
    for edge in [
        0x0001, 0x8001, 0x03ff, 0x7bff, 0xfbff, 0x7c00, 0x0000, 0x8000,
    ] {
        input.extend([[edge, 0x3c00], [0x3800, edge]]);
    }
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires; `ushort2` is two 16-bit
        // numbers.
        let output: Vec<[u16; 18]> = unsafe { fixture.map(&SOURCE, "half_precision", &input) };
        for (bits, found) in input.iter().zip(output) {
            let [x, y] = bits.map(f16::from_bits);
            let [a, b] = [x, y].map(f64::from);
            let near = |value: f64| f16::from_f64(value);
            // The largest half that is not above, and the smallest one that is not below.
            let third = y.to_f32() / 3.0;
            let near_third = f16::from_f32(third);
            let (mut down, mut up) = (near_third, near_third);
            while down.to_f32() > third {
                down = half_beside(down, -1);
            }
            while up.to_f32() < third {
                up = half_beside(up, 1);
            }
            let cut = if third < 0.0 { up } else { down };
            let expected = [
                near(a + b),
                near(a - b),
                near(a * b),
                near(a.mul_add(b, a)),
                near(-a),
                near(b.abs()),
                near(a * 3.0),
                cut,
                near(f64::from(a as i32)),
                near(f64::from(b.round_ties_even() as i16)),
                near(a + b),
                near(a.mul_add(b, b)),
                near(a.floor()),
                near(b.round_ties_even()),
                f16::from_bits(order(a, b)),
                near(a / 7.0),
                down,
                up,
            ];
            let expected = expected.map(f16::to_bits);
            assert_eq!(found, expected, "{x}, {y} on {}", fixture.name);
        }
    }
}

#[test]
fn brain_floats() {
    let input = pairs(61, |value| bf16::from_f32(value).to_bits());
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires; `ushort2` is two 16-bit
        // numbers.
        let output: Vec<[u16; 10]> = unsafe { fixture.map(&SOURCE, "brain_floats", &input) };
        for (bits, found) in input.iter().zip(output) {
            let [x, y] = bits.map(bf16::from_bits);
            let [a, b] = [x, y].map(f64::from);
            let near = |value: f64| bf16::from_f64(value);
            let third = y.to_f32() / 3.0;
            let expected = [
                near(a + b),
                near(a - b),
                near(a * b),
                near(a.mul_add(b, a)),
                near(-a),
                near(b.abs()),
                bf16::from_f32(x.to_f32() / 3.0),
                // Truncated to the upper 16 bits.
                bf16::from_bits((third.to_bits() >> 16) as u16),
                near(a + b),
                bf16::from_bits(order(a, b)),
            ];
            let expected = expected.map(bf16::to_bits);
            assert_eq!(found, expected, "{x}, {y} on {}", fixture.name);
        }
    }
}

/// Uses small integers, so that the sum is exact in any order.
#[test]
fn dot_product_of_halves_in_a_float() {
    let mut random = numbers(62);
    let mut vector = || -> Vec<[u16; 2]> {
        let mut half = || f16::from_f32(f32::from(random.i8(-20..20))).to_bits();
        (0..500).map(|_| [half(), half()]).collect()
    };
    let (a, b) = (vector(), vector());
    let value = |bits: &u16| f16::from_bits(*bits).to_f32();
    let (flat_a, flat_b) = (a.as_flattened().iter(), b.as_flattened().iter());
    let expected: f32 = flat_a.zip(flat_b).map(|(a, b)| value(a) * value(b)).sum();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "dot");
        let (a, b, mut out) = (
            fixture.upload(&a),
            fixture.upload(&b),
            fixture.zeroed::<f32>(1),
        );
        let config = LaunchConfig::new(1, 32);
        // SAFETY: the kernel reads 500 pairs ← both buffers have 500, and writes one element.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&a, &b, &mut out, 500_u32))
        }
        .unwrap();
        assert_eq!(fixture.values(&out, "dot"), [expected]);
    }
}
