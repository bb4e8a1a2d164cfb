//! Compares a replay of a graph with raw `cuGraphLaunch`, updating a node with instantiating the
//! graph again, and a hundred launches with one graph.
//!
//! Runs on a GPU if there is one; without one, a few runs on the software device check the bench,
//! and no times are printed. `GRAPH_PAIRS` is the number of pairs of each row (default: 20,000).

use std::env;
use std::time::Instant;

use benches::{Estimate, Pairs, empty_kernels};
use cuda_driver::graph::{Node, node_kind};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The limit for the additional cost of a launch over the raw call, in nanoseconds.
const ENQUEUE_BAR: f64 = 50.0;
/// The limit for the ratio to the raw calls when the execution is included.
const EXECUTION_BAR: f64 = 1.02;
/// The total number of nodes in the graphs that are queued before the stream is drained.
const QUEUED: usize = 4096;

struct Setup {
    stream: Stream,
    /// The kernel takes 12 arguments and does nothing.
    kernel: Function,
    buffers: Vec<DeviceBuffer<u64>>,
    /// The number of pairs of each row.
    number: u32,
    is_gpu: bool,
}

impl Setup {
    fn open(is_test: bool) -> Result<Self> {
        let (driver, is_gpu) = match Driver::load() {
            Ok(driver) => (driver, true),
            Err(error) => {
                println!(
                    "skipped: timing graphs needs a GPU: {error}; only checking that the bench runs"
                );
                (Driver::new(Builder::new().build()?.library()?)?, false)
            }
        };
        let context = driver.device(0)?.primary_context()?;
        let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
        let buffers = (0..8).map(|_| DeviceBuffer::zeroed(&stream, 1));
        let asked = env::var("GRAPH_PAIRS")
            .ok()
            .and_then(|text| text.parse().ok());
        let usual = if is_gpu && !is_test { 20_000 } else { 4 };
        let [_, _, kernel, _] = empty_kernels(&context)?;
        Ok(Self {
            buffers: buffers.collect::<cuda_driver::Result<_>>()?,
            stream,
            kernel,
            number: asked.unwrap_or(usual),
            is_gpu,
        })
    }

    fn counts(&self) -> &'static [usize] {
        if self.is_gpu {
            &[1, 10, 100, 1000]
        } else {
            &[1, 10]
        }
    }

    /// Makes a graph of `count` launches in a chain, and returns it with its first node.
    fn graph(&mut self, count: usize) -> cuda_driver::Result<(Graph, Node<node_kind::Kernel>)> {
        let (kernel, buffers) = (&self.kernel, &mut self.buffers);
        Graph::capture_with(self.stream.context(), |scope| {
            // SAFETY: the kernel does nothing.
            let mut launch = || unsafe { scope.launch(kernel, config(), arguments(buffers)) };
            let first = launch()?;
            for _ in 1..count {
                launch()?;
            }
            Ok(first)
        })
    }

    /// Measures queueing alone: the raw call against the safe one.
    fn enqueue(&self, exec: &GraphExec, count: usize) -> Pairs {
        let row = (QUEUED / 4 / count).clamp(1, 64) as u32;
        let (number, drain) = (self.number, || self.drain());
        Pairs::measure_rows(number, row, || self.raw(exec), || self.ours(exec), drain)
    }

    /// Measures queueing and waiting: the raw calls against the safe ones.
    fn execution(&self, exec: &GraphExec) -> Pairs {
        let first = || {
            self.raw(exec);
            let (driver, stream) = (self.stream.context().driver(), self.stream.as_raw());
            // SAFETY: the stream is alive.
            let status = unsafe { driver.library().cuStreamSynchronize(stream) };
            assert!(status.is_success());
        };
        let second = || {
            self.ours(exec);
            self.drain();
        };
        Pairs::measure_rows(self.number / 4, 16, first, second, || ())
    }

    fn raw(&self, exec: &GraphExec) {
        let driver = self.stream.context().driver().library();
        // SAFETY: the executable and the stream are alive, and only this thread uses them.
        let status = unsafe { driver.cuGraphLaunch(exec.as_raw(), self.stream.as_raw()) };
        assert!(status.is_success());
    }

    fn ours(&self, exec: &GraphExec) {
        exec.launch(&self.stream)
            .expect("the graph can be launched");
    }

    fn drain(&self) {
        self.stream.synchronize().expect("the kernels do nothing");
    }
}

fn config() -> LaunchConfig {
    LaunchConfig::new(1, 32)
}

/// The arguments: six buffers to read, two to write, four numbers.
fn arguments(buffers: &mut [DeviceBuffer<u64>]) -> impl cuda_driver::launch::KernelArgs {
    let [a, b, c, d, e, f, g, h] = buffers else {
        unreachable!("there are 8")
    };
    (
        &*a, &*b, &*c, &*d, &*e, &*f, g, h, 1_u64, 2_u64, 3_u64, 4_u64,
    )
}

fn print(what: &str, count: usize, pairs: &Pairs, verdict: &str) {
    let (raw, more): (Estimate, Estimate) = (pairs.first(), pairs.difference());
    println!(
        "{what:<22} {count:>5}  {:>11.1}  {:>9.1}  ({:>8.1} to {:>8.1})  {:>7.4}  {verdict}, {}",
        raw.median,
        more.median,
        more.low,
        more.high,
        1.0 + more.median / raw.median,
        pairs.count(),
    );
}

fn verdict(is_gpu: bool, is_kept: bool, bar: &str) -> String {
    match (is_gpu, is_kept) {
        (false, _) => "-".to_owned(),
        (true, true) => format!("{bar} kept"),
        (true, false) => format!("{bar} MISSED"),
    }
}

/// The median of the nanoseconds of one call, over `times` calls.
fn median(times: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut samples = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        call()?;
        samples.push(start.elapsed().as_nanos() as f64);
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[times / 2])
}

fn main() -> Result<()> {
    // `cargo test --benches` only checks that the bench runs.
    let is_test = env::args().any(|argument| argument == "--test");
    let mut setup = Setup::open(is_test)?;
    let is_gpu = setup.is_gpu;
    println!(
        "what                   nodes       raw ns    more ns  (95 % of it)            ratio  bar, pairs"
    );
    for &count in setup.counts() {
        let exec = setup.graph(count)?.0.instantiate()?;
        exec.upload(&setup.stream)?;
        setup.drain();
        let pairs = setup.enqueue(&exec, count);
        let is_kept = pairs.difference().median <= ENQUEUE_BAR;
        let bar = verdict(is_gpu, is_kept, &format!("{ENQUEUE_BAR} ns"));
        print("launch, enqueue", count, &pairs, &bar);
        let pairs = setup.execution(&exec);
        let ratio = 1.0 + pairs.difference().median / pairs.first().median;
        let bar = verdict(is_gpu, ratio <= EXECUTION_BAR, &format!("{EXECUTION_BAR}"));
        print("launch, with execution", count, &pairs, &bar);
    }

    let times = if is_gpu && !is_test { 201 } else { 3 };
    for &count in setup.counts() {
        let (graph, node) = setup.graph(count)?;
        let exec = graph.instantiate()?;
        let update = median(times, || {
            // SAFETY: the kernel does nothing, and the nodes form a chain.
            let updated = unsafe {
                exec.set_kernel(node, &setup.kernel, config(), arguments(&mut setup.buffers))
            };
            Ok(updated?)
        })?;
        let anew = median(times.min(51), || Ok(graph.instantiate()?.close()?))?;
        if is_gpu {
            println!(
                "node update {count:>5} nodes: {update:.0} ns; new instantiation: {anew:.0} ns; {:.1} times",
                anew / update
            );
        }
    }

    let exec = setup.graph(100)?.0.instantiate()?;
    let (mut launches, mut replays) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let start = Instant::now();
        for _ in 0..100 {
            let (stream, kernel) = (&setup.stream, &setup.kernel);
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(kernel, config(), arguments(&mut setup.buffers)) }?;
        }
        launches.push(start.elapsed().as_nanos() as f64);
        setup.drain();
        let start = Instant::now();
        setup.ours(&exec);
        replays.push(start.elapsed().as_nanos() as f64);
        setup.drain();
    }
    launches.sort_by(f64::total_cmp);
    replays.sort_by(f64::total_cmp);
    if is_gpu {
        println!(
            "100 kernels to enqueue: as launches {:.0} ns, as one graph {:.0} ns",
            launches[times / 2],
            replays[times / 2]
        );
    }
    println!("every form ran");
    Ok(())
}
