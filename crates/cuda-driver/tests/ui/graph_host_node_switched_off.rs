//! Only nodes of some kinds can be disabled; a host node cannot.

use cuda_driver::{GraphExec, Result};
use cuda_driver::graph::{Node, node_kind};

fn change(exec: &GraphExec, node: Node<node_kind::Host>) -> Result<()> {
    exec.set_enabled(node, false)
}

fn main() {}
