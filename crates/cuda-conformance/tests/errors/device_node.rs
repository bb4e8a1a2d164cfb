//! Kernel nodes that kernels can update on the device.

use std::ptr::{null, null_mut};

use cuda_sys::{
    CUgraph, CUgraphExecUpdateResultInfo, CUgraphNode, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUresult,
};

use crate::fixture::{Fixture, cases, made};

/// A graph with one kernel node.
struct One {
    graph: CUgraph,
    node: CUgraphNode,
}

impl One {
    fn new(g: &Fixture<'_>) -> Self {
        let graph = g.new_graph();
        let node = g.kernel(graph);
        Self { graph, node }
    }
}

/// Sets whether kernels can update the node.
fn set(g: &Fixture<'_>, node: CUgraphNode, is_updatable: u64) -> CUresult {
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    unsafe { (&raw mut value).cast::<u64>().write(is_updatable) };
    let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
    // The driver writes the handle of the node into the value.
    let value = (&raw mut value).cast_const();
    unsafe { g.d.cuGraphKernelNodeSetAttribute(node, id, value) }
}

/// Makes a call with a graph whose node kernels can update and one whose node they cannot.
fn changed(g: &Fixture<'_>, call: impl FnOnce(&One, &One) -> CUresult) -> CUresult {
    let (one, plain) = (One::new(g), One::new(g));
    let mut status = set(g, one.node, 1);
    if status.is_success() {
        status = call(&one, &plain);
    }
    unsafe {
        let _ = g.d.cuGraphDestroy(one.graph);
        let _ = g.d.cuGraphDestroy(plain.graph);
    }
    status
}

/// Instantiates `graph`, then updates the executable from `second`, or instantiates the graph again
/// if there is none.
fn executed(g: &Fixture<'_>, graph: CUgraph, second: Option<CUgraph>) -> CUresult {
    let (mut exec, mut other) = (null_mut(), null_mut());
    unsafe {
        let status = g.d.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0);
        assert!(status.is_success(), "{status}");
        let status = match second {
            Some(second) => {
                let mut info = made(|_: &mut CUgraphExecUpdateResultInfo| ());
                g.d.cuGraphExecUpdate_v2(exec, second, &raw mut info)
            }
            None => g.d.cuGraphInstantiateWithFlags(&raw mut other, graph, 0),
        };
        if !other.is_null() {
            let _ = g.d.cuGraphExecDestroy(other);
        }
        let _ = g.d.cuGraphExecDestroy(exec);
        status
    }
}

cases! { g:
    "node_that_kernels_change_by_2" => changed(g, |_, plain| set(g, plain.node, 2));
    "node_that_kernels_change_no_more" => changed(g, |one, _| set(g, one.node, 0));
    "node_that_kernels_change_destroyed" => changed(g, |one, _| g.d.cuGraphDestroyNode(one.node));
    "attributes_of_a_node_that_kernels_change" => changed(g, |one, plain| g.d.cuGraphKernelNodeCopyAttributes(plain.node, one.node));
    "attributes_for_a_node_that_kernels_change" => changed(g, |one, plain| g.d.cuGraphKernelNodeCopyAttributes(one.node, plain.node));
    "two_executables_that_kernels_change" => changed(g, |one, _| executed(g, one.graph, None));
    "executable_like_a_graph_that_kernels_change" => changed(g, |one, plain| executed(g, plain.graph, Some(one.graph)));
    "executable_that_kernels_change_like_a_graph" => changed(g, |one, plain| executed(g, one.graph, Some(plain.graph)));
    "cloned_a_graph_that_kernels_change" => changed(g, |one, _| g.d.cuGraphClone(g.out(), one.graph));
    "child_that_kernels_change" => changed(g, |one, plain| g.d.cuGraphAddChildGraphNode(g.out(), plain.graph, null(), 0, one.graph));
}
