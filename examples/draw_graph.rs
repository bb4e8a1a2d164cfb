//! Teaches: building a graph node by node, a graph in a graph, and drawing what came of it.
//!
//! `cargo run -p examples --example draw_graph -- graph.dot`, then `dot -Tsvg graph.dot -o
//! graph.svg`

use cuda_driver::prelude::*;
use cuda_driver::{DotFlags, Graph};
use examples::{Result, Session, verify};

const PTX: &str = include_str!("kernels/vector_add.ptx");

fn main() -> Result<()> {
    let Session {
        context, stream, ..
    } = Session::open()?;
    let add = Module::load(&context, &Ptx::new(PTX)?)?.function("vector_add")?;
    let n = 1 << 12;
    let zeroed = || DeviceBuffer::<f32>::zeroed(&stream, n as usize);
    let (mut a, mut b, mut sum) = (zeroed()?, zeroed()?, zeroed()?);
    let (mut more, mut result) = (zeroed()?, zeroed()?);
    let config = LaunchConfig::for_num_elems(n);

    let mut inner = Graph::new(&context)?;
    // SAFETY: the kernel reads n floats of the first two and writes n of the third; each has n.
    unsafe { inner.kernel(&[], &add, config, (&a, &sum, &mut more, n)) }?;

    // No edge is named here but one: nodes that share memory wait for each other.
    let mut graph = Graph::new(&context)?;
    graph.fill(&[], &mut a, 1.0)?;
    graph.fill(&[], &mut b, 2.0)?;
    // SAFETY: as above.
    unsafe { graph.kernel(&[], &add, config, (&a, &b, &mut sum, n)) }?;
    graph.child(&[], &inner)?;
    let copy = graph.copy(&[], &mut result, &more)?;
    graph.host(&[copy.edge()], || println!("a launch is done"))?;
    if let Some(path) = std::env::args().nth(1) {
        graph.write_dot(&path, DotFlags::empty())?;
        println!("draw_graph: {} nodes are drawn in {path}", graph.len());
    }

    graph.instantiate()?.launch(&stream)?;
    verify("draw_graph", &result.to_vec()?, &vec![4.0; n as usize], 0.0)
}
