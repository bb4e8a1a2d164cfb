//! A closure of a graph that borrows what may be gone when it is called.

use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::{Graph, Result};

fn add(graph: &mut Graph) -> Result<()> {
    let count = AtomicU32::new(0);
    graph.host(&[], || {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    Ok(())
}

fn main() {}
