//! Cooperation of threads: barriers, shuffles, votes, groups.

use cuda_driver::prelude::*;

use crate::support::{Source, everywhere, numbers};

const SOURCE: Source =
    Source::new("collective.cu", include_str!("kernels/collective.cu")).with_headers();

/// Random values below `below`. Most kernels here require whole blocks of 128.
fn input(seed: u64, len: usize, below: i32) -> Vec<i32> {
    let mut random = numbers(seed);
    (0..len).map(|_| random.i32(0..below)).collect()
}

#[test]
fn reduction_in_shared_memory() {
    let input = input(10, 1000, 1 << 20);
    let expected: Vec<i32> = input.chunks(128).map(|block| block.iter().sum()).collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "reduce_shared");
        let (values, mut sums) = (fixture.upload(&input), fixture.zeroed::<i32>(8));
        // SAFETY: the kernel reads below n ← 1000, and writes an element for each block ← 8.
        unsafe {
            fixture.stream.launch(
                &kernel,
                LaunchConfig::new(8, 128),
                (&values, &mut sums, 1000_u32),
            )
        }
        .unwrap();
        assert_eq!(fixture.values(&sums, "reduce_shared"), expected);
    }
}

#[test]
fn shuffles_of_each_kind() {
    let input = input(11, 256, 1 << 20);
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires, and there are whole blocks.
        let output: Vec<[i32; 8]> = unsafe { fixture.map(&SOURCE, "shuffles", &input) };
        for (i, found) in output.iter().enumerate() {
            let (warp, lane) = (&input[i / 32 * 32..][..32], i % 32);
            let sum = warp.iter().sum();
            let up = if lane % 16 == 0 { lane } else { lane - 1 };
            let expected = [
                sum,
                sum,
                warp[(lane * 5 + 3) % 32],
                warp[if lane < 3 { lane } else { lane - 3 }],
                warp[if lane % 8 > 5 { lane } else { lane + 2 }],
                warp[lane / 4 * 4 + 1],
                warp[lane ^ 7],
                warp[up] + up as i32,
            ];
            assert_eq!(*found, expected, "lane {lane} on {}", fixture.name);
        }
    }
}

#[test]
fn scan() {
    let input = input(12, 500, 1 << 20);
    let expected: Vec<i32> = input
        .chunks(128)
        .flat_map(|block| {
            block.iter().scan(0, |sum, value| {
                *sum += value;
                Some(*sum)
            })
        })
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires.
        let output: Vec<i32> = unsafe { fixture.map(&SOURCE, "scan", &input) };
        assert_eq!(output, expected);
    }
}

/// The bound is a relative error of 1e-5: two exponentials within 2 units in the last place, a sum
/// of 3 values per thread, 7 reduction steps, a division.
#[test]
fn softmax() {
    let (rows, columns) = (5, 300);
    let mut random = numbers(13);
    let input: Vec<f32> = (0..rows * columns).map(|_| random.f32() * 20.0).collect();
    for fixture in everywhere() {
        let kernel = fixture.kernel(&SOURCE, "softmax");
        let (values, mut output) = (fixture.upload(&input), fixture.zeroed::<f32>(input.len()));
        let config = LaunchConfig::new(rows as u32, 128);
        // SAFETY: each block accesses its row of `columns` only ← the buffers have rows * columns.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&values, &mut output, columns as u32))
        }
        .unwrap();
        let output = fixture.values(&output, "softmax");
        for (row, found) in input.chunks(columns).zip(output.chunks(columns)) {
            let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            for (x, found) in row.iter().zip(found) {
                let expected = f64::from(*x).exp() / sum;
                assert!((f64::from(*found) - expected).abs() <= expected * 1e-5);
            }
        }
    }
}

#[test]
fn votes_of_whole_warps_and_of_some_lanes() {
    let input: Vec<i32> = input(14, 256, 10)
        .into_iter()
        .enumerate()
        .map(|(i, value)| if i < 32 { 5 } else { value })
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires, and there are whole blocks.
        let output: Vec<[u32; 8]> = unsafe { fixture.map(&SOURCE, "votes", &input) };
        for (i, found) in output.iter().enumerate() {
            let (warp, me) = (&input[i / 32 * 32..][..32], input[i]);
            let lanes = |is: &dyn Fn(i32) -> bool| {
                (0..32).fold(0_u32, |mask, lane| mask | u32::from(is(warp[lane])) << lane)
            };
            let odd = |v: i32| v % 2 == 1;
            // All values are below 16, so `v >> 4` is equal in all lanes, and the full mask plus 1
            // is 0.
            let mut expected = [lanes(&odd), 2, lanes(&|v| v == me), 0, 0, 0, 0, 0];
            expected[1] += u32::from(warp.contains(&3));
            if odd(me) {
                expected[5] = lanes(&|v| odd(v) && v > 7);
                expected[6] = *warp.iter().find(|v| odd(**v)).unwrap() as u32;
                expected[7] = lanes(&|v| odd(v) && v & 6 == me & 6);
            }
            assert_eq!(*found, expected, "thread {i} on {}", fixture.name);
        }
    }
}

#[test]
fn barriers_that_count() {
    let input: Vec<i32> = input(15, 384, 100)
        .into_iter()
        .enumerate()
        .map(|(i, value)| if i < 128 { value / 2 + 10 } else { value })
        .collect();
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires, and there are whole blocks.
        let output: Vec<[i32; 4]> = unsafe { fixture.map(&SOURCE, "barrier_votes", &input) };
        for (i, found) in output.iter().enumerate() {
            let block = &input[i / 128 * 128..][..128];
            let count = |is: &dyn Fn(i32) -> bool| block.iter().filter(|v| is(**v)).count() as i32;
            let expected = [
                count(&|v| v > 50),
                i32::from(block.iter().all(|v| *v > 2)),
                i32::from(block.iter().any(|v| *v > 98)),
                count(&|v| v == block[0]),
            ];
            // Any value other than 0 may represent "true".
            let found = [
                found[0],
                i32::from(found[1] != 0),
                i32::from(found[2] != 0),
                found[3],
            ];
            assert_eq!(found, expected, "thread {i} on {}", fixture.name);
        }
    }
}

#[test]
fn cooperative_groups() {
    let input = input(16, 256, 100);
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires, and there are whole blocks.
        let output: Vec<[i32; 4]> = unsafe { fixture.map(&SOURCE, "groups", &input) };
        for (i, found) in output.iter().enumerate() {
            let tile = &input[i / 8 * 8..][..8];
            let any = i32::from(tile.iter().any(|v| *v > 90));
            let all = i32::from(tile.iter().all(|v| *v > 10));
            let expected = [
                tile.iter().sum(),
                (i % 8 * 100 + i % 128 / 8) as i32,
                any * 2 + all,
            ];
            assert_eq!(found[..3], expected, "thread {i} on {}", fixture.name);
            // The lanes that are converged in a branch may be only some of those that take it: a
            // GPU may run a branch in parts.
            let warp = i / 32 * 32;
            let takers = |range: &[i32]| range.iter().filter(|v| **v % 3 == 0).count() as i32;
            let (size, rank) = (found[3] / 100, found[3] % 100);
            if input[i] % 3 == 0 {
                assert!((1..=takers(&input[warp..][..32])).contains(&size));
                assert!(rank < size && rank <= takers(&input[warp..i]));
                if fixture.simulator.is_some() {
                    assert_eq!(
                        (size, rank),
                        (takers(&input[warp..][..32]), takers(&input[warp..i]))
                    );
                }
            } else {
                assert_eq!(found[3], 0);
            }
        }
    }
}

#[test]
fn named_barriers_between_halves_of_a_block() {
    let input = input(17, 512, 1 << 20);
    for fixture in everywhere() {
        // SAFETY: the kernel has the signature that `map` requires, and there are whole blocks.
        let output: Vec<i32> = unsafe { fixture.map(&SOURCE, "relay", &input) };
        for (i, found) in output.iter().enumerate() {
            let (block, t) = (i / 128 * 128, i % 128);
            let taken = if t < 64 {
                0
            } else {
                input[block + 127 - t] * 2
            };
            assert_eq!(*found, input[i] + taken, "thread {i} on {}", fixture.name);
        }
    }
}
