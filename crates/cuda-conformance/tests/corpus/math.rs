//! The functions of `<math.h>`, in single and double precision.
//!
//! The bounds are those of the tables in the CUDA programming guide, in units in the last place of
//! the result, plus one in double precision for the host's own error. References in single
//! precision are computed in double.

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source = Source::new("math.cu", include_str!("kernels/math.cu"));

/// Pairs of a number from -40 to 40 and a positive one up to 100.
fn pairs(seed: u64) -> Vec<[f64; 2]> {
    let mut random = numbers(seed);
    (0..600)
        .map(|i| {
            let x = (random.f32() * 80.0 - 40.0) * if i % 3 == 0 { 0.01 } else { 1.0 };
            let y = random.f32() * 100.0 + 1e-6;
            [x.into(), y.into()]
        })
        .collect()
}

/// One unit in the last place of a float of this magnitude.
fn ulp_of_single(value: f64) -> f64 {
    let exponent = value.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (exponent - 23.0).exp2()
}

fn ulp_of_double(value: f64) -> f64 {
    let exponent = value.abs().max(f64::MIN_POSITIVE).log2().floor();
    (exponent - 52.0).exp2()
}

/// The name of a function, its error bound, and its reference.
type Line = (&'static str, f64, fn(f64, f64) -> f64);

/// Runs `name` on `input` in single precision, and compares each result with its reference.
fn check_single<const N: usize>(
    name: &str,
    lines: &[Line; N],
    bound: impl Fn(&Line, f64, f64) -> f64,
) where
    [f32; N]: cuda_driver::DeviceRepr,
{
    let input = pairs(40);
    let singles: Vec<[f32; 2]> = input.iter().map(|pair| pair.map(|v| v as f32)).collect();
    for fixture in everywhere() {
        // SAFETY: the kernels here have the signature that `map` requires, with N results.
        let output: Vec<[f32; N]> = unsafe { fixture.map(&SOURCE, name, &singles) };
        for ([x, y], found) in input.iter().zip(&output) {
            for (line, found) in lines.iter().zip(found) {
                let expected = (line.2)(*x, *y);
                let error = (f64::from(*found) - expected).abs();
                assert!(
                    error <= bound(line, *x, expected) || f64::from(*found) == expected,
                    "{} of {x}, {y}: got {found}, expected {expected}, on {}",
                    line.0,
                    fixture.name
                );
            }
        }
    }
}

#[test]
fn single_precision() {
    let lines: [Line; 28] = [
        ("exp", 2.0, |x, _| x.exp()),
        ("exp2", 2.0, |x, _| x.exp2()),
        ("exp10", 2.0, |x, _| 10_f64.powf(x / 4.0)),
        ("expm1", 1.5, |x, _| (x / 8.0).exp_m1()),
        ("log", 1.5, |_, y| y.ln()),
        ("log2", 1.5, |_, y| y.log2()),
        ("log10", 2.5, |_, y| y.log10()),
        ("log1p", 1.5, |_, y| y.ln_1p()),
        ("sin", 2.5, |x, _| x.sin()),
        ("cos", 2.5, |x, _| x.cos()),
        ("tan", 4.5, |x, _| x.tan()),
        ("asin", 4.0, |x, _| single(x / 40.0).asin()),
        ("acos", 4.0, |x, _| single(x / 40.0).acos()),
        ("atan", 2.5, |x, _| x.atan()),
        ("atan2", 3.5, f64::atan2),
        ("sinh", 3.5, |x, _| x.sinh()),
        ("cosh", 2.5, |x, _| x.cosh()),
        ("tanh", 2.5, |x, _| x.tanh()),
        ("asinh", 3.5, |x, _| x.asinh()),
        ("acosh", 4.5, |_, y| single(1.0 + y).acosh()),
        ("atanh", 3.5, |x, _| single(x / 40.0).atanh()),
        ("pow", 8.5, |x, y| y.powf(x / 4.0)),
        ("cbrt", 1.5, |x, _| x.cbrt()),
        ("rsqrt", 2.5, |_, y| y.sqrt().recip()),
        ("hypot", 3.5, f64::hypot),
        ("sincos", 2.5, |x, _| single(x * 5000.0).sin()),
        ("sincos", 2.5, |x, _| single(x * 5000.0).cos()),
        ("fmod", 0.0, |x, y| x % y),
    ];
    check_single("single", &lines, |line, _, expected| {
        line.1 * ulp_of_single(expected)
    });
}

/// The value rounded to a float, as an intermediate result of the kernel is.
fn single(value: f64) -> f64 {
    f64::from(value as f32)
}

/// The guide bounds some of these functions by an absolute error, and some by one that grows with
/// the argument.
#[test]
fn intrinsics_of_fewer_bits() {
    let lines: [Line; 8] = [
        ("__expf", 2.0, |x, _| x.exp()),
        ("__logf", 3.0, |_, y| y.ln()),
        ("__sinf", 0.0, |x, _| single(single(x / 40.0) * 3.0).sin()),
        ("__cosf", 0.0, |x, _| single(single(x / 40.0) * 3.0).cos()),
        ("__fdividef", 2.0, |x, y| x / y),
        ("__powf", 8.0, |_, y| y.sqrt()),
        ("__exp10f", 2.0, |x, _| 10_f64.powf(x / 4.0)),
        ("__log2f", 2.0, |_, y| y.log2()),
    ];
    check_single("fast", &lines, |line, x, expected| {
        let ulp = ulp_of_single(expected);
        match line.0 {
            "__expf" => (2.0 + (1.173 * x).abs().floor()) * ulp,
            "__exp10f" => (2.0 + (2.97 * x / 4.0).abs().floor()) * ulp,
            "__sinf" | "__cosf" => (-20.9_f64).exp2(),
            "__logf" | "__log2f" => (line.1 * ulp).max((-21.0_f64).exp2()),
            _ => line.1 * ulp,
        }
    });
}

#[test]
fn double_precision() {
    let input = pairs(41);
    let lines: [Line; 20] = [
        ("exp", 1.0, |x, _| x.exp()),
        ("log", 1.0, |_, y| y.ln()),
        ("sin", 2.0, |x, _| x.sin()),
        ("cos", 2.0, |x, _| x.cos()),
        ("pow", 2.0, |x, y| y.powf(x / 4.0)),
        ("sqrt", -1.0, |_, y| y.sqrt()),
        ("/", -1.0, |x, y| x / y),
        ("tan", 2.0, |x, _| x.tan()),
        ("atan2", 2.0, f64::atan2),
        ("tanh", 1.0, |x, _| x.tanh()),
        ("cbrt", 1.0, |x, _| x.cbrt()),
        ("exp2", 1.0, |x, _| x.exp2()),
        ("log2", 1.0, |_, y| y.log2()),
        ("log10", 1.0, |_, y| y.log10()),
        ("asin", 2.0, |x, _| (x / 40.0).asin()),
        ("sinh", 2.0, |x, _| x.sinh()),
        ("rsqrt", 1.0, |_, y| y.sqrt().recip()),
        ("hypot", 2.0, f64::hypot),
        ("fmod", -1.0, |x, y| x % y),
        ("reciprocal", -1.0, |_, y| y.recip()),
    ];
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires, with 20 results.
        let output: Vec<[f64; 20]> = unsafe { fixture.map(&SOURCE, "twice", &input) };
        for ([x, y], found) in input.iter().zip(&output) {
            for ((name, bound, reference), found) in lines.iter().zip(found) {
                let expected = reference(*x, *y);
                assert!(
                    (found - expected).abs() <= (bound + 1.0) * ulp_of_double(expected),
                    "{name} of {x}, {y}: got {found}, expected {expected}, on {}",
                    fixture.name
                );
            }
        }
    }
}
