//! A node that writes a buffer which is only borrowed to read.

use cuda_driver::{DeviceBuffer, Graph, Result};

fn add(graph: &mut Graph, buffer: &DeviceBuffer<u32>) -> Result<()> {
    graph.fill(&[], buffer, 1_u32)?;
    Ok(())
}

fn main() {}
