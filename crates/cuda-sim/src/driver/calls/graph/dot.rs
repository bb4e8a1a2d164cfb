//! Writing a graph in the DOT language of Graphviz.

use std::ffi::{c_char, c_uint};

use cuda_sys::CUgraph_st;

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::status::{INVALID_VALUE, Status, UNKNOWN};

exports! {
    cuGraphDebugDotPrint => graph_debug_dot_print;
}

/// `CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE`, and the flag that prints handles.
const VERBOSE: u32 = 1;
const HANDLES: u32 = 1 << 10;

/// The flags that are known.
const FLAGS: u32 = (1 << 18) - 1;

impl Call {
    fn graph_debug_dot_print(
        &self,
        graph: Out<CUgraph_st>,
        path: In<c_char>,
        flags: c_uint,
    ) -> Status {
        let path = path.text()?;
        if flags & !FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        let mut text = String::from("digraph dot {\n");
        let verbose = flags & (VERBOSE | HANDLES) != 0;
        self.graphs.lock().dot(graph.handle(), verbose, &mut text)?;
        text.push_str("}\n");
        // The driver returns this status for a file that cannot be written.
        std::fs::write(path, text).map_err(|_| UNKNOWN)
    }
}
