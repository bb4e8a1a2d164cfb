//! Launching: converting an executable graph to steps for the engine.

use std::sync::Arc;

use crate::driver::instance::Instance;
use crate::driver::objects::device::Device;
use crate::driver::objects::event::{Event, Mark, Record, Recording};
use crate::driver::objects::external::SemaphoreOp;
use crate::driver::objects::graph::GraphState;
use crate::driver::objects::graph::conditional::Choice;
use crate::driver::objects::graph::launch::{StepTemplate, WorkFactory, steps};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::graph::template::{AUTO_FREE, ExecNode, Template};
use crate::driver::objects::memory::Kind;
use crate::driver::objects::stream::{Stream, unless_lost};
use crate::driver::status::{INVALID_VALUE, Status};
use crate::engine::{OpId, Plan, Step, Work};

/// A launch while it is converted to steps.
struct Layout<'a> {
    instance: &'a Instance,
    /// The device of the stream.
    device: &'a Arc<Device>,
    protos: Vec<StepTemplate>,
    records: Vec<(usize, Arc<Event>, Mark, u64)>,
    /// The steps for which other APIs may wait.
    signals: Vec<usize>,
}

impl Layout<'_> {
    /// Adds the nodes of `template` after the steps `before`. Returns the steps on which the
    /// successors of the template depend.
    fn lay(&mut self, template: &Template, before: &[usize]) -> Vec<usize> {
        let mut ends: Vec<Vec<usize>> = vec![Vec::new(); template.nodes.len()];
        let mut is_leaf = vec![true; template.nodes.len()];
        for &index in &template.order {
            let node = &template.nodes[index];
            let mut after: Vec<usize> = Vec::new();
            for &from in &node.after {
                is_leaf[from] = false;
                after.extend_from_slice(&ends[from]);
            }
            if node.after.is_empty() {
                after.extend_from_slice(before);
            }
            after.sort_unstable();
            after.dedup();
            ends[index] = match (&node.payload, node.inner.first()) {
                (Payload::Child(_), Some(inner)) => self.lay(inner, &after),
                _ => vec![self.add(node, after)],
            };
        }
        if template.nodes.is_empty() {
            return before.to_vec();
        }
        let leaves = ends.into_iter().zip(is_leaf).filter(|&(_, leaf)| leaf);
        leaves.flat_map(|(end, _)| end).collect()
    }

    fn add(&mut self, node: &ExecNode, mut after: Vec<usize>) -> usize {
        let mut outside = Vec::new();
        let number = self.protos.len();
        let make = match &node.payload {
            Payload::Record(event) => {
                let mark = Mark::default();
                let shared = event.begin();
                let turn = shared.as_ref().map_or(0, |(_, turn)| *turn);
                self.records
                    .push((number, Arc::clone(event), mark.clone(), turn));
                device_work(move || {
                    mark.reach();
                    if let Some((event, turn)) = &shared {
                        event.complete(*turn);
                    }
                })
            }
            Payload::Wait(event) => {
                // The recording in this launch, if the order of the graph places it before this
                // wait.
                let recorded = self.records.iter().rev();
                let inside = recorded
                    .clone()
                    .find(|(_, other, ..)| Arc::ptr_eq(other, event));
                let own = event.recording().ok().flatten();
                let elsewhere = event.elsewhere(own.as_ref());
                match (inside, own, elsewhere) {
                    (Some(&(step, ..)), ..) => {
                        after.push(step);
                        device_work(|| {})
                    }
                    (None, _, Some((shared, turn))) => {
                        poll_work(self.device, move || shared.is_complete(turn))
                    }
                    (None, own, None) => {
                        outside.extend(own.map(|recording| recording.op));
                        device_work(|| {})
                    }
                }
            }
            payload if node.is_enabled => {
                if matches!(payload, Payload::Signal(_)) {
                    self.signals.push(number);
                }
                self.maker(payload, node)
            }
            _ => device_work(|| {}),
        };
        self.protos.push(StepTemplate {
            make,
            after,
            outside,
        });
        number
    }

    fn maker(&self, payload: &Payload, node: &ExecNode) -> WorkFactory {
        match payload {
            Payload::Kernel(kernel) => {
                let params = kernel.params.bytes();
                let job = Arc::new(self.instance.job(
                    &kernel.function,
                    kernel.shape,
                    params,
                    &kernel.context,
                ));
                fallible(&kernel.context.device, move || job.run())
            }
            Payload::Copy(copy) => {
                let (transfer, spaces) = (*copy.transfer, self.instance.spaces());
                fallible(&copy.context.device, move || transfer.run(&spaces))
            }
            Payload::Fill(memset) => {
                let (fill, spaces) = (memset.fill, self.instance.spaces());
                fallible(&memset.context.device, move || fill.run(&spaces))
            }
            Payload::Host(host) => {
                let (host, device) = (*host, Arc::clone(self.device));
                Arc::new(move || host.work(&device))
            }
            Payload::Alloc(memory) => {
                let memory = Arc::clone(memory);
                device_work(move || memory.activate())
            }
            Payload::Free(memory) => {
                let memory = Arc::clone(memory);
                device_work(move || memory.deactivate())
            }
            Payload::Operations(operations) => {
                let (ops, spaces) = (Arc::clone(&operations.ops), self.instance.spaces());
                let device = Arc::clone(&operations.context.device);
                let plan = move || Plan {
                    steps: ops
                        .iter()
                        .enumerate()
                        .map(|(index, op)| Step {
                            work: op.work(&spaces, &device),
                            after: index.checked_sub(1).into_iter().collect(),
                            outside: Vec::new(),
                        })
                        .collect(),
                    then: None,
                };
                let plan = Arc::new(plan);
                Arc::new(move || {
                    let plan = Arc::clone(&plan);
                    Work::Expand(Box::new(move || plan()))
                })
            }
            Payload::Signal(semaphores) => semaphore_work(self.device, &semaphores.ops),
            Payload::Await(semaphores) => semaphore_work(self.device, &semaphores.ops),
            Payload::Conditional(conditional) => {
                let body = |template: &Template| {
                    let mut layout = Layout {
                        instance: self.instance,
                        device: self.device,
                        protos: Vec::new(),
                        records: Vec::new(),
                        signals: Vec::new(),
                    };
                    layout.lay(template, &[]);
                    layout.protos
                };
                let choice = Choice {
                    cell: Arc::clone(&conditional.cell),
                    kind: conditional.kind,
                    bodies: node.inner.iter().map(body).collect(),
                    device: Arc::clone(&conditional.context.device),
                };
                Arc::new(move || choice.clone().work())
            }
            // Child graphs and events were converted before.
            Payload::Child(_) | Payload::Empty | Payload::Record(_) | Payload::Wait(_) => {
                device_work(|| {})
            }
        }
    }
}

/// Returns work that is complete when `is_done` returns true, or when the device is lost.
fn poll_work(
    device: &Arc<Device>,
    is_done: impl Fn() -> bool + Send + Sync + 'static,
) -> WorkFactory {
    let is_done = Arc::new(is_done);
    let device = Arc::clone(device);
    Arc::new(move || {
        let (is_done, device) = (Arc::clone(&is_done), Arc::clone(&device));
        Work::Poll(Box::new(move || is_done() || device.alive().is_err()))
    })
}

/// Returns work that makes signals and waits in order.
fn semaphore_work(device: &Arc<Device>, ops: &Arc<[SemaphoreOp]>) -> WorkFactory {
    let (ops, device) = (Arc::clone(ops), Arc::clone(device));
    Arc::new(move || {
        let (ops, device) = (Arc::clone(&ops), Arc::clone(&device));
        Work::Expand(Box::new(move || Plan {
            steps: ops
                .iter()
                .enumerate()
                .map(|(index, op)| Step {
                    work: op.work(&device),
                    after: index.checked_sub(1).into_iter().collect(),
                    outside: Vec::new(),
                })
                .collect(),
            then: None,
        }))
    })
}

fn device_work(work: impl Fn() + Send + Sync + 'static) -> WorkFactory {
    let work = Arc::new(work);
    Arc::new(move || {
        let work = Arc::clone(&work);
        Work::Device(Box::new(move || work()))
    })
}

fn fallible(
    device: &Arc<Device>,
    work: impl Fn() -> Result<(), crate::driver::objects::stream::DeviceFault> + Send + Sync + 'static,
) -> WorkFactory {
    let (device, work) = (Arc::clone(device), Arc::new(work));
    Arc::new(move || {
        let work = Arc::clone(&work);
        Work::Device(Box::new(unless_lost(&device, move || work())))
    })
}

impl Instance {
    /// Takes the memory that a launch needs in addition to what other launches have left allocated.
    fn hold_memory_of(&self, template: &Template) {
        for device in &*self.devices {
            let kept = self.kept_by_graphs(device.ordinal);
            let peak = template.peak_memory(device.ordinal, kept);
            if peak > kept {
                self.graphs.footprint(device.ordinal).hold(peak);
            }
        }
    }

    /// Queues a launch of an executable graph.
    pub(in crate::driver) fn launch_graph(
        &self,
        state: &mut GraphState,
        exec: u64,
        stream: &Stream,
    ) -> Status {
        let exec = state.execs.get_mut(&exec).ok_or(INVALID_VALUE)?;
        let [allocated, freed] = exec.template.memory();
        let is = |addr: u64| {
            self.find_allocation(addr, |start, allocation| {
                start == addr && matches!(allocation.kind, Kind::Graph(_))
            }) == Some(true)
        };
        let left: Vec<_> = allocated
            .iter()
            .filter(|memory| is(memory.addr))
            .cloned()
            .collect();
        let unfreed = !left.is_empty() && exec.flags & AUTO_FREE == 0;
        let own = |addr| allocated.iter().any(|memory| memory.addr == addr);
        let foreign: Vec<_> = freed.iter().filter(|memory| !own(memory.addr)).collect();
        if unfreed || foreign.iter().any(|memory| !is(memory.addr)) {
            return Err(INVALID_VALUE);
        }
        for memory in &allocated {
            self.forget(memory.addr, |kind| matches!(kind, Kind::Graph(_)));
        }
        if !allocated.is_empty() {
            self.hold_memory_of(&exec.template);
        }
        for memory in &foreign {
            self.forget(memory.addr, |kind| matches!(kind, Kind::Graph(_)));
        }
        for memory in &allocated {
            if !freed.iter().any(|other| other.addr == memory.addr) {
                let kind = Kind::Graph(Arc::clone(memory));
                self.note(memory.addr, memory.size, kind, &stream.context);
            }
        }
        let mut layout = Layout {
            instance: self,
            device: &stream.context.device,
            protos: Vec::new(),
            records: Vec::new(),
            signals: Vec::new(),
        };
        let cells = exec.template.cells();
        let begin = device_work(move || {
            cells.iter().for_each(|cell| cell.reset());
            left.iter().for_each(|memory| memory.deactivate());
        });
        layout.protos.push(StepTemplate {
            make: begin,
            after: Vec::new(),
            outside: Vec::new(),
        });
        layout.lay(&exec.template, &[0]);
        // These are kept alive until the whole launch has run.
        let objects = exec.template.objects();
        let kept = (objects, exec.template.cells(), allocated, freed);
        let end = Work::Device(Box::new(move || drop(kept)));
        let after: Vec<OpId> = exec.last.into_iter().collect();
        let ops = self
            .engine
            .submit_steps(stream.queue, &after, steps(&layout.protos), end);
        exec.last = ops.last().copied();
        if !layout.signals.is_empty() {
            let signals = layout.signals.iter().map(|&step| ops[step]);
            self.engine.urge(&signals.collect::<Vec<_>>());
        }
        for (step, event, at, number) in layout.records {
            let op = ops[step];
            if number > 0 {
                self.engine.urge(&[op]);
            }
            *event.record() = Some(Record::Queued(Recording { op, at, number }));
        }
        Ok(())
    }
}
