//! Floating point, compared with an implementation that uses integers (`rustc_apfloat`).

use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, Round as Mode};

use super::device::Numbers;
use crate::vm::rounding::{self, Round};

const MODES: [(Round, Mode); 4] = [
    (Round::Near, Mode::NearestTiesToEven),
    (Round::Zero, Mode::TowardZero),
    (Round::Down, Mode::TowardNegative),
    (Round::Up, Mode::TowardPositive),
];

fn single(numbers: &mut Numbers) -> f32 {
    let special = [
        0,
        1,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x3f80_0000,
    ];
    let bits = numbers.next();
    let sign = (bits >> 40) as u32 & 1 << 31;
    f32::from_bits(match bits % 5 {
        0 => special[(bits >> 8) as usize % special.len()] | sign,
        1 | 2 => (bits >> 8) as u32 & 0x03ff_ffff | 0x3e00_0000 | sign,
        _ => (bits >> 8) as u32,
    })
}

fn same(a: f32, b: Single, what: &str) {
    let b = f32::from_bits(b.to_bits() as u32);
    assert!(
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
        "{what}: {a:e} ({:#x}), not {b:e} ({:#x})",
        a.to_bits(),
        b.to_bits()
    );
}

#[test]
fn single_precision_uses_the_rounding_mode() {
    let mut numbers = Numbers(11);
    let soft = |a: f32| Single::from_bits(a.to_bits().into());
    for _ in 0..200_000 {
        let (a, b, c) = (
            single(&mut numbers),
            single(&mut numbers),
            single(&mut numbers),
        );
        for (round, mode) in MODES {
            let what = |op: &str| format!("{op} of {a:e} {b:e} {c:e} {round:?}");
            same(
                rounding::add32(a, b, round),
                soft(a).add_r(soft(b), mode).value,
                &what("add"),
            );
            same(
                rounding::mul32(a, b, round),
                soft(a).mul_r(soft(b), mode).value,
                &what("mul"),
            );
            same(
                rounding::div32(a, b, round),
                soft(a).div_r(soft(b), mode).value,
                &what("div"),
            );
            let fma = soft(a).mul_add_r(soft(b), soft(c), mode).value;
            same(rounding::fma32(a, b, c, round), fma, &what("fma"));
        }
    }
}

#[test]
fn roots_are_the_nearest_on_the_right_side() {
    let mut numbers = Numbers(12);
    for _ in 0..100_000 {
        let a = single(&mut numbers).abs();
        if !a.is_finite() {
            continue;
        }
        // The square of a 24-bit number is exact in f64.
        let square = |root: f32| f64::from(root) * f64::from(root);
        let wide = f64::from(a);
        let down = rounding::sqrt32(a, Round::Down);
        let up = rounding::sqrt32(a, Round::Up);
        assert!(
            square(down) <= wide && square(down.next_up()) > wide,
            "{a:e}"
        );
        assert!(
            square(up) >= wide && (a == 0.0 || square(up.next_down()) < wide),
            "{a:e}"
        );
    }
}

#[test]
fn integers_become_floats_in_every_mode() {
    let mut numbers = Numbers(13);
    for _ in 0..100_000 {
        let value = i128::from(numbers.next() as i64 >> (numbers.next() % 64));
        for (round, mode) in MODES {
            let expected = Single::from_i128_r(value, mode).value;
            same(
                rounding::int_to_f32(value, round),
                expected,
                &format!("{value} {round:?}"),
            );
            let expected = Double::from_i128_r(value, mode).value.to_bits() as u64;
            assert_eq!(
                rounding::int_to_f64(value, round).to_bits(),
                expected,
                "{value} {round:?}"
            );
        }
    }
}
