//! Only nodes of some kinds can be disabled; a host node cannot.

use cuda_driver::{GraphExec, Node, Result, node_kind};

fn change(exec: &GraphExec, node: Node<node_kind::Host>) -> Result<()> {
    exec.set_enabled(node, false)
}

fn main() {}
