//! A closure of a graph must not borrow a local, which may be dropped before the call.

use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::{Graph, Result};

fn add(graph: &mut Graph) -> Result<()> {
    let count = AtomicU32::new(0);
    graph.add_host(&[], || {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    Ok(())
}

fn main() {}
