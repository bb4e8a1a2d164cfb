//! Conditional nodes: the values that kernels set, and the selection of a body.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use cuda_sys::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUctx_st, CUgraph_st, CUgraphConditionalHandle,
    CUgraphConditionalNodeType,
};

use super::World;
use super::add::MOST_NESTED;
use super::launch::{Proto, steps};
use super::model::Owner;
use super::payload::{Conditional, Payload};
use crate::driver::arg::Out;
use crate::driver::context::Context;
use crate::driver::device::Device;
use crate::driver::export::{Call, exports};
use crate::driver::handle::fresh;
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Status};
use crate::engine::{Plan, Work};

exports! {
    cuGraphConditionalHandleCreate => graph_conditional_handle_create;
}

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`
const ASSIGN_DEFAULT: u32 = 1;

/// The maximum number of bodies of a conditional node. The limit of a GPU's driver is not
/// documented.
const MOST_BODIES: u32 = 1 << 16;

/// The value of a conditional handle.
#[derive(Debug)]
pub(super) struct Cell {
    value: AtomicU32,
    /// The value at the start of each launch, if a default was requested.
    default: Option<u32>,
    /// The context of the nodes that use the handle.
    pub(super) context: u64,
}

impl Cell {
    pub(super) fn reset(&self) {
        if let Some(value) = self.default {
            self.value.store(value, Ordering::Release);
        }
    }
}

/// The values of all conditional handles.
#[derive(Debug, Default)]
pub(in crate::driver) struct Conditionals(RwLock<HashMap<u64, Weak<Cell>>>);

impl Conditionals {
    pub(super) fn get(&self, handle: u64) -> Option<Arc<Cell>> {
        let cells = self.0.read().unwrap_or_else(PoisonError::into_inner);
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

    fn add(&self, handle: u64, cell: &Arc<Cell>) {
        let mut cells = self.0.write().unwrap_or_else(PoisonError::into_inner);
        cells.retain(|_, cell| cell.strong_count() > 0);
        cells.insert(handle, Arc::downgrade(cell));
    }
}

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
            context: context.handle,
        });
        let mut world = self.graphs.lock();
        let graph = world.graph_mut(graph.handle())?;
        self.graphs.conditionals.add(created, &cell);
        graph.conditionals.push((created, cell));
        handle.set(created)
    }
}

impl World {
    /// Creates the payload of a conditional node of `graph`, with empty bodies.
    pub(super) fn conditional(
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
                Owner::Node(node) => root = self.home(node)?,
                Owner::User | Owner::Capture(_) => break,
            }
        }
        let cell = cell
            .map(|(_, cell)| Arc::clone(cell))
            .ok_or(INVALID_VALUE)?;
        let is_same = |payload: &Payload| matches!(payload, Payload::Conditional(other) if other.handle == params.handle);
        if !fits || cell.context != context.handle || self.any_node(root, &is_same) {
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
            sort: params.type_,
            bodies: bodies.into(),
            context: Arc::clone(context),
        }))
    }
}

/// A conditional node, ready to run.
#[derive(Clone)]
pub(super) struct Choice {
    pub(super) cell: Arc<Cell>,
    pub(super) sort: CUgraphConditionalNodeType,
    pub(super) bodies: Arc<[Vec<Proto>]>,
    pub(super) device: Arc<Device>,
}

impl Choice {
    /// Converts the node to work that selects a body each time it runs.
    pub(super) fn work(self) -> Work {
        Work::Expand(Box::new(move || self.choose()))
    }

    fn choose(self) -> Plan {
        type T = CUgraphConditionalNodeType;
        if self.device.alive().is_err() || self.device.cancel.load(Ordering::Relaxed) {
            return Plan::default();
        }
        let value = self.cell.value.load(Ordering::Acquire);
        let repeats = self.sort == T::CU_GRAPH_COND_TYPE_WHILE;
        let index = match self.sort {
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
