//! Adding a kernel node requires `unsafe`.

use cuda_driver::{Function, Graph, LaunchConfig, Result};

fn add(graph: &mut Graph, kernel: &Function) -> Result<()> {
    graph.add_kernel(&[], kernel, LaunchConfig::new(1, 1), (1_u32,))?;
    Ok(())
}

fn main() {}
