//! A graph in the DOT language of Graphviz.

use std::fmt::Write as _;

use crate::driver::objects::graph::GraphState;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::status::Status;

impl GraphState {
    pub(in crate::driver) fn dot(&self, graph: u64, verbose: bool, text: &mut String) -> Status {
        let graph = self.graph(graph)?;
        let name = |node: u64| -> Status<String> {
            Ok(format!(
                "graph_{}_node_{}",
                graph.id,
                self.node(node)?.local_id
            ))
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "subgraph cluster_{} {{\nlabel=\"graph_{}\"",
            graph.id, graph.id
        );
        for (&handle, node) in &graph.nodes {
            let mut label = words(&node.payload);
            if verbose {
                let _ = write!(label, "\\n{handle:#x}");
            }
            let _ = writeln!(text, "\"{}\" [shape=box label=\"{label}\"]", name(handle)?);
            for inner in node.payload.inner() {
                self.dot(inner, verbose, text)?;
            }
        }
        for (&to, node) in &graph.nodes {
            for &(from, _) in &node.after {
                let _ = writeln!(text, "\"{}\" -> \"{}\"", name(from)?, name(to)?);
            }
        }
        text.push_str("}\n");
        Ok(())
    }
}

/// Returns the label of a node, which needs no escaping.
fn words(payload: &Payload) -> String {
    match payload {
        Payload::Kernel(kernel) => {
            let name = kernel.function.name().to_string_lossy();
            let [x, y, z] = kernel.shape.grid;
            let [bx, by, bz] = kernel.shape.block;
            format!(
                "KERNEL\\n{name}\\n<<<({x},{y},{z}), ({bx},{by},{bz}), {}>>>",
                kernel.shape.shared
            )
        }
        Payload::Copy(_) => String::from("MEMCPY"),
        Payload::Fill(memset) => format!("MEMSET\\nvalue {:#x}", memset.fill.value),
        Payload::Host(_) => String::from("HOST"),
        Payload::Child(_) => String::from("GRAPH"),
        Payload::Empty => String::from("EMPTY"),
        Payload::Record(_) => String::from("EVENT_RECORD"),
        Payload::Wait(_) => String::from("EVENT_WAIT"),
        Payload::Alloc(memory) => format!("MEM_ALLOC\\n{} bytes", memory.size),
        Payload::Free(_) => String::from("MEM_FREE"),
        Payload::Operations(_) => String::from("BATCH_MEM_OP"),
        Payload::Signal(_) => String::from("EXT_SEMAS_SIGNAL"),
        Payload::Await(_) => String::from("EXT_SEMAS_WAIT"),
        Payload::Conditional(_) => String::from("CONDITIONAL"),
    }
}
