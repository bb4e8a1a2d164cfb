//! A node cannot write a buffer that is borrowed only for reading.

use cuda_driver::{DeviceBuffer, Graph, Result};

fn add(graph: &mut Graph, buffer: &DeviceBuffer<u32>) -> Result<()> {
    graph.add_fill(&[], buffer, 1_u32)?;
    Ok(())
}

fn main() {}
