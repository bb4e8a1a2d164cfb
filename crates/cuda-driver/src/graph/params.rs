//! The parameters of nodes: a node of any kind is added to a graph with parameters for the driver
//! and, for most kinds, changed with them in an executable.

use cuda_sys::{CUgraph, CUgraphExec, CUgraphNode};

use crate::driver::Driver;
use crate::error::{DriverError, Result};
use crate::types::node::node_kind::Kind;

/// Passed instead of the number of a graph when a node is changed. Memory that a graph allocates
/// carries the number of that graph, so a changed node cannot refer to such memory, which is valid
/// only between two nodes of one launch.
pub(super) const NO_GRAPH: u64 = 0;

/// The arguments of a driver call that adds a node.
pub(super) struct Adding<'a> {
    pub(super) driver: &'a Driver,
    pub(super) node: *mut CUgraphNode,
    pub(super) graph: CUgraph,
    pub(super) after: *const CUgraphNode,
    pub(super) count: usize,
}

/// The arguments of a driver call that changes a node.
pub(super) struct Changing<'a> {
    pub(super) driver: &'a Driver,
    pub(super) exec: CUgraphExec,
    pub(super) node: CUgraphNode,
}

/// Calls `name` with the arguments with which every driver call that adds a node begins: the node,
/// the graph, and the dependencies with their count.
macro_rules! call_add {
    ($it:expr, $name:ident $(, $arg:expr)*) => {
        $crate::driver::call!(
            $it.driver,
            $name($it.node, $it.graph, $it.after, $it.count $(, $arg)*)
        )
    };
}
pub(super) use call_add;

/// Calls `name` with the arguments with which every driver call that changes a node begins: the
/// executable and the node.
macro_rules! call_set {
    ($it:expr, $name:ident, $($arg:expr),*) => {
        $crate::driver::call!($it.driver, $name($it.exec, $it.node, $($arg),*))
    };
}
pub(super) use call_set;

/// The parameters of a node, as the driver takes them.
pub(super) trait NodeParams {
    type Kind: Kind;

    /// Makes the driver call that adds one node of this kind with the edges of `it`.
    ///
    /// # Safety
    ///
    /// The pointers of `it` are valid, and its graph and nodes are alive and locked.
    unsafe fn add(&mut self, it: &Adding<'_>) -> Result<(), DriverError>;

    /// Returns whether [`finish`](Self::finish) must be called.
    fn needs_finish(&self) -> bool {
        false
    }

    /// Makes the driver calls that follow after the node was added. If one fails, the node is
    /// removed again.
    ///
    /// # Safety
    ///
    /// `node` was added by [`add`](Self::add), and its graph is locked.
    unsafe fn finish(&self, _driver: &Driver, _node: CUgraphNode) -> Result<(), DriverError> {
        Ok(())
    }
}

/// The parameters of a node that executables can change.
pub(super) trait SetNodeParams: NodeParams {
    /// Whether a change fails when a node that is not ordered with this one has a conflicting
    /// access. If not, the program guarantees the order.
    const CHECKS_ORDER: bool = true;

    /// Makes the driver call that gives these parameters to the node of `it`.
    ///
    /// # Safety
    ///
    /// The executable and the node of `it` are alive and locked.
    unsafe fn set(&mut self, it: &Changing<'_>) -> Result<(), DriverError>;
}
