//! Switching off a node of a kind that cannot be.

use cuda_driver::{GraphExec, Node, Result, node_kind};

fn change(exec: &GraphExec, node: Node<node_kind::Host>) -> Result<()> {
    exec.set_enabled(node, false)
}

fn main() {}
