//! The rules for changing nodes of executable graphs.

use std::sync::Arc;

use cuda_sys::CUgraphExecUpdateResult;

use crate::driver::objects::graph::payload::{Kernel, Payload};
use crate::driver::objects::graph::template::{Exec, NODE_PRIORITY, Template};
use crate::driver::objects::space::Spaces;

pub(in crate::driver) type UpdateResult = CUgraphExecUpdateResult;

/// A rejected update: the reason, the node of the graph that causes it, and the dependency of that
/// node.
pub(in crate::driver) type RejectedUpdate = (UpdateResult, u64, u64);

/// The requirements on new parameters, besides the type of the node.
pub(in crate::driver) struct Rules<'a> {
    spaces: &'a Spaces,
    /// Whether launches use the priorities of nodes, which then cannot change.
    keeps_priorities: bool,
}

impl<'a> Rules<'a> {
    pub(in crate::driver) fn of(exec: &Exec, spaces: &'a Spaces) -> Self {
        Self {
            spaces,
            keeps_priorities: exec.flags & NODE_PRIORITY != 0,
        }
    }
}

/// Checks whether the parameters of a node of an executable graph can be replaced.
pub(in crate::driver) fn may_become(
    old: &Payload,
    new: &Payload,
    rules: &Rules<'_>,
) -> Result<(), UpdateResult> {
    let unless = |wrong: bool, why| if wrong { Err(why) } else { Ok(()) };
    let changed = UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    match (old, new) {
        (Payload::Kernel(old), Payload::Kernel(new)) => {
            let moved = old.context.handle != new.context.handle;
            unless(
                moved,
                UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE,
            )?;
            let priority = |kernel: &Kernel| kernel.attributes.priority();
            let differs = old.shape.cooperative != new.shape.cooperative
                || (rules.keeps_priorities && priority(old) != priority(new));
            unless(
                differs,
                UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED,
            )
        }
        (Payload::Copy(old), Payload::Copy(new)) => {
            let (before, after) = (&old.params.0, &new.params.0);
            let kinds = before.srcMemoryType != after.srcMemoryType
                || before.dstMemoryType != after.dstMemoryType;
            let places = old.transfer.owners(rules.spaces) != new.transfer.owners(rules.spaces);
            unless(kinds || places, changed)
        }
        (Payload::Fill(old), Payload::Fill(new)) => {
            let (before, after) = (old.fill, new.fill);
            let is_2d = before.height > 1;
            let size = (after.width, after.pitch, after.element)
                != (before.width, before.pitch, before.element);
            let moved = rules.spaces.owner(before.dst) != rules.spaces.owner(after.dst);
            unless(
                moved || before.height != after.height || (is_2d && size),
                changed,
            )
        }
        (Payload::Operations(old), Payload::Operations(new)) => {
            let differs = !old.kinds().eq(new.kinds());
            unless(differs || old.context.handle != new.context.handle, changed)
        }
        (Payload::Signal(old), Payload::Signal(new)) => {
            unless(old.ops.len() != new.ops.len(), changed)
        }
        (Payload::Await(old), Payload::Await(new)) => {
            unless(old.ops.len() != new.ops.len(), changed)
        }
        (Payload::Alloc(old), Payload::Alloc(new)) | (Payload::Free(old), Payload::Free(new)) => {
            unless(
                !Arc::ptr_eq(old, new),
                UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED,
            )
        }
        (Payload::Conditional(old), Payload::Conditional(new)) => {
            let differs = old.kind != new.kind || old.bodies.len() != new.bodies.len();
            unless(differs, changed)
        }
        _ if old.kind() == new.kind() => Ok(()),
        _ => Err(UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED),
    }
}

impl Template {
    /// Checks whether the template can take over the parameters of `new`, whose nodes are matched
    /// with its own by position.
    pub(in crate::driver) fn check_update(
        &self,
        new: &Self,
        rules: &Rules<'_>,
    ) -> Result<(), RejectedUpdate> {
        self.check_nodes(new, rules)?;
        // Matching by position is correct because both graphs created handles and assigned them to
        // nodes in the same order.
        let places = (self.places(), new.places());
        let mut pairs = places.0.iter().zip(&places.1);
        match pairs.find(|(old, new)| old.0 != new.0) {
            Some((_, &(_, node))) => Err((
                UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
                node,
                0,
            )),
            None => Ok(()),
        }
    }

    fn check_nodes(&self, new: &Self, rules: &Rules<'_>) -> Result<(), RejectedUpdate> {
        let topology = UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if self.nodes.len() != new.nodes.len() {
            return Err((topology, 0, 0));
        }
        for (old, new) in self.nodes.iter().zip(&new.nodes) {
            if old.payload.kind() != new.payload.kind() {
                let why = UpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
                return Err((why, new.source, 0));
            }
            if old.after.len() != new.after.len() {
                return Err((topology, new.source, 0));
            }
            let mut pairs = new.after.iter().zip(&new.links);
            let strange = pairs.find(|&(from, _)| !old.after.contains(from));
            if let Some((_, &(from, _))) = strange {
                return Err((topology, new.source, from));
            }
            may_become(&old.payload, &new.payload, rules).map_err(|why| (why, new.source, 0))?;
            for (old, new) in old.inner.iter().zip(&new.inner) {
                old.check_nodes(new, rules)?;
            }
        }
        Ok(())
    }

    /// Returns, for each conditional node in order, the index of its value among the values of this
    /// template, and the node.
    fn places(&self) -> Vec<(Option<usize>, u64)> {
        let cells = self.cells();
        let mut found = Vec::new();
        self.visit(&mut |node| {
            if let Payload::Conditional(it) = &node.payload {
                let place = cells.iter().position(|cell| Arc::ptr_eq(cell, &it.cell));
                found.push((place, node.source));
            }
        });
        found
    }
}
