//! The handles of conditional nodes.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use cuda_sys::{CUctx_st, CUgraph_st, CUgraphConditionalHandle};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::handle::fresh;
use crate::driver::objects::graph::conditional::Cell;
use crate::driver::status::{INVALID_VALUE, Status};

exports! {
    cuGraphConditionalHandleCreate => graph_conditional_handle_create;
}

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`
const ASSIGN_DEFAULT: u32 = 1;

impl Call {
    fn graph_conditional_handle_create(
        &self,
        handle: Out<CUgraphConditionalHandle>,
        graph: Out<CUgraph_st>,
        ctx: Out<CUctx_st>,
        default: c_uint,
        flags: c_uint,
    ) -> Status {
        handle.required()?;
        let context = self.context(ctx.handle())?;
        if flags & !ASSIGN_DEFAULT != 0 {
            return Err(INVALID_VALUE);
        }
        let created = fresh();
        let cell = Arc::new(Cell {
            value: AtomicU32::new(default),
            default: (flags & ASSIGN_DEFAULT != 0).then_some(default),
            context: context.home_handle(),
        });
        let mut state = self.graphs.lock();
        let graph = state.graph_mut(graph.handle())?;
        self.graphs.conditionals.add(created, &cell);
        graph.conditionals.push((created, cell));
        handle.set(created)
    }
}
