//! Teaches: CUDA's own headers. A block-wide reduction and a scan from CUB, compiled at run time.
//!
//! `Module::from_source` finds the headers next to NVRTC, in a toolkit, or in NVRTC itself.
//!
//! Prints the number of verified sums and running sums.
//!
//! `cargo run -p examples --example block_reduce`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

constexpr int BLOCK = 128;

// Computes the sum and the running sums of each block of inputs.
extern "C" __global__ void sums(const int *in, int *totals, int *running) {
    using Reduce = cub::BlockReduce<int, BLOCK>;
    using Scan = cub::BlockScan<int, BLOCK>;
    __shared__ typename Reduce::TempStorage reduce;
    __shared__ typename Scan::TempStorage scan;
    int i = blockIdx.x * BLOCK + threadIdx.x;
    int value = in[i];
    int total = Reduce(reduce).Sum(value);
    int sum;
    Scan(scan).InclusiveSum(value, sum);
    if (threadIdx.x == 0) totals[blockIdx.x] = total;
    running[i] = sum;
}
"#;
const BLOCK: usize = 128;

fn main() -> Result<()> {
    let session = Session::open()?;
    let sums = session.load("block_reduce.cu", SOURCE)?.kernel("sums")?;

    let blocks = 64;
    let numbers: Vec<i32> = (0..(blocks * BLOCK) as i32)
        .map(|i| i * i % 1001 - 500)
        .collect();
    let stream = &session.stream;
    let input = DeviceBuffer::from_host(stream, &numbers)?;
    let mut totals = DeviceBuffer::<i32>::zeroed(stream, blocks)?;
    let mut running = DeviceBuffer::<i32>::zeroed(stream, numbers.len())?;
    let config = LaunchConfig::new(blocks as u32, BLOCK as u32);
    stream.launch_safe(&sums, config, (&input, &mut totals, &mut running))?;

    let in_blocks = || numbers.chunks(BLOCK);
    let want_totals: Vec<i32> = in_blocks().map(|block| block.iter().sum()).collect();
    let want_running: Vec<i32> = in_blocks()
        .flat_map(|block| {
            block.iter().scan(0, |sum, value| {
                *sum += value;
                Some(*sum)
            })
        })
        .collect();
    let floats =
        |values: &[i32]| -> Vec<f32> { values.iter().map(|&value| value as f32).collect() };
    verify(
        "totals",
        &floats(&totals.to_vec()?),
        &floats(&want_totals),
        0.0,
    )?;
    verify(
        "running sums",
        &floats(&running.to_vec()?),
        &floats(&want_running),
        0.0,
    )
}
