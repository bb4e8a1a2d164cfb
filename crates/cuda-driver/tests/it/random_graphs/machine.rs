//! Runs a program on a device as two graphs, each with its own memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::Error;
use cuda_driver::graph::{CaptureScope, Edge, GraphHostBuffer, NodeId};
use cuda_driver::prelude::*;

use super::program::{LINES, Model, Op, Program, STREAMS, Turn, WORDS};
use crate::support::{Fixture, MIX};

pub(super) struct Machine<'a> {
    program: &'a Program,
    mix: Function,
    streams: Vec<Stream>,
    /// One graph was built node by node, the other one was captured.
    worlds: [World; 2],
    execs: Vec<GraphExec>,
    model: Model,
}

/// The memory of one graph.
struct World {
    buffers: Vec<DeviceBuffer<u32>>,
    host: GraphHostBuffer<u32>,
    called: Arc<AtomicU32>,
}

/// The destination of a new node: a graph, or a branch of a capture.
enum Place<'p, 'c> {
    Graph(&'p mut Graph, &'p [Edge]),
    Line(&'p mut CaptureScope<'c>),
}

impl World {
    fn new(fixture: &Fixture, stream: &Stream, model: &Model) -> Self {
        let buffer = |words: &Vec<u32>| DeviceBuffer::from_host(stream, words).unwrap();
        let flags = PinnedFlags::default();
        let host = PinnedBuffer::from_host(&fixture.context, &model.host, flags).unwrap();
        Self {
            buffers: model.buffers.iter().map(buffer).collect(),
            host: GraphHostBuffer::new(host).unwrap(),
            called: Arc::default(),
        }
    }

    fn two(&mut self, x: usize, y: usize) -> (&mut DeviceBuffer<u32>, &DeviceBuffer<u32>) {
        let [x, y] = self.buffers.get_disjoint_mut([x, y]).unwrap();
        (x, y)
    }

    fn add(&mut self, place: Place<'_, '_>, mix: &Function, op: &Op) -> NodeId {
        let (config, n) = (
            LaunchConfig::for_num_elems(WORDS as u32).unwrap(),
            WORDS as u32,
        );
        match op.clone() {
            Op::Mix { x, y } => {
                let args = self.two(x, y);
                let args = (args.0, args.1, n);
                match place {
                    Place::Graph(graph, after) => {
                        // SAFETY: the kernel touches WORDS words of each; each has WORDS.
                        unsafe { graph.add_kernel(after, mix, config, args) }
                    }
                    Place::Line(line) => {
                        // SAFETY: as above.
                        unsafe { line.launch(mix, config, args) }
                    }
                }
                .unwrap()
                .id()
            }
            Op::Copy {
                to,
                from,
                at,
                words,
            } => {
                let (to, from) = self.two(to, from);
                let to = to.as_mut_slice().into_slice(at..at + words.len()).unwrap();
                let from = from.as_slice().slice(words).unwrap();
                match place {
                    Place::Graph(graph, after) => graph.add_copy(after, to, from),
                    Place::Line(line) => line.copy(to, from),
                }
                .unwrap()
                .id()
            }
            Op::Fill { to, words, value } => {
                let to = self.buffers[to].as_mut_slice().into_slice(words).unwrap();
                match place {
                    Place::Graph(graph, after) => graph.add_fill(after, to, value),
                    Place::Line(line) => line.fill(to, value),
                }
                .unwrap()
                .id()
            }
            Op::ToHost { from } => {
                let (to, from) = (&self.host, &self.buffers[from]);
                match place {
                    Place::Graph(graph, after) => graph.add_copy(after, to, from),
                    Place::Line(line) => line.copy(to, from),
                }
                .unwrap()
                .id()
            }
            Op::FromHost { to } => {
                let (to, from) = (&mut self.buffers[to], &self.host);
                match place {
                    Place::Graph(graph, after) => graph.add_copy(after, to, from),
                    Place::Line(line) => line.copy(to, from),
                }
                .unwrap()
                .id()
            }
            Op::Call { value } => {
                let called = Arc::clone(&self.called);
                let call = move || {
                    called.fetch_add(value, Ordering::Relaxed);
                };
                match place {
                    Place::Graph(graph, after) => graph.add_host(after, call),
                    Place::Line(line) => line.host(call),
                }
                .unwrap()
                .id()
            }
            Op::Child { x, y } => {
                let child = {
                    let (x, y) = self.two(x, y);
                    let mut child = Graph::new(mix.context()).unwrap();
                    // SAFETY: as above.
                    unsafe { child.add_kernel(&[], mix, config, (x, y, n)) }.unwrap();
                    child
                };
                match place {
                    Place::Graph(graph, after) => graph.add_child(after, &child),
                    Place::Line(line) => line.child(&child),
                }
                .unwrap()
                .id()
            }
        }
    }

    fn model(&self) -> Model {
        Model {
            buffers: self.buffers.iter().map(|it| it.to_vec().unwrap()).collect(),
            host: self.host.read().unwrap().to_vec(),
            called: self.called.load(Ordering::Relaxed),
        }
    }
}

impl<'a> Machine<'a> {
    pub(super) fn new(fixture: &Fixture, program: &'a Program) -> Self {
        let model = Model::new();
        let streams: Vec<Stream> = (0..STREAMS).map(|_| fixture.stream()).collect();
        let mut worlds = [0, 1].map(|at| World::new(fixture, &streams[at], &model));
        let mix = fixture.kernel(MIX, "mix");
        let [built, captured] = &mut worlds;
        let mut graph = Graph::new(&fixture.context).unwrap();
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut passing: Vec<NodeId> = Vec::new();
        for step in &program.steps {
            let mut after: Vec<Edge> = step.after.iter().map(|at| nodes[*at].edge()).collect();
            let passes = step.passing.as_ref().map(|(op, at_once)| {
                let node = built.add(Place::Graph(&mut graph, &after), &mix, op);
                after.push(node.edge());
                (node, *at_once)
            });
            let node = built.add(Place::Graph(&mut graph, &after), &mix, &step.op);
            nodes.push(node);
            match passes {
                Some((node, true)) => graph.remove(node).unwrap(),
                Some((node, false)) => passing.push(node),
                None => {}
            }
        }
        for node in passing {
            graph.remove(node).unwrap();
        }
        assert_eq!(graph.nodes().unwrap().len(), program.steps.len());
        // Tries to remove a third of the edges; edges between conflicting nodes are refused.
        for (at, (edge, to)) in graph.edges().unwrap().into_iter().enumerate() {
            if (at + program.steps.len()).is_multiple_of(3) {
                match graph.remove_edge(edge, to) {
                    Ok(()) | Err(Error::GraphOrder { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let execs = vec![
            graph.instantiate().unwrap(),
            capture(fixture, program, captured, &mix)
                .instantiate()
                .unwrap(),
        ];
        Self {
            program,
            mix,
            streams,
            worlds,
            execs,
            model,
        }
    }

    pub(super) fn run(&mut self) {
        for turn in &self.program.turns {
            match *turn {
                Turn::Launch { stream } => {
                    for exec in &self.execs {
                        exec.launch(&self.streams[stream]).unwrap();
                    }
                    for step in &self.program.steps {
                        self.model.apply(&step.op);
                    }
                }
                Turn::Use { stream, x, y } => {
                    for world in &mut self.worlds {
                        let (x, y) = world.two(x, y);
                        let config = LaunchConfig::for_num_elems(WORDS as u32).unwrap();
                        let args = (x, y, WORDS as u32);
                        // SAFETY: the kernel touches WORDS words of each; each has WORDS.
                        unsafe { self.streams[stream].launch(&self.mix, config, args) }.unwrap();
                    }
                    self.model.mix(x, y);
                }
            }
        }
        for stream in &self.streams {
            stream.synchronize().unwrap();
        }
    }

    /// Returns the graphs whose memory differs from the model, with the way in which they were
    /// made.
    pub(super) fn differences(&self) -> Vec<(&'static str, Model, Model)> {
        ["built", "captured"]
            .into_iter()
            .zip(&self.worlds)
            .map(|(how, world)| (how, world.model(), self.model.clone()))
            .filter(|(_, found, wanted)| found != wanted)
            .collect()
    }
}

fn capture(fixture: &Fixture, program: &Program, world: &mut World, mix: &Function) -> Graph {
    Graph::capture(&fixture.context, |scope| {
        let mut forks: Vec<CaptureScope<'_>> = Vec::new();
        for step in &program.steps {
            if step.line > forks.len() {
                let fork = match forks.last_mut() {
                    Some(last) => last.fork()?,
                    None => scope.fork()?,
                };
                forks.push(fork);
            }
            assert!(forks.len() < LINES);
            match (step.line, step.join) {
                (0, Some(join)) => scope.join(&forks[join - 1])?,
                (line, Some(0)) => forks[line - 1].join(scope)?,
                (line, Some(join)) => {
                    let [line, join] = forks.get_disjoint_mut([line - 1, join - 1]).unwrap();
                    line.join(join)?;
                }
                (_, None) => {}
            }
            let line = match step.line {
                0 => &mut *scope,
                line => &mut forks[line - 1],
            };
            world.add(Place::Line(line), mix, &step.op);
        }
        Ok(())
    })
    .unwrap()
}
