//! Copies that overlap the kernel's own work: pipelines, barriers, bulk copies.

use cuda_driver::prelude::*;

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source =
    Source::new("async_copies.cu", include_str!("kernels/async_copies.cu")).with_headers();
const BARRIER: Source =
    Source::new("async_barrier.cu", include_str!("kernels/async_barrier.cu")).with_headers();

fn words(seed: u64, len: usize) -> Vec<i32> {
    let mut random = numbers(seed);
    (0..len).map(|_| random.i32(0..1 << 10)).collect()
}

#[test]
fn tiles_are_copied_while_others_are_added() {
    let input = words(21, 8 * 128);
    let expected: Vec<i32> = (0..128)
        .map(|t| {
            let tiles = input.chunks(128);
            tiles.fold(0, |sum: i32, tile| {
                sum.wrapping_mul(3).wrapping_add(tile[127 - t])
            })
        })
        .collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "pipelined");
        let (values, mut sums) = (fixture.upload(&input), fixture.zeroed::<i32>(128));
        let config = LaunchConfig::new(1, 128);
        // SAFETY: the kernel reads 8 tiles of 128 ints and writes 128.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&values, &mut sums, 8_u32))
        }
        .unwrap();
        assert_eq!(
            fixture.values(&sums, "pipelined"),
            expected,
            "{}",
            fixture.name
        );
    }
}

#[test]
fn bytes_without_a_source_are_zero() {
    let input: Vec<u8> = (1..=255).chain([9]).collect();
    let expected: Vec<u8> = input
        .iter()
        .enumerate()
        .map(|(at, &byte)| if at % 8 < 5 { byte } else { 0 })
        .collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "filled");
        let (values, mut bytes) = (fixture.upload(&input), fixture.zeroed::<u8>(256));
        let config = LaunchConfig::new(1, 32);
        // SAFETY: the kernel reads 256 bytes and writes 256 bytes.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&values, &mut bytes))
        }
        .unwrap();
        assert_eq!(
            fixture.values(&bytes, "filled"),
            expected,
            "{}",
            fixture.name
        );
    }
}

#[test]
fn barriers_wait_for_copies() {
    let input = words(22, 3 * 512);
    let expected: Vec<i32> = input
        .chunks(512)
        .flat_map(|block| block.iter().rev().map(|value| value + 1))
        .collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&BARRIER, "barrier_copy");
        let (values, mut out) = (fixture.upload(&input), fixture.zeroed::<i32>(3 * 512));
        let config = LaunchConfig::new(3, 128);
        // SAFETY: each block reads 512 ints and writes 512 ints.
        unsafe { fixture.stream.launch(&kernel, config, (&values, &mut out)) }.unwrap();
        assert_eq!(
            fixture.values(&out, "barrier_copy"),
            expected,
            "{}",
            fixture.name
        );
    }
}

#[test]
fn bulk_copies_move_whole_blocks() {
    let input: Vec<f32> = words(23, 4 * 1024)
        .into_iter()
        .map(|word| word as f32)
        .collect();
    let expected: Vec<f32> = input.iter().map(|value| value * 2.0).collect();
    for fixture in everywhere() {
        if fixture.context.device().compute_capability().unwrap().major < 9 {
            continue;
        }
        let kernel = fixture.kernel(&SOURCE, "bulk");
        let (values, mut out) = (fixture.upload(&input), fixture.zeroed::<f32>(4 * 1024));
        let config = LaunchConfig::new(4, 64);
        // SAFETY: each block reads 1024 floats and writes 1024 floats.
        unsafe { fixture.stream.launch(&kernel, config, (&values, &mut out)) }.unwrap();
        assert_eq!(fixture.values(&out, "bulk"), expected, "{}", fixture.name);
    }
}
