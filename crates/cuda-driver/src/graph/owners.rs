//! What a node of a graph touches, and keeps.

use std::any::Any;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::conflicts::Reach;
use crate::context::Context;
use crate::error::{DriverError, Error, Result};
use crate::launch::{KernelArgs, Tracked};
use crate::memory::Memory;
use crate::order::{Access, Held, Record, Tracker};
use crate::pending::{Closure, Keep};

/// What a node touches and keeps: memory, code, closures, events, the nodes of a child graph.
///
/// Shared by the graph, its clones and executables. Once none has it and no launch uses it any
/// more, it goes.
#[derive(Default)]
pub(crate) struct Owners {
    uses: Vec<GraphUse>,
    keep: Arc<Kept>,
    /// What the nodes of a child graph keep.
    inner: Vec<Arc<Self>>,
    /// Closures among them.
    closures: Vec<Arc<Closure>>,
    /// Whether it can wait for the program.
    may_block: bool,
}

/// What the driver uses besides device memory, which is freed in order.
#[derive(Default)]
struct Kept(Vec<Box<dyn Told>>);

/// Something that a node keeps.
pub(crate) trait Told: Send + Sync {
    /// A launch that uses it failed, and may be under way.
    fn suspect(&self, error: DriverError);
}

/// Kept for the driver's sake, and harmless whenever it goes.
struct Plain<T>(#[allow(dead_code, reason = "kept, not read")] T);

impl<T: Any + Send + Sync> Told for Plain<T> {
    fn suspect(&self, _: DriverError) {}
}

/// Memory that a node uses.
struct GraphUse {
    memory: Used,
    reach: Reach,
}

enum Used {
    /// Of a buffer.
    Device(Held),
    /// Of the host. Kept apart.
    Host(Arc<Tracker>),
    /// Of the graph itself, which nobody else uses.
    Own,
}

impl Owners {
    /// What a kernel of the graph of this number, in `context`, with these arguments uses.
    pub(crate) fn of_args(context: &Context, number: u64, args: &impl KernelArgs) -> Result<Self> {
        let mut this = Self::default();
        args.each_tracked(&mut |tracked| {
            let Tracked {
                memory,
                access,
                address,
                bytes,
                graph,
            } = tracked;
            match memory {
                Some(memory) => this.add(context, memory, access, address, bytes)?,
                None if graph == number => this.add_own(access, address, bytes),
                None => return Err(Error::OtherGraph),
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// Memory that lies behind a borrow which allows such uses, for a graph in `context`.
    pub(crate) fn add(
        &mut self,
        context: &Context,
        memory: &Memory,
        access: Access,
        address: CUdeviceptr,
        bytes: usize,
    ) -> Result<()> {
        if memory.home().context() != context {
            return Err(Error::OtherContext { what: "a buffer" });
        }
        let memory = Used::Device(Held::new(memory)?);
        self.push(memory, access, address, bytes);
        Ok(())
    }

    /// Host memory, which something [kept](Self::keep) owns.
    pub(crate) fn add_host(
        &mut self,
        tracker: &Arc<Tracker>,
        access: Access,
        address: u64,
        bytes: usize,
    ) {
        self.push(Used::Host(Arc::clone(tracker)), access, address, bytes);
    }

    /// Memory that a node of the graph allocates.
    pub(crate) fn add_own(&mut self, access: Access, address: CUdeviceptr, bytes: usize) {
        self.push(Used::Own, access, address, bytes);
    }

    fn push(&mut self, memory: Used, access: Access, address: u64, bytes: usize) {
        let bytes = address..address.saturating_add(bytes as u64);
        let reach = Reach { bytes, access };
        self.uses.push(GraphUse { memory, reach });
    }

    /// Keeps something that the driver uses.
    pub(crate) fn keep(&mut self, value: impl Any + Send + Sync) {
        self.keep_told(Plain(value));
    }

    /// The same for what must be told if a launch fails.
    pub(crate) fn keep_told(&mut self, value: impl Told + 'static) {
        self.keep_boxed(Box::new(value));
    }

    pub(crate) fn keep_boxed(&mut self, value: Box<dyn Told>) {
        // Shared only once the node is there.
        if let Some(Kept(all)) = Arc::get_mut(&mut self.keep) {
            all.push(value);
        }
    }

    /// Keeps a closure.
    pub(super) fn add_closure(&mut self, closure: &Arc<Closure>) {
        self.closures.push(Arc::clone(closure));
        self.keep_told(Arc::clone(closure));
    }

    /// An error if a closure has panicked since it was asked last.
    pub(super) fn check_closures(&self) -> Result<()> {
        self.closures.iter().try_for_each(|it| it.check())?;
        self.inner.iter().try_for_each(|it| it.check_closures())
    }

    /// All that the nodes of another graph keep.
    pub(crate) fn add_inner(&mut self, inner: Arc<Self>) {
        self.may_block |= inner.may_block;
        self.inner.push(inner);
    }

    /// It can wait for the program.
    pub(crate) fn note_blocking(&mut self) {
        self.may_block = true;
    }

    pub(crate) fn may_block(&self) -> bool {
        self.may_block
    }

    /// The bytes that it uses, with those of the nodes inside.
    pub(crate) fn reaches(&self) -> Vec<Reach> {
        let mut reaches: Vec<Reach> = self.uses.iter().map(|it| it.reach.clone()).collect();
        for inner in &self.inner {
            reaches.extend(inner.reaches());
        }
        reaches
    }

    /// Whether a use of one of these bytes matters to it.
    pub(super) fn is_against(&self, reaches: &[Reach]) -> bool {
        let is_so = |it: &GraphUse| reaches.iter().any(|other| it.reach.is_against(other));
        self.uses.iter().any(is_so) || self.inner.iter().any(|inner| inner.is_against(reaches))
    }

    /// Tells `record` what the replays of its executable use. The gate is entered.
    pub(crate) fn attach(&self, record: &Arc<Record>) {
        self.each_tracker(&mut |tracker, access| record.attach(tracker, access));
    }

    /// The other way round.
    pub(crate) fn detach(&self, record: &Arc<Record>) {
        self.each_tracker(&mut |tracker, _| record.detach(tracker));
    }

    fn each_tracker(&self, f: &mut dyn FnMut(&Arc<Tracker>, Access)) {
        for GraphUse { memory, reach } in &self.uses {
            match memory {
                Used::Device(held) => f(held.tracker(), reach.access),
                Used::Host(tracker) => f(tracker, reach.access),
                Used::Own => {}
            }
        }
        for inner in &self.inner {
            inner.each_tracker(f);
        }
    }

    /// Adds what must stay until launches under way are done.
    fn add_kept(&self, to: &mut Vec<Arc<Kept>>) {
        if !self.keep.0.is_empty() {
            to.push(Arc::clone(&self.keep));
        }
        self.inner.iter().for_each(|inner| inner.add_kept(to));
    }
}

/// What launches under way use, and perhaps nothing else any more.
pub(crate) struct Leftover(Vec<Arc<Kept>>);

impl Leftover {
    /// What of `owners` must stay; `None` if nothing has to.
    pub(crate) fn of(owners: &[Arc<Owners>]) -> Option<Self> {
        let mut all = Vec::new();
        owners.iter().for_each(|it| it.add_kept(&mut all));
        (!all.is_empty()).then_some(Self(all))
    }
}

impl Keep for Leftover {
    fn abandon(self: Box<Self>, error: DriverError) {
        let all = self.0.iter().flat_map(|kept| &kept.0);
        all.for_each(|it| it.suspect(error));
    }
}
