//! Matrix products on tensor cores: `wmma`, and `mma` with explicit fragments.

use cuda_driver::prelude::*;

use crate::support::{Fixture, Source, everywhere, numbers};

const SOURCE: Source =
    Source::new("tensor_cores.cu", include_str!("kernels/tensor_cores.cu")).with_headers();

/// Small integers, which all types here represent exactly, as well as their sums.
fn small(seed: u64, len: usize) -> Vec<i32> {
    let mut random = numbers(seed);
    (0..len).map(|_| random.i32(-8..=8)).collect()
}

/// The bits of a bf16: the upper half of an f32.
fn brain(value: i32) -> u16 {
    ((value as f32).to_bits() >> 16) as u16
}

/// The bits of an f16, which is exact for integers up to 2048.
fn half(value: i32) -> u16 {
    half::f16::from_f32(value as f32).to_bits()
}

/// The product of row-major matrices, `m` × `k` times `k` × `n`.
fn product(a: &[i32], b: &[i32], [m, n, k]: [usize; 3]) -> Vec<i32> {
    let element = |at: usize| {
        let (row, column) = (at / n, at % n);
        (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum()
    };
    (0..m * n).map(element).collect()
}

fn transposed(values: &[i32], rows: usize) -> Vec<i32> {
    let columns = values.len() / rows;
    (0..values.len())
        .map(|at| values[at % rows * columns + at / rows])
        .collect()
}

fn has(fixture: &Fixture, major: u32) -> bool {
    fixture.context.device().compute_capability().unwrap().major >= major
}

/// Launches one warp on `a` and `b`, which writes `len` elements.
fn one_warp<A: DeviceRepr, C: DeviceRepr>(
    fixture: &Fixture,
    name: &str,
    (a, b): (&[A], &[A]),
    len: usize,
) -> Vec<C> {
    let kernel = fixture.kernel(&SOURCE, name);
    let (a, b) = (fixture.upload(a), fixture.upload(b));
    let mut c = fixture.zeroed::<C>(len);
    let config = LaunchConfig::new(1, 32);
    // SAFETY: the kernel reads matrices of the shape that each test passes, and writes one of `len`
    // elements.
    unsafe { fixture.stream.launch(&kernel, config, (&a, &b, &mut c)) }.unwrap();
    fixture.values(&c, name)
}

#[test]
fn halves_in_tiles() {
    let shape @ [m, n, k] = [48, 32, 64];
    let (a, b) = (small(1, m * k), small(2, k * n));
    let expected: Vec<f32> = product(&a, &b, shape)
        .into_iter()
        .map(|sum| sum as f32 * 0.5)
        .collect();
    let bits = |values: &[i32]| -> Vec<u16> { values.iter().copied().map(half).collect() };
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "wmma_halves");
        let (a, b) = (fixture.upload(&bits(&a)), fixture.upload(&bits(&b)));
        let mut c = fixture.zeroed::<f32>(m * n);
        let config = LaunchConfig::new((2, 3), 32);
        let args = (&a, &b, &mut c, n as i32, k as i32);
        // SAFETY: the kernel reads m × k and k × n halves and writes m × n floats, in 3 × 2 tiles.
        unsafe { fixture.stream.launch(&kernel, config, args) }.unwrap();
        assert_eq!(
            fixture.values(&c, "wmma_halves"),
            expected,
            "{}",
            fixture.name
        );
    }
}

#[test]
fn bytes_in_tiles() {
    let (a, b) = (small(3, 256), small(4, 256));
    let sums = product(&a, &b, [16; 3]);
    let expected: Vec<i32> = transposed(&sums, 16).iter().map(|sum| sum + 1).collect();
    let bytes = |values: &[i32]| -> Vec<i8> { values.iter().map(|&value| value as i8).collect() };
    for fixture in everywhere() {
        let b = bytes(&transposed(&b, 16));
        let c: Vec<i32> = one_warp(&fixture, "wmma_bytes", (&bytes(&a), &b), 256);
        assert_eq!(c, expected, "{}", fixture.name);
    }
}

#[test]
fn brains_through_ldmatrix() {
    let (a, b) = (small(5, 256), small(6, 128));
    let sums = product(&a, &b, [16, 8, 16]);
    // Each lane initialized its accumulators with 1 and 2 in the upper half of the rows, and with 3
    // and 4 in the lower half.
    let expected: Vec<f32> = sums
        .iter()
        .enumerate()
        .map(|(at, &sum)| (sum + 1 + (at % 2) as i32 + (at / 64 * 2) as i32) as f32)
        .collect();
    let bits = |values: &[i32]| -> Vec<u16> { values.iter().copied().map(brain).collect() };
    for fixture in everywhere().filter(|fixture| has(fixture, 8)) {
        let c: Vec<f32> = one_warp(&fixture, "mma_brains", (&bits(&a), &bits(&b)), 128);
        assert_eq!(c, expected, "{}", fixture.name);
    }
}

#[test]
fn floats_of_nineteen_bits() {
    let (a, b) = (small(7, 128), small(8, 64));
    let expected: Vec<f32> = product(&a, &b, [16, 8, 8])
        .iter()
        .map(|&sum| sum as f32)
        .collect();
    let floats =
        |values: &[i32]| -> Vec<f32> { values.iter().map(|&value| value as f32).collect() };
    for fixture in everywhere().filter(|fixture| has(fixture, 8)) {
        let b = floats(&transposed(&b, 8));
        let c: Vec<f32> = one_warp(&fixture, "mma_tf32", (&floats(&a), &b), 128);
        assert_eq!(c, expected, "{}", fixture.name);
    }
}

#[test]
fn signed_times_unsigned_bytes() {
    let mut random = numbers(9);
    let a: Vec<i32> = (0..512).map(|_| random.i32(-128..128)).collect();
    let b: Vec<i32> = (0..256).map(|_| random.i32(0..256)).collect();
    let expected = product(&a, &b, [16, 8, 32]);
    let words = |values: &[i32]| -> Vec<u32> {
        let fours = values.chunks(4);
        fours
            .map(|four| u32::from_le_bytes([0, 1, 2, 3].map(|i| four[i] as u8)))
            .collect()
    };
    for fixture in everywhere().filter(|fixture| has(fixture, 8)) {
        let b = words(&transposed(&b, 32));
        let c: Vec<i32> = one_warp(&fixture, "mma_bytes", (&words(&a), &b), 128);
        assert_eq!(c, expected, "{}", fixture.name);
    }
}
