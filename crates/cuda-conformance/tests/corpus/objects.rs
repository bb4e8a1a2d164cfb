//! C++ features: structs by value, templates, classes, globals.

use cuda_driver::prelude::*;

use crate::support::{Source, everywhere, numbers};

const FOLDS: [&str; 3] = [
    "folds::fold<int, 3, Sum>",
    "folds::fold<double, 5, Most>",
    "folds::fold<signed char, 2, Sum>",
];
const SOURCE: Source =
    Source::new("objects.cu", include_str!("kernels/objects.cu")).with_expressions(&FOLDS);

#[repr(C)]
#[derive(Clone, Copy)]
struct Affine {
    matrix: [[f32; 3]; 2],
    mode: i32,
    flip: [u8; 4],
    scale: f64,
}

// SAFETY: zero is a valid value of each field.
unsafe impl bytemuck::Zeroable for Affine {}
// SAFETY: the fields have 24, 4, 4 and 8 bytes, each at its natural alignment, without padding.
unsafe impl bytemuck::Pod for Affine {}
// SAFETY: the struct is `repr(C)` with the fields of the kernel's struct, in the same order.
unsafe impl DeviceRepr for Affine {}

/// Uses small integers, so that all results are exact.
#[test]
fn struct_by_value_among_narrow_arguments() {
    let mut random = numbers(80);
    let input: Vec<[f32; 2]> = (0..300)
        .map(|_| std::array::from_fn(|_| f32::from(random.i8(..))))
        .collect();
    for mode in [0, 1] {
        let map = Affine {
            matrix: [[2.0, -3.0, 5.0], [7.0, 11.0, -13.0]],
            mode,
            flip: [0, 1, 1, 0],
            scale: 0.5,
        };
        for fixture in everywhere() {
            let kernel = fixture.kernel(&SOURCE, "affine");
            let (points, mut out) = (fixture.upload(&input), fixture.zeroed::<[f32; 2]>(300));
            let args = (map, -3_i8, &points, 1000_i16, &mut out, 300_u32);
            // SAFETY: the kernel stays below n ← both buffers have 300; the struct has the kernel's
            // layout.
            unsafe {
                fixture
                    .stream
                    .launch(&kernel, LaunchConfig::for_num_elems(300).unwrap(), args)
            }
            .unwrap();
            for (i, found) in fixture.values(&out, "affine").iter().enumerate() {
                let [x, y] = input[i];
                let mut expected: [f32; 2] = std::array::from_fn(|k| {
                    let [a, b, c] = map.matrix[k];
                    let sign = if map.flip[(i + k) % 4] == 1 {
                        -1.0
                    } else {
                        1.0
                    };
                    (a * x + b * y + c) * sign * 0.5 + 997.0
                });
                if mode == 1 {
                    expected.reverse();
                }
                assert_eq!(*found, expected, "{}", fixture.name);
            }
        }
    }
}

#[test]
fn templates_by_name_expression() {
    let mut random = numbers(81);
    let words: Vec<i32> = (0..200).map(|_| random.i32(..)).collect();
    let doubles: Vec<f64> = (0..200).map(|_| random.f64() - 0.5).collect();
    let bytes: Vec<i8> = (0..200).map(|_| random.i8(..)).collect();
    let ring = |i: usize, k: usize| (i + k) % 200;
    for fixture in everywhere() {
        // SAFETY: the first kernel has this signature.
        let found: Vec<i32> = unsafe { fixture.map(&SOURCE, FOLDS[0], &words) };
        let sum = |i: usize| (0..3).fold(0_i32, |sum, k| sum.wrapping_add(words[ring(i, k)]));
        assert!(found.into_iter().eq((0..200).map(sum)), "{}", fixture.name);
        // SAFETY: the second kernel has this signature.
        let found: Vec<f64> = unsafe { fixture.map(&SOURCE, FOLDS[1], &doubles) };
        let most = |i: usize| (0..5).fold(f64::MIN, |most, k| most.max(doubles[ring(i, k)]));
        assert!(found.into_iter().eq((0..200).map(most)), "{}", fixture.name);
        // SAFETY: the third kernel has this signature.
        let found: Vec<i8> = unsafe { fixture.map(&SOURCE, FOLDS[2], &bytes) };
        let sum = |i: usize| bytes[i].wrapping_add(bytes[ring(i, 1)]);
        assert!(found.into_iter().eq((0..200).map(sum)), "{}", fixture.name);
    }
}

#[test]
fn virtual_calls_and_lambdas() {
    let mut random = numbers(82);
    let input: Vec<[f32; 2]> = (0..300)
        .map(|_| std::array::from_fn(|_| f32::from(random.u8(..))))
        .collect();
    let shape = |[x, y]: &[f32; 2]| {
        if x < y {
            [2.0 * x * y, 4.0]
        } else {
            [6.0 * x * x, 0.0]
        }
    };
    let expected: Vec<[f32; 2]> = input.iter().map(shape).collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<[f32; 2]> = unsafe { fixture.map(&SOURCE, "shapes", &input) };
        assert_eq!(output, expected, "{}", fixture.name);
    }
}

#[test]
fn globals_live_as_long_as_their_module() {
    for fixture in everywhere() {
        for _ in 0..2 {
            let kernel = fixture.kernel(&SOURCE, "globals");
            for launch in 0..3_i32 {
                let mut out = fixture.zeroed::<i32>(4);
                // SAFETY: the kernel writes 4 elements.
                unsafe {
                    fixture
                        .stream
                        .launch(&kernel, LaunchConfig::new(1, 1), (&mut out,))
                }
                .unwrap();
                let factor = 3_i32.pow(launch.unsigned_abs());
                let expected = [5 + launch, factor, 2 * factor, 3 * factor];
                assert_eq!(
                    fixture.values(&out, "globals"),
                    expected,
                    "{}",
                    fixture.name
                );
            }
        }
    }
}
