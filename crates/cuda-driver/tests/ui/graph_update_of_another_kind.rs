//! An update of a node with the parameters of another kind.

use cuda_driver::{DeviceBuffer, GraphExec, Node, Result, node_kind};

fn change(
    exec: &GraphExec,
    node: Node<node_kind::Memcpy>,
    buffer: &mut DeviceBuffer<u32>,
) -> Result<()> {
    exec.set_fill(node, buffer, 1_u32)
}

fn main() {}
