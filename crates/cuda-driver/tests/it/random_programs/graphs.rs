//! Random programs of graphs: launches of executables that share buffers, between other uses of
//! these buffers.

use std::env;

use cuda_driver::Error;
use cuda_driver::graph::{Node, node_kind};
use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;

use crate::support::{COPY, MIX, late, software};

/// The number of programs with `CUDA_FULL=1`.
const FULL: u64 = 20_000;
/// The number of programs in an ordinary run.
const REDUCED: u64 = 250;
const STEPS: usize = 40;
/// The number of words in a buffer; all of them are equal.
const N: u32 = 8;

#[test]
fn random_programs_with_graphs_match_the_model() {
    if let Ok(seed) = env::var("CUDA_SEED") {
        return check(seed.parse().expect("CUDA_SEED must be a number"));
    }
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if full { FULL } else { REDUCED };
    (0..count).for_each(check);
    println!("{count} of {FULL} random programs of graphs");
}

fn check(seed: u64) {
    if let Err(why) = Run::new(seed).and_then(Run::all) {
        panic!("CUDA_SEED={seed} fails: {why}");
    }
}

/// The operation of a node on buffers, which are given by number.
#[derive(Clone, Copy, Debug)]
enum Op {
    Fill(usize, u32),
    Copy(usize, usize),
    /// `to = 2 * to + from`
    Mix(usize, usize),
}

/// An executable with the operations of its nodes, and its fill node.
struct Exec {
    exec: GraphExec,
    ops: Vec<Op>,
    fill: Option<(usize, Node<node_kind::Memset>)>,
}

struct Run {
    seed: u64,
    random: fastrand::Rng,
    pool: CachingPool,
    streams: Vec<Stream>,
    mix: Function,
    copy: Function,
    /// The buffers that still have an owner, with their numbers.
    buffers: Vec<(usize, DeviceBuffer<u32>)>,
    /// The value in each buffer, including those that only graphs keep alive.
    values: Vec<u32>,
    execs: Vec<Exec>,
    /// A description of each step so far.
    log: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Result<Self, String> {
        let fixture = software(late(seed));
        let mut this = Self {
            seed,
            random: fastrand::Rng::with_seed(seed),
            pool: CachingPool::new(&fixture.context),
            streams: (0..3).map(|_| fixture.stream()).collect(),
            mix: fixture.kernel(MIX, "mix"),
            copy: fixture.kernel(COPY, "copy"),
            buffers: Vec::new(),
            values: Vec::new(),
            execs: Vec::new(),
            log: Vec::new(),
        };
        for _ in 0..3 {
            this.make().map_err(|error| error.to_string())?;
        }
        Ok(this)
    }

    fn all(mut self) -> Result<(), String> {
        for step in 0..STEPS {
            let wrong = self
                .step()
                .map_err(|error| format!("step {step}: {error}"))?;
            if let Some((got, want)) = wrong {
                return Err(self.wrong(&got, want));
            }
        }
        while !self.buffers.is_empty() {
            if let Some((got, want)) = self.read(0).map_err(|error| error.to_string())? {
                return Err(self.wrong(&got, want));
            }
            self.buffers.remove(0);
        }
        Ok(())
    }

    fn wrong(&self, got: &[u32], want: u32) -> String {
        let log = self.log.join("\n  ");
        format!("read {got:?}, which should be {want}, after\n  {log}")
    }

    fn stream(&mut self) -> Stream {
        let at = self.random.usize(..self.streams.len());
        self.log.push(format!("on stream {at}"));
        self.streams[at].clone()
    }

    fn any(&mut self) -> usize {
        self.random.usize(..self.buffers.len())
    }

    /// Returns two different buffers.
    fn two(&mut self) -> (usize, usize) {
        let to = self.any();
        let from = (to + 1 + self.random.usize(..self.buffers.len() - 1)) % self.buffers.len();
        (to, from)
    }

    fn make(&mut self) -> Result<(), Error> {
        let (stream, value) = (self.stream(), self.random.u32(..100));
        let words = vec![value; N as usize];
        let buffer = if self.random.bool() {
            DeviceBuffer::from_host_in(&self.pool, &stream, &words)?
        } else {
            DeviceBuffer::from_host(&stream, &words)?
        };
        self.log
            .push(format!("make {} of {value}", self.values.len()));
        self.buffers.push((self.values.len(), buffer));
        self.values.push(value);
        Ok(())
    }

    fn act(&mut self, op: Op) {
        self.log.push(format!("{op:?}"));
        match op {
            Op::Fill(to, value) => self.values[to] = value,
            Op::Copy(to, from) => self.values[to] = self.values[from],
            Op::Mix(to, from) => {
                let doubled = self.values[to].wrapping_mul(2);
                self.values[to] = doubled.wrapping_add(self.values[from]);
            }
        }
    }

    fn step(&mut self) -> Result<Option<(Vec<u32>, u32)>, Error> {
        match self.random.u32(..14) {
            0..=4 if !self.execs.is_empty() => {
                let (at, stream) = (self.random.usize(..self.execs.len()), self.stream());
                self.execs[at].exec.launch(&stream)?;
                self.log.push(format!("launch {at}"));
                for op in self.execs[at].ops.clone() {
                    self.act(op);
                }
            }
            0..=6 if self.execs.len() < 3 => self.build()?,
            5 | 6 => {
                let at = self.random.usize(..self.execs.len());
                self.execs.swap_remove(at);
                self.log.push(format!("drop {at}"));
            }
            7 => {
                let at = self.any();
                return self.read(at);
            }
            8 | 9 => {
                let ((to, from), stream) = (self.two(), self.stream());
                let is_mix = self.random.bool();
                let kernel = if is_mix { &self.mix } else { &self.copy };
                let config = LaunchConfig::for_num_elems(N).unwrap();
                let (first, last) = self.buffers.split_at_mut(to.max(from));
                let (low, high) = (&mut first[to.min(from)], &mut last[0]);
                let ((to, into), (from, out_of)) =
                    if to < from { (low, high) } else { (high, low) };
                let mut args = ArgList::new();
                if is_mix {
                    args.push(&mut *into).push(&*out_of).push(N);
                } else {
                    args.push(&*out_of).push(&mut *into).push(N);
                }
                // SAFETY: the kernels touch N words of each; each has N.
                unsafe { stream.launch(kernel, config, &args) }?;
                let (to, from) = (*to, *from);
                self.act(if is_mix {
                    Op::Mix(to, from)
                } else {
                    Op::Copy(to, from)
                });
            }
            10 => {
                let (at, value) = (self.any(), self.random.u32(..100));
                let (number, buffer) = &mut self.buffers[at];
                buffer.fill(value)?;
                let op = Op::Fill(*number, value);
                self.act(op);
            }
            // The buffer stays alive in the graphs that use it. If none does, another buffer may
            // get its memory.
            11 => {
                let at = self.any();
                let (number, _) = self.buffers.swap_remove(at);
                self.log.push(format!("drop {number}"));
                self.make()?;
            }
            _ => self.update()?,
        }
        Ok(None)
    }

    fn read(&mut self, at: usize) -> Result<Option<(Vec<u32>, u32)>, Error> {
        let (number, buffer) = &self.buffers[at];
        let (got, want) = (buffer.to_vec()?, self.values[*number]);
        self.log.push(format!("read {number}"));
        let is_right = got.iter().all(|word| *word == want);
        Ok((!is_right).then_some((got, want)))
    }

    fn build(&mut self) -> Result<(), Error> {
        let mut graph = Graph::new(self.streams[0].context())?;
        let config = LaunchConfig::for_num_elems(N).unwrap();
        let (mut ops, mut fill) = (Vec::new(), None);
        for _ in 0..1 + self.random.usize(..3) {
            let (to, from) = self.two();
            let value = self.random.u32(..100);
            let sort = self.random.u32(..3);
            let (first, last) = self.buffers.split_at_mut(to.max(from));
            let (low, high) = (&mut first[to.min(from)], &mut last[0]);
            let ((to, into), (from, out_of)) = if to < from { (low, high) } else { (high, low) };
            ops.push(match sort {
                0 => {
                    fill = Some((ops.len(), graph.add_fill(&[], into, value)?));
                    Op::Fill(*to, value)
                }
                1 => {
                    graph.add_copy(&[], into, &*out_of)?;
                    Op::Copy(*to, *from)
                }
                _ => {
                    // SAFETY: the kernel touches N words of each; each has N.
                    unsafe { graph.add_kernel(&[], &self.mix, config, (into, &*out_of, N)) }?;
                    Op::Mix(*to, *from)
                }
            });
        }
        let exec = graph.instantiate()?;
        self.log.push(format!("build {ops:?}"));
        self.execs.push(Exec { exec, ops, fill });
        Ok(())
    }

    /// Fills another buffer, if the driver and the other nodes allow it.
    fn update(&mut self) -> Result<(), Error> {
        if self.execs.is_empty() {
            return Ok(());
        }
        let (at, value) = (
            self.random.usize(..self.execs.len()),
            self.seed as u32 % 100,
        );
        let to = self.any();
        let Some((index, node)) = self.execs[at].fill else {
            return Ok(());
        };
        let (number, buffer) = &mut self.buffers[to];
        match self.execs[at].exec.set_fill(node, buffer, value) {
            Ok(()) => {
                self.execs[at].ops[index] = Op::Fill(*number, value);
                self.log
                    .push(format!("update {at}: {:?}", self.execs[at].ops));
            }
            // Another node uses the buffer and is not ordered with this one.
            Err(Error::GraphOrder { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
