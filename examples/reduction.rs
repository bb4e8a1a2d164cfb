//! Teaches: cooperation of the threads of a block through shared memory and barriers, and several
//! launches on one stream without waits on the host between them.
//!
//! Prints that the sum is verified.
//!
//! `cargo run -p examples --example reduction`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

/// Each block adds 2 * BLOCK elements and writes one sum.
const SOURCE: &str = r#"
extern "C" __global__ void reduce(const float *in, float *out, unsigned n) {
    __shared__ float part[256];
    unsigned t = threadIdx.x;
    unsigned i = blockIdx.x * (2 * blockDim.x) + t;
    float sum = i < n ? in[i] : 0.0f;
    if (i + blockDim.x < n) sum += in[i + blockDim.x];
    part[t] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
"#;
const BLOCK: u32 = 256;

fn main() -> Result<()> {
    let session = Session::open()?;
    let reduce = session.load("reduction.cu", SOURCE)?.kernel("reduce")?;

    // Small integers, so that every order of additions gives the same sum.
    let n: u32 = 1_000_003;
    let numbers: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
    let want: u64 = (0..u64::from(n)).map(|i| i % 7).sum();

    let stream = &session.stream;
    let mut input = DeviceBuffer::from_host(stream, &numbers)?;
    let mut left = n;
    while left > 1 {
        let blocks = left.div_ceil(2 * BLOCK);
        let mut output = DeviceBuffer::<f32>::zeroed(stream, blocks as usize)?;
        let config = LaunchConfig::new(blocks, BLOCK);
        stream.launch_safe(&reduce, config, (&input, &mut output, left))?;
        // Drops the old input. The device frees it after the launch that reads it; the host does
        // not wait.
        input = output;
        left = blocks;
    }
    verify("reduction", &input.to_vec()?, &[want as f32], 0.0)
}
