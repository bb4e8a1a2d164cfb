//! Teaches: building a graph node by node, with a child graph, and drawing the result.
//!
//! Prints the number of verified elements, and a line when the graph has run. With a path, it
//! writes the graph in the language of Graphviz.
//!
//! `cargo run -p examples --example draw_graph -- graph.dot`, then `dot -Tsvg graph.dot -o
//! graph.svg`

use cuda_driver::graph::DotFlags;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const PTX: &str = include_str!("kernels/vector_add.ptx");

fn main() -> Result<()> {
    let Session {
        context, stream, ..
    } = Session::open()?;
    let add = SafeModule::load(&context, &Ptx::new(PTX)?)?.kernel("vector_add")?;
    let n = 1 << 12;
    let zeroed = || DeviceBuffer::<f32>::zeroed(&stream, n as usize);
    let (mut a, mut b, mut sum) = (zeroed()?, zeroed()?, zeroed()?);
    let (mut more, mut result) = (zeroed()?, zeroed()?);
    let config = LaunchConfig::for_num_elems(n)?;

    let mut inner = Graph::new(&context)?;
    inner.add_kernel_safe(&[], &add, config, (&a, &sum, &mut more, n))?;

    // Nodes that share memory depend on each other, so only one edge is named here.
    let mut graph = Graph::new(&context)?;
    graph.add_fill(&[], &mut a, 1.0)?;
    graph.add_fill(&[], &mut b, 2.0)?;
    graph.add_kernel_safe(&[], &add, config, (&a, &b, &mut sum, n))?;
    graph.add_child(&[], &inner)?;
    let copy = graph.add_copy(&[], &mut result, &more)?;
    graph.add_host(&[copy.edge()], || println!("a launch is done"))?;
    if let Some(path) = std::env::args().nth(1) {
        graph.write_dot(&path, DotFlags::empty())?;
        println!("draw_graph: wrote {} nodes to {path}", graph.len());
    }

    graph.instantiate()?.launch(&stream)?;
    verify("draw_graph", &result.to_vec()?, &vec![4.0; n as usize], 0.0)
}
