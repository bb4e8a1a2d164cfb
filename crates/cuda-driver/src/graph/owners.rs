//! The memory that a node of a graph accesses, and the owners that it keeps alive.

use std::any::Any;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::conflicts::NodeAccess;
use super::lease::Lease;
use super::params::NO_GRAPH;
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::function::Function;
use crate::launch::{KernelArgs, Tracked, expect_no_array_conflict};
use crate::memory::{Memory, RecordedMemory, RecordedUse};
use crate::pending::{Closure, KeepAlive};
use crate::safe::CheckedNode;
use crate::tracking::{Access, ReplayRecord, Tracker};
use crate::types::LaunchConfig;

/// The resources of a node: memory, code, closures, events, and the owners of a child graph's
/// nodes.
///
/// Shared by the graph, its clones and its executables, and dropped when none of them and no launch
/// uses it any more.
#[derive(Default)]
pub(crate) struct Owners {
    uses: Vec<GraphUse>,
    retained: Arc<Retained>,
    /// The owners of the nodes of a child graph.
    inner: Vec<Arc<Self>>,
    /// The closures in `retained`.
    closures: Vec<Arc<Closure>>,
    /// The kernel that the node launches, if it is a kernel node.
    kernel: Option<Function>,
    /// The configuration of the kernel; `None` if an eager capture has made the node.
    config: Option<LaunchConfig>,
    /// The record that the node writes, if it launches the checked copy of a kernel.
    checked: Option<Arc<CheckedNode>>,
    /// Whether the node can wait for the host program.
    may_wait_for_host: bool,
}

/// The resources other than device memory, which is freed in stream order instead.
#[derive(Default)]
struct Retained(Vec<Box<dyn OnFailure>>);

/// A resource that a node keeps alive.
pub(crate) trait OnFailure: Send + Sync {
    /// Called when a launch that uses the resource has failed and may still be running.
    fn poison(&self, error: DriverError);
}

/// A resource that the driver uses, and that can be dropped at any time without harm.
struct Plain<T>(#[allow(dead_code, reason = "kept, not read")] T);

impl<T: Any + Send + Sync> OnFailure for Plain<T> {
    fn poison(&self, _: DriverError) {}
}

/// An access of a node to memory.
struct GraphUse {
    memory: Used,
    access: NodeAccess,
}

enum Used {
    /// The memory of a buffer.
    Device(Lease),
    /// Host memory, whose owner is kept separately.
    Host(Arc<Tracker>),
    /// Memory that the graph allocates, which only its nodes use.
    Own,
}

impl Owners {
    /// Returns the owners for a kernel with these arguments, in `context` and in the graph with
    /// this number.
    pub(crate) fn of_args(context: &Context, number: u64, args: &impl KernelArgs) -> Result<Self> {
        expect_no_array_conflict(args)?;
        let mut this = Self::default();
        args.each_tracked(&mut |tracked| {
            let Tracked {
                memory,
                access,
                address,
                bytes,
                graph,
                argument: _,
                peer: _,
                kept,
                object: _,
            } = tracked;
            match memory {
                Some(memory) => this.add((context, number), memory, access, address, bytes)?,
                None if graph == number => this.add_own(access, address, bytes),
                None => return Err(Error::OtherGraph),
            }
            if let Some(kept) = kept {
                this.keep(kept.keep());
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// Returns the owners for a captured call with these uses, in `context` and in the graph with
    /// this number.
    pub(super) fn of_recorded(
        context: &Context,
        number: u64,
        uses: Vec<RecordedUse>,
    ) -> Result<Self> {
        let mut this = Self::default();
        for RecordedUse {
            memory,
            access,
            address,
            bytes,
            kept,
        } in uses
        {
            let memory = match memory {
                RecordedMemory::OfGraph(graph) if graph == number => Used::Own,
                RecordedMemory::OfGraph(_) => return Err(Error::OtherGraph),
                RecordedMemory::Buffer { tracker, .. } if tracker.graph() == number => Used::Own,
                RecordedMemory::Buffer {
                    tracker,
                    is_managed,
                } => {
                    let of = tracker.owning_stream().context();
                    if of != context {
                        return Err(Error::other_context("a buffer of the node", of, context));
                    }
                    Used::Device(Lease::of_tracker(&tracker, is_managed, number)?)
                }
            };
            this.push(memory, access, address, bytes);
            if let Some(kept) = kept {
                this.keep(kept);
            }
        }
        Ok(this)
    }

    /// Adds memory for the graph with this number in `context`. The memory was borrowed in a way
    /// that allows this access.
    pub(crate) fn add(
        &mut self,
        (context, number): (&Context, u64),
        memory: &Memory,
        access: Access,
        address: CUdeviceptr,
        bytes: usize,
    ) -> Result<()> {
        let of = memory.owning_stream().context();
        if of != context {
            return Err(Error::other_context("a buffer of the node", of, context));
        }
        // A graph that allocates no memory may have the number 0.
        let is_own = number != NO_GRAPH && memory.tracker.graph() == number;
        let memory = if is_own {
            Used::Own
        } else {
            Used::Device(Lease::new(memory, number)?)
        };
        self.push(memory, access, address, bytes);
        Ok(())
    }

    /// Adds host memory. Its owner must be [kept](Self::retain_boxed) as well.
    pub(crate) fn add_host(
        &mut self,
        tracker: &Arc<Tracker>,
        access: Access,
        address: u64,
        bytes: usize,
    ) {
        self.push(Used::Host(Arc::clone(tracker)), access, address, bytes);
    }

    /// Adds memory that a node of the graph allocates.
    pub(crate) fn add_own(&mut self, access: Access, address: CUdeviceptr, bytes: usize) {
        self.push(Used::Own, access, address, bytes);
    }

    fn push(&mut self, memory: Used, access: Access, address: u64, bytes: usize) {
        let bytes = address..address.saturating_add(bytes as u64);
        let access = NodeAccess { bytes, access };
        self.uses.push(GraphUse { memory, access });
    }

    /// Keeps an object among the arguments of a kernel.
    fn keep(&mut self, kept: Arc<dyn Any + Send + Sync>) {
        match kept.downcast::<CheckedNode>() {
            // Its memory is among the uses, so launches in flight keep it.
            Ok(node) => self.checked = Some(node),
            Err(other) => self.retain(other),
        }
    }

    /// Keeps a value that the driver uses.
    pub(crate) fn retain(&mut self, value: impl Any + Send + Sync) {
        self.retain_poisonable(Plain(value));
    }

    /// Keeps a value that is notified if a launch fails.
    pub(crate) fn retain_poisonable(&mut self, value: impl OnFailure + 'static) {
        self.retain_boxed(Box::new(value));
    }

    pub(crate) fn retain_boxed(&mut self, value: Box<dyn OnFailure>) {
        // `retained` has no second reference before the node is added.
        if let Some(Retained(all)) = Arc::get_mut(&mut self.retained) {
            all.push(value);
        }
    }

    /// Keeps the kernel that the node launches.
    pub(super) fn set_kernel(&mut self, kernel: &Function, config: Option<&LaunchConfig>) {
        self.kernel = Some(kernel.clone());
        self.config = config.copied();
    }

    /// The kernel that the node launches and the configuration, if both are known.
    pub(super) fn kernel(&self) -> Option<(Function, LaunchConfig)> {
        Some((self.kernel.clone()?, self.config?))
    }

    /// Calls `f` with each kernel of the node, including those of the nodes of a child graph.
    pub(super) fn each_kernel(&self, f: &mut dyn FnMut(&Function)) {
        self.kernel.iter().for_each(&mut *f);
        self.inner.iter().for_each(|inner| inner.each_kernel(f));
    }

    /// Appends the nodes that launch checked copies of kernels, including those of a child graph.
    /// No node is added twice.
    pub(super) fn collect_checked(&self, nodes: &mut Vec<Arc<CheckedNode>>) {
        if let Some(node) = &self.checked
            && !nodes.iter().any(|known| Arc::ptr_eq(known, node))
        {
            nodes.push(Arc::clone(node));
        }
        self.inner
            .iter()
            .for_each(|inner| inner.collect_checked(nodes));
    }

    /// Keeps a closure.
    pub(super) fn add_closure(&mut self, closure: &Arc<Closure>) {
        self.closures.push(Arc::clone(closure));
        self.retain_poisonable(Arc::clone(closure));
    }

    /// Returns an error if a closure has panicked since the last check.
    pub(super) fn check_closures(&self) -> Result<()> {
        self.closures.iter().try_for_each(|it| it.check())?;
        self.inner.iter().try_for_each(|it| it.check_closures())
    }

    /// Adds the owners of a node of another graph.
    pub(crate) fn add_inner(&mut self, inner: Arc<Self>) {
        self.may_wait_for_host |= inner.may_wait_for_host;
        self.inner.push(inner);
    }

    /// Notes that the node can wait for the host program.
    pub(crate) fn note_host_wait(&mut self) {
        self.may_wait_for_host = true;
    }

    pub(crate) fn may_wait_for_host(&self) -> bool {
        self.may_wait_for_host
    }

    /// Returns the accesses of the node, including those of the nodes of a child graph.
    pub(crate) fn accesses(&self) -> Vec<NodeAccess> {
        let mut accesses: Vec<NodeAccess> = self.uses.iter().map(|it| it.access.clone()).collect();
        for inner in &self.inner {
            accesses.extend(inner.accesses());
        }
        accesses
    }

    /// Returns whether one of these accesses conflicts with an access of the node.
    pub(super) fn conflicts_with(&self, accesses: &[NodeAccess]) -> bool {
        let is_so = |it: &GraphUse| accesses.iter().any(|other| it.access.conflicts_with(other));
        self.uses.iter().any(is_so)
            || self
                .inner
                .iter()
                .any(|inner| inner.conflicts_with(accesses))
    }

    /// Registers the accesses of an executable's replays with `record`. The caller holds the replay
    /// lock.
    pub(crate) fn attach(&self, record: &Arc<ReplayRecord>) {
        self.each_tracker(&mut |tracker, access| record.attach(tracker, access));
    }

    /// Undoes [`attach`](Self::attach). The caller holds the replay lock.
    pub(crate) fn detach(&self, record: &Arc<ReplayRecord>) {
        self.each_tracker(&mut |tracker, _| record.detach(tracker));
    }

    fn each_tracker(&self, f: &mut dyn FnMut(&Arc<Tracker>, Access)) {
        for GraphUse { memory, access } in &self.uses {
            match memory {
                Used::Device(lease) => f(lease.tracker(), access.access),
                Used::Host(tracker) => f(tracker, access.access),
                Used::Own => {}
            }
        }
        for inner in &self.inner {
            inner.each_tracker(f);
        }
    }

    /// Adds to `to` what must stay alive until launches in flight are done.
    fn add_retained(&self, to: &mut Vec<Arc<Retained>>) {
        if !self.retained.0.is_empty() {
            to.push(Arc::clone(&self.retained));
        }
        self.inner.iter().for_each(|inner| inner.add_retained(to));
    }
}

/// Resources that launches in flight use, possibly as their last owner.
pub(crate) struct InFlightResources(Vec<Arc<Retained>>);

impl InFlightResources {
    /// Returns the part of `owners` that must stay alive, or `None` if there is none.
    pub(crate) fn of(owners: &[Arc<Owners>]) -> Option<Self> {
        let mut all = Vec::new();
        owners.iter().for_each(|it| it.add_retained(&mut all));
        (!all.is_empty()).then_some(Self(all))
    }
}

impl KeepAlive for InFlightResources {
    fn abandon(self: Box<Self>, error: DriverError) {
        let all = self.0.iter().flat_map(|kept| &kept.0);
        all.for_each(|it| it.poison(error));
    }
}
