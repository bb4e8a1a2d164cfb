//! A node cannot be updated with the parameters of another kind of node.

use cuda_driver::{DeviceBuffer, GraphExec, Result};
use cuda_driver::graph::{Node, node_kind};

fn change(
    exec: &GraphExec,
    node: Node<node_kind::Memcpy>,
    buffer: &mut DeviceBuffer<u32>,
) -> Result<()> {
    exec.set_fill(node, buffer, 1_u32)
}

fn main() {}
