//! Teaches: capturing a graph, replaying it, and changing the parameters of a node.
//!
//! Solves the Poisson equation on a square with Jacobi's method. One sweep is captured and then
//! replayed, first with damping, then without.
//!
//! Prints the number of sweeps and of nodes, and the number of verified points.
//!
//! `cargo run -p examples --example jacobi`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
// next = (1 - weight) * u + weight * (the mean of the neighbours of u, plus f / 4), at the inner
// points of n x n.
extern "C" __global__ void sweep(const float *u, const float *f, float *next, unsigned n, float weight) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row == 0 || column == 0 || row + 1 >= n || column + 1 >= n) return;
    unsigned at = row * n + column;
    float mean = 0.25f * (u[at - 1] + u[at + 1] + u[at - n] + u[at + n] + f[at]);
    next[at] = (1.0f - weight) * u[at] + weight * mean;
}
"#;
/// The number of grid points per side, including the boundary.
const N: u32 = 34;
/// The number of sweeps with each weight.
const SWEEPS: usize = 60;
const WEIGHTS: [f32; 2] = [0.75, 1.0];

fn main() -> Result<()> {
    let session = Session::open()?;
    let sweep = session.load("jacobi.cu", SOURCE)?.kernel("sweep")?;
    let stream = &session.stream;

    let size = (N * N) as usize;
    let f_host: Vec<f32> = (0..size).map(|at| (at % 7) as f32 / 64.0).collect();
    let f = DeviceBuffer::from_host(stream, &f_host)?;
    let mut u = DeviceBuffer::<f32>::zeroed(stream, size)?;
    let mut next = DeviceBuffer::<f32>::zeroed(stream, size)?;

    let blocks = N.div_ceil(16);
    let config = LaunchConfig::new((blocks, blocks), (16, 16));
    // The calls on the scope become nodes of the graph; nothing runs yet.
    let (graph, node) = Graph::capture_with(&session.context, |scope| {
        let args = (&u, &f, &mut next, N, WEIGHTS[0]);
        let node = scope.launch_safe(&sweep, config, args)?;
        scope.copy(&mut u, &next)?;
        Ok(node)
    })?;
    let exec = graph.instantiate()?;
    for _ in 0..SWEEPS {
        exec.launch(stream)?;
    }
    // Changes the weight of the node. Launches under way keep the old one.
    let args = (&u, &f, &mut next, N, WEIGHTS[1]);
    exec.set_kernel_safe(node, &sweep, config, args)?;
    for _ in 0..SWEEPS {
        exec.launch(stream)?;
    }
    println!(
        "jacobi: {} sweeps of a graph of {} nodes",
        2 * SWEEPS,
        graph.len()
    );
    verify("jacobi", &u.to_vec()?, &reference(&f_host), 1e-5)
}

/// Computes the same sweeps on the host.
fn reference(f: &[f32]) -> Vec<f32> {
    let n = N as usize;
    let mut u = vec![0.0_f32; n * n];
    for weight in WEIGHTS {
        for _ in 0..SWEEPS {
            let mut next = u.clone();
            for at in (1..n - 1).flat_map(|row| (1..n - 1).map(move |column| row * n + column)) {
                let mean = 0.25 * (u[at - 1] + u[at + 1] + u[at - n] + u[at + n] + f[at]);
                next[at] = (1.0 - weight) * u[at] + weight * mean;
            }
            u = next;
        }
    }
    u
}
