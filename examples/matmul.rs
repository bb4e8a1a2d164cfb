//! Teaches: a tiled kernel, two-dimensional launches, and timing with events.
//!
//! Prints the time of the kernel and the number of verified elements.
//!
//! `cargo run -p examples --example matmul`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
#define TILE 16
// c = a * b, all n x n, row by row.
extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    unsigned row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (unsigned at = 0; at < n; at += TILE) {
        tile_a[ty][tx] = row < n && at + tx < n ? a[row * n + at + tx] : 0.0f;
        tile_b[ty][tx] = at + ty < n && column < n ? b[(at + ty) * n + column] : 0.0f;
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++) sum += tile_a[ty][k] * tile_b[k][tx];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
"#;
const TILE: u32 = 16;

fn main() -> Result<()> {
    let session = Session::open()?;
    let matmul = session.load("matmul.cu", SOURCE)?.kernel("matmul")?;

    // Not a multiple of the tile size, so that partial tiles are tested too.
    let n: u32 = 250;
    let size = n as usize;
    let a: Vec<f32> = (0..size * size).map(|i| (i % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..size * size).map(|i| (i % 11) as f32 - 5.0).collect();

    let stream = &session.stream;
    let a_device = DeviceBuffer::from_host(stream, &a)?;
    let b_device = DeviceBuffer::from_host(stream, &b)?;
    let mut c_device = DeviceBuffer::<f32>::zeroed(stream, size * size)?;

    let blocks = n.div_ceil(TILE);
    let config = LaunchConfig::new((blocks, blocks), (TILE, TILE));
    let start = stream.record_event()?;
    stream.launch_safe(&matmul, config, (&a_device, &b_device, &mut c_device, n))?;
    let end = stream.record_event()?;
    end.synchronize()?;
    println!("matmul: {n} x {n} in {:?}", end.elapsed_since(&start)?);

    verify("matmul", &c_device.to_vec()?, &reference(&a, &b, size), 0.0)
}

/// Computes the product on the host, in double precision. The inputs are small integers, so the
/// result is exact in both precisions.
fn reference(a: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    let element = |row: usize, column: usize| -> f64 {
        (0..n)
            .map(|k| f64::from(a[row * n + k]) * f64::from(b[k * n + column]))
            .sum()
    };
    (0..n * n).map(|i| element(i / n, i % n) as f32).collect()
}
