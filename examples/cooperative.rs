//! Teaches: cooperative groups. The blocks of a cooperative launch run at the same time, so that
//! the whole grid can wait at a barrier.
//!
//! Prints the size of the grid and the number of verified elements.
//!
//! `cargo run -p examples --example cooperative`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Divides each element by the sum of all, which `sum` receives.
extern "C" __global__ void normalize(float *x, float *sum, unsigned n) {
    cg::grid_group grid = cg::this_grid();
    float part = 0.0f;
    for (unsigned i = grid.thread_rank(); i < n; i += grid.size()) part += x[i];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int half = 16; half > 0; half /= 2) part += warp.shfl_down(part, half);
    if (warp.thread_rank() == 0) atomicAdd(sum, part);

    // Without this barrier some blocks would read the sum before others have added to it.
    grid.sync();
    for (unsigned i = grid.thread_rank(); i < n; i += grid.size()) x[i] /= *sum;
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (device, stream) = (&session.device, &session.stream);
    if !device.has_cooperative_launch()? {
        println!(
            "cooperative: {} has no cooperative launches",
            device.name()?
        );
        return Ok(());
    }
    let kernel = Module::from_source(&session.context, SOURCE)?.function("normalize")?;

    // All blocks have to fit on the device, so the grid is not larger than that.
    let threads = 128;
    let fit = kernel.max_active_blocks(threads, 0)? * device.multiprocessor_count()?;
    let blocks = fit.min(32);
    println!("cooperative: {blocks} of at most {fit} blocks");

    // Small integers, so that every order of additions gives the same sum.
    let n = 100_000_u32;
    let numbers: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
    let mut x = DeviceBuffer::from_host(stream, &numbers)?;
    let mut sum = DeviceBuffer::<f32>::zeroed(stream, 1)?;
    let config = LaunchConfig::new(blocks, threads);
    let attributes = LaunchAttributes::new().cooperative();
    // Not a safe launch: the barrier of the grid is in memory that is not an argument.
    // SAFETY: the kernel reads and writes n floats of `x`, and adds to the one of `sum`.
    unsafe { stream.launch_with(&kernel, config, &attributes, (&mut x, &mut sum, n))? };

    let total: f32 = numbers.iter().sum();
    let want: Vec<f32> = numbers.iter().map(|number| number / total).collect();
    verify("cooperative, sum", &sum.to_vec()?, &[total], 0.0)?;
    verify("cooperative", &x.to_vec()?, &want, 1e-6)
}
