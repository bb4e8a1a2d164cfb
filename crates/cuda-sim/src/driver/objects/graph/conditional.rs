//! Conditional nodes: the values that kernels set, and the selection of a body.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock, Weak};

use cuda_sys::{CUDA_CONDITIONAL_NODE_PARAMS, CUgraphConditionalNodeType};

use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::objects::graph::GraphState;
use crate::driver::objects::graph::add::MOST_NESTED;
use crate::driver::objects::graph::launch::{StepTemplate, steps};
use crate::driver::objects::graph::model::Owner;
use crate::driver::objects::graph::payload::{Conditional, Payload};
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status};
use crate::engine::{Plan, Work};
use crate::lock::{read, write};

/// The maximum number of bodies of a conditional node. The limit of the real driver is not
/// documented.
const MOST_BODIES: u32 = 1 << 16;

/// The value of a conditional handle.
#[derive(Debug)]
pub(in crate::driver) struct Cell {
    pub(in crate::driver) value: AtomicU32,
    /// The value at the start of each launch, if a default was requested.
    pub(in crate::driver) default: Option<u32>,
    /// The context of the nodes that use the handle.
    pub(in crate::driver) context: u64,
}

impl Cell {
    pub(in crate::driver) fn reset(&self) {
        if let Some(value) = self.default {
            self.value.store(value, Ordering::Release);
        }
    }
}

/// The values of all conditional handles.
#[derive(Debug, Default)]
pub(in crate::driver) struct Conditionals(RwLock<HashMap<u64, Weak<Cell>>>);

impl Conditionals {
    pub(in crate::driver) fn get(&self, handle: u64) -> Option<Arc<Cell>> {
        let cells = read(&self.0);
        cells.get(&handle)?.upgrade()
    }

    /// Sets a value. Returns whether the handle exists.
    pub(in crate::driver) fn set(&self, handle: u64, value: u32) -> bool {
        let cell = self.get(handle);
        if let Some(cell) = &cell {
            cell.value.store(value, Ordering::Release);
        }
        cell.is_some()
    }

    pub(in crate::driver) fn add(&self, handle: u64, cell: &Arc<Cell>) {
        let mut cells = write(&self.0);
        cells.retain(|_, cell| cell.strong_count() > 0);
        cells.insert(handle, Arc::downgrade(cell));
    }
}

impl GraphState {
    /// Creates the payload of a conditional node of `graph`, with empty bodies.
    pub(in crate::driver) fn conditional(
        &mut self,
        graph: u64,
        params: &CUDA_CONDITIONAL_NODE_PARAMS,
        context: &Arc<Context>,
    ) -> Status<Payload> {
        type T = CUgraphConditionalNodeType;
        let fits = match params.type_ {
            T::CU_GRAPH_COND_TYPE_IF => matches!(params.size, 1 | 2),
            T::CU_GRAPH_COND_TYPE_WHILE => params.size == 1,
            T::CU_GRAPH_COND_TYPE_SWITCH => params.size > 0,
            _ => false,
        };
        if self.depth(graph) >= MOST_NESTED {
            return Err(NOT_SUPPORTED);
        }
        if params.size > MOST_BODIES {
            return Err(OUT_OF_MEMORY);
        }
        // The handle must belong to this graph or to one that encloses it, and must not be used by
        // another node.
        let mut root = graph;
        let mut cell = None;
        while let Ok(around) = self.graph(root) {
            let found = around.conditionals.iter();
            cell = cell.or(found.clone().find(|(handle, _)| *handle == params.handle));
            match around.owner {
                Owner::Node(node) => root = self.graph_of_node(node)?,
                Owner::User | Owner::Capture(_) => break,
            }
        }
        let cell = cell
            .map(|(_, cell)| Arc::clone(cell))
            .ok_or(INVALID_VALUE)?;
        let is_same = |payload: &Payload| matches!(payload, Payload::Conditional(other) if other.handle == params.handle);
        if !fits || cell.context != context.home_handle() || self.any_node(root, &is_same) {
            return Err(INVALID_VALUE);
        }
        let mut bodies = Vec::new();
        for _ in 0..params.size {
            let body = self.add_graph(Owner::User);
            self.graph_mut(body)?.is_body = true;
            bodies.push(body as usize);
        }
        Ok(Payload::Conditional(Conditional {
            handle: params.handle,
            cell,
            kind: params.type_,
            bodies: bodies.into(),
            context: Arc::clone(context),
        }))
    }
}

/// A conditional node, ready to run.
#[derive(Clone)]
pub(in crate::driver) struct Choice {
    pub(in crate::driver) cell: Arc<Cell>,
    pub(in crate::driver) kind: CUgraphConditionalNodeType,
    pub(in crate::driver) bodies: Arc<[Vec<StepTemplate>]>,
    pub(in crate::driver) device: Arc<Device>,
}

impl Choice {
    /// Converts the node to work that selects a body each time it runs.
    pub(in crate::driver) fn work(self) -> Work {
        Work::Expand(Box::new(move || self.choose()))
    }

    fn choose(self) -> Plan {
        type T = CUgraphConditionalNodeType;
        if self.device.alive().is_err() || self.device.cancel.load(Ordering::Relaxed) {
            return Plan::default();
        }
        let value = self.cell.value.load(Ordering::Acquire);
        let repeats = self.kind == T::CU_GRAPH_COND_TYPE_WHILE;
        let index = match self.kind {
            T::CU_GRAPH_COND_TYPE_SWITCH => value as usize,
            // With the value 0, an `if` runs its `else` body if it has one, and a `while` ends.
            _ if value == 0 => 1,
            _ => 0,
        };
        let Some(body) = self.bodies.get(index) else {
            return Plan::default();
        };
        let steps = steps(body);
        Plan {
            steps,
            then: repeats.then(|| self.work()),
        }
    }
}
