//! Kernels that use CUDA's own C++ libraries: CUB and libcu++.

use cuda_driver::prelude::*;

use crate::support::{Fixture, Source, everywhere, gpu, numbers, unchecked};

const CUB: Source = Source::new("cub.cu", include_str!("kernels/cub.cu")).with_headers();
const STANDARD: Source =
    Source::new("standard.cu", include_str!("kernels/standard.cu")).with_headers();

/// The number of elements of a block in `cub.cu`.
const TILE: usize = 512;
const BLOCKS: u32 = 4;
const LEN: usize = TILE * BLOCKS as usize;

fn blocks() -> LaunchConfig {
    LaunchConfig::new(BLOCKS, 128)
}

/// Runs a kernel of `cub.cu` that writes one element for each element of `input`.
fn tiles<T: DeviceRepr>(fixture: &Fixture, name: &str, input: &[T]) -> Vec<T> {
    let kernel = fixture.kernel(&CUB, name);
    let (input, mut output) = (fixture.upload(input), fixture.zeroed::<T>(LEN));
    // SAFETY: the kernel reads and writes 512 elements in each of 4 blocks.
    unsafe {
        fixture
            .stream
            .launch(&kernel, blocks(), (&input, &mut output))
    }
    .unwrap();
    fixture.values(&output, name)
}

#[test]
fn a_block_sorts_pairs_by_radix() {
    let mut random = numbers(40);
    // Many keys are equal, so that the order of equal keys is visible.
    let input: Vec<u32> = (0..LEN).map(|_| random.u32(..) & 0xf000_00ff).collect();
    let mut expected: Vec<(u32, u32)> = Vec::new();
    for tile in input.chunks(TILE) {
        let mut pairs: Vec<(u32, u32)> = tile.iter().copied().zip(0..).collect();
        pairs.sort();
        expected.extend(pairs);
    }
    for fixture in everywhere() {
        let kernel = fixture.kernel(&CUB, "radix_sort");
        let source = fixture.upload(&input);
        let (mut keys, mut places) = (fixture.zeroed::<u32>(LEN), fixture.zeroed::<u32>(LEN));
        let args = (&source, &mut keys, &mut places);
        // SAFETY: in each of 4 blocks the kernel reads and writes 512 elements of each buffer.
        unsafe { fixture.stream.launch(&kernel, blocks(), args) }.unwrap();
        let keys = fixture.values(&keys, "radix_sort").into_iter();
        let found: Vec<_> = keys.zip(fixture.values(&places, "radix_sort")).collect();
        assert_eq!(found, expected, "{}", fixture.name);
    }
}

#[test]
fn a_block_sorts_floats_downwards() {
    let mut random = numbers(41);
    let input: Vec<f32> = (0..LEN).map(|_| random.f32() * 4.0 - 2.0).collect();
    let mut expected = input.clone();
    for tile in expected.chunks_mut(TILE) {
        tile.sort_by(|a, b| b.total_cmp(a));
    }
    for fixture in everywhere() {
        assert_eq!(tiles(&fixture, "float_sort", &input), expected);
    }
}

#[test]
fn blocks_and_warps_sort_by_merging() {
    let mut random = numbers(42);
    let input: Vec<i64> = (0..LEN).map(|_| random.i64(..)).collect();
    let sorted = |len| {
        let mut values = input.clone();
        for tile in values.chunks_mut(len) {
            tile.sort_by(|a, b| b.cmp(a));
        }
        values
    };
    // The sorts read one element past those that they have written, and ignore it: the checks are
    // off.
    for fixture in unchecked().chain(gpu()) {
        assert_eq!(tiles(&fixture, "merge_sort", &input), sorted(TILE));
        assert_eq!(tiles(&fixture, "warp_sort", &input), sorted(TILE / 4));
    }
}

#[test]
fn a_block_scans() {
    let mut random = numbers(43);
    let input: Vec<i32> = (0..LEN).map(|_| random.i32(0..i32::MAX)).collect();
    let (mut sums, mut largest) = (Vec::new(), Vec::new());
    for tile in input.chunks(TILE) {
        let (mut sum, mut max) = (0_i64, -1);
        for value in tile {
            sum += i64::from(*value);
            sums.push(sum);
            largest.push(max);
            max = max.max(*value);
        }
    }
    for fixture in everywhere() {
        let kernel = fixture.kernel(&CUB, "scans");
        let source = fixture.upload(&input);
        let (mut sum, mut max) = (fixture.zeroed::<i64>(LEN), fixture.zeroed::<i32>(LEN));
        let args = (&source, &mut sum, &mut max);
        // SAFETY: in each of 4 blocks the kernel reads and writes 512 elements of each buffer.
        unsafe { fixture.stream.launch(&kernel, blocks(), args) }.unwrap();
        assert_eq!(fixture.values(&sum, "scans"), sums, "{}", fixture.name);
        assert_eq!(fixture.values(&max, "scans"), largest, "{}", fixture.name);
    }
}

#[test]
fn a_block_counts_bytes_and_moves_them() {
    let mut random = numbers(44);
    let input: Vec<u8> = (0..LEN).map(|_| random.u8(0..6) * 50).collect();
    let (mut counts, mut runs, mut striped) = (vec![0_u32; 1024], Vec::new(), Vec::new());
    for (block, tile) in input.chunks(TILE).enumerate() {
        for byte in tile {
            counts[256 * block + usize::from(*byte)] += 1;
        }
        runs.push(1 + tile.windows(2).filter(|pair| pair[0] != pair[1]).count() as u32);
        // Both arrangements keep the position of an element: only the thread that holds it differs.
        striped.extend_from_slice(tile);
    }
    for fixture in everywhere() {
        let kernel = fixture.kernel(&CUB, "bytes");
        let source = fixture.upload(&input);
        let (mut found, mut heads) = (fixture.zeroed::<u32>(1024), fixture.zeroed::<u32>(4));
        let mut moved = fixture.zeroed::<u8>(LEN);
        let args = (&source, &mut found, &mut heads, &mut moved);
        // SAFETY: each of 4 blocks reads and writes 512 bytes, and writes 256 counts and one number
        // of runs.
        unsafe { fixture.stream.launch(&kernel, blocks(), args) }.unwrap();
        assert_eq!(fixture.values(&found, "bytes"), counts, "{}", fixture.name);
        assert_eq!(fixture.values(&heads, "bytes"), runs, "{}", fixture.name);
        assert_eq!(fixture.values(&moved, "bytes"), striped, "{}", fixture.name);
    }
}

#[test]
fn groups_of_a_warp_sum_and_scan() {
    let mut random = numbers(45);
    // Sums of these numbers are exact in any order.
    let input: Vec<f64> = (0..LEN).map(|_| f64::from(random.i32(..)) / 8.0).collect();
    let sums: Vec<f64> = input.chunks(16).map(|group| group.iter().sum()).collect();
    let before: Vec<f64> = input
        .chunks(16)
        .flat_map(|group| (0..16).map(|lane| group[..lane].iter().sum()))
        .collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&CUB, "groups");
        let source = fixture.upload(&input);
        let (mut found, mut prefix) = (fixture.zeroed::<f64>(LEN / 16), fixture.zeroed::<f64>(LEN));
        let config = LaunchConfig::new(4 * BLOCKS, 128);
        let args = (&source, &mut found, &mut prefix, LEN as u32);
        // SAFETY: each of 16 blocks reads and writes 128 elements, and writes 8 sums.
        unsafe { fixture.stream.launch(&kernel, config, args) }.unwrap();
        assert_eq!(fixture.values(&found, "groups"), sums, "{}", fixture.name);
        assert_eq!(
            fixture.values(&prefix, "groups"),
            before,
            "{}",
            fixture.name
        );
    }
}

/// The bound is a relative error of 1e-13: each result has a few roundings of `f64`, and no result
/// is near 0 unless its parts are.
#[test]
fn complex_numbers() {
    let mut random = numbers(46);
    let mut number = || 0.5 + random.f64();
    let input: Vec<[f64; 4]> = (0..300)
        .map(|_| [number(), number(), number(), -number()])
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<[f64; 8]> = unsafe { fixture.map(&STANDARD, "complex", &input) };
        for (&[a, b, c, d], found) in input.iter().zip(&output) {
            let norm = c * c + d * d;
            let size = a.hypot(b);
            let expected = [
                a * c - b * d,
                a * d + b * c,
                (a * c + b * d) / norm,
                (b * c - a * d) / norm,
                f64::midpoint(size, a).sqrt(),
                ((size - a) / 2.0).sqrt(),
                c.exp() * d.cos(),
                c.exp() * d.sin(),
            ];
            for (found, expected) in found.iter().zip(expected) {
                let bound = 1e-13 * (1.0 + expected.abs());
                assert!((found - expected).abs() < bound, "{found} {expected}");
            }
        }
    }
}

#[test]
fn arrays_spans_and_sums() {
    let mut random = numbers(47);
    let input: Vec<[i32; 8]> = (0..300)
        .map(|_| [(); 8].map(|()| random.i32(-1000..1000)))
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<[i32; 12]> = unsafe { fixture.map(&STANDARD, "arrays", &input) };
        for (values, found) in input.iter().zip(&output) {
            let mut sorted = *values;
            sorted.sort_unstable();
            let sum: i32 = values.iter().sum();
            let mut expected = [0; 12];
            expected[..8].copy_from_slice(&sorted);
            expected[8] = sum;
            expected[9] = values.iter().map(|value| value * value).sum();
            expected[10] = sorted[6];
            expected[11] = (sum.count_ones() + 64 * sum.leading_zeros()) as i32;
            assert_eq!(*found, expected, "{}", fixture.name);
        }
    }
}

#[test]
fn variants_and_text() {
    let mut random = numbers(48);
    let input: Vec<i32> = (0..300).map(|_| random.i32(..)).collect();
    let expected: Vec<i32> = input
        .iter()
        .map(|value| match value % 3 {
            0 => value / 2,
            1 => value.to_string().bytes().map(i32::from).sum(),
            _ => -1,
        })
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<i32> = unsafe { fixture.map(&STANDARD, "variants", &input) };
        assert_eq!(output, expected, "{}", fixture.name);
    }
}

#[test]
fn atomics_of_every_width_and_order() {
    const THREADS: i32 = 640;
    let all = 0..THREADS;
    let flipped = all.clone().fold(0, |bits, t| bits ^ (1_i8 << (t % 7)));
    // Atomics on a byte change the whole word that contains it.
    let bytes = [THREADS as i8, flipped, 0, 0];
    let shorts = [-all.clone().map(|t| t % 5).sum::<i32>() as i16, 300];
    let ints = [all.sum(), -(THREADS - 1), 3 * THREADS];
    let longs = [u64::MAX, (THREADS as u64) << 32];
    let floats = [THREADS as f32 * 0.5, (THREADS - 1) as f32 * 0.25];
    let doubles = [f64::from(THREADS) * -0.125];
    for fixture in everywhere() {
        let kernel = fixture.kernel(&STANDARD, "atomics");
        let (mut byte, mut short) = (fixture.zeroed::<i8>(4), fixture.zeroed::<i16>(2));
        let (mut int, mut long) = (fixture.zeroed::<i32>(3), fixture.zeroed::<u64>(2));
        let (mut float, mut double) = (fixture.zeroed::<f32>(2), fixture.zeroed::<f64>(1));
        let args = (
            &mut byte,
            &mut short,
            &mut int,
            &mut long,
            &mut float,
            &mut double,
        );
        let config = LaunchConfig::new(THREADS as u32 / 64, 64);
        // SAFETY: the kernel reads and writes as many elements of each buffer as it has.
        unsafe { fixture.stream.launch(&kernel, config, args) }.unwrap();
        assert_eq!(fixture.values(&byte, "bytes"), bytes, "{}", fixture.name);
        assert_eq!(fixture.values(&short, "shorts"), shorts, "{}", fixture.name);
        assert_eq!(fixture.values(&int, "ints"), ints, "{}", fixture.name);
        assert_eq!(fixture.values(&long, "longs"), longs, "{}", fixture.name);
        assert_eq!(fixture.values(&float, "floats"), floats, "{}", fixture.name);
        assert_eq!(
            fixture.values(&double, "doubles"),
            doubles,
            "{}",
            fixture.name
        );
    }
}
