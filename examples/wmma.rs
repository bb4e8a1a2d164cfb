//! Teaches: tensor cores. Each warp multiplies tiles of 16 x 16 half-precision numbers.
//!
//! Prints the number of verified elements.
//!
//! `cargo run -p examples --example wmma`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};
use half::f16;

const SOURCE: &str = r#"
#include <mma.h>
using namespace nvcuda;

// c = a * b, all n x n, row by row; n is a multiple of 16. One warp computes one tile of c.
extern "C" __global__ void matmul(const half *a, const half *b, float *c, unsigned n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> tile_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> tile_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    unsigned row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fill_fragment(sum, 0.0f);
    for (unsigned k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(tile_a, a + row * n + k, n);
        wmma::load_matrix_sync(tile_b, b + k * n + column, n);
        wmma::mma_sync(sum, tile_a, tile_b, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let stream = &session.stream;
    let matmul = SafeModule::from_source(&session.context, SOURCE)?.kernel("matmul")?;

    let n = 128_u32;
    let size = n as usize;
    // Small integers: `f16` holds them and `f32` their sums without rounding.
    let a: Vec<f16> = (0..size * size)
        .map(|i| f16::from_f32((i % 7) as f32 - 3.0))
        .collect();
    let b: Vec<f16> = (0..size * size)
        .map(|i| f16::from_f32((i % 5) as f32 - 2.0))
        .collect();
    let a_device = DeviceBuffer::from_host(stream, &a)?;
    let b_device = DeviceBuffer::from_host(stream, &b)?;
    let mut c = DeviceBuffer::<f32>::zeroed(stream, size * size)?;
    let config = LaunchConfig::new((n / 16, n / 16), 32);
    stream.launch_safe(&matmul, config, (&a_device, &b_device, &mut c, n))?;

    verify("wmma", &c.to_vec()?, &reference(&a, &b, size), 0.0)
}

/// Computes the product on the host.
fn reference(a: &[f16], b: &[f16], n: usize) -> Vec<f32> {
    let mut c = vec![0.0; n * n];
    let b: Vec<f32> = b.iter().map(|it| it.to_f32()).collect();
    for (row, c) in c.chunks_mut(n).enumerate() {
        for k in 0..n {
            let factor = a[row * n + k].to_f32();
            c.iter_mut()
                .zip(&b[k * n..])
                .for_each(|(c, b)| *c += factor * b);
        }
    }
    c
}
