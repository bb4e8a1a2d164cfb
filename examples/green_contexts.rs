//! Teaches: green contexts, which keep some multiprocessors free for work that must be fast. A
//! short kernel runs again and again next to a long one: in the same context, on a stream with a
//! higher priority, and in its own green context.
//!
//! Prints the time from the launch of the short kernel to its end (median and 99th percentile) in
//! each case, and the numbers of verified elements. A driver of CUDA 12.4 or newer is needed.
//!
//! `cargo run -p examples --example green_contexts --release`

use std::time::{Duration, Instant};

use cuda_driver::device::SmSplitFlags;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
extern "C" __global__ void mix(unsigned *x, unsigned steps) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned value = i;
    for (unsigned step = 0; step < steps; step++) value = value * 1664525u + 1013904223u;
    x[i] = value;
}
"#;

/// The threads of a block.
const THREADS: u32 = 256;
/// The steps of each thread of the short kernel.
const SHORT: u32 = 100;
/// The blocks of the short kernel.
const SHORT_BLOCKS: u32 = 8;

/// The size of the measurement.
#[derive(Clone, Copy)]
struct Size {
    samples: usize,
    long_blocks: u32,
    long_steps: u32,
}

fn main() -> Result<()> {
    let session = Session::open()?;
    let device = &session.device;
    let size = if session.is_software() {
        Size {
            samples: 3,
            long_blocks: 64,
            long_steps: 50,
        }
    } else {
        Size {
            samples: 400,
            // Four blocks after each other on every multiprocessor that is full.
            long_blocks: 32 * device.multiprocessor_count()?,
            long_steps: 10_000,
        }
    };
    // At least 8 multiprocessors for the short kernel, the others for the long one.
    let all = device.sm_resource()?;
    let split = all.split_by_count(1, 8, SmSplitFlags::empty())?;
    let rest = split.remainder.as_ref().ok_or("the device is too small")?;
    println!(
        "green_contexts: {} and {} of {} multiprocessors",
        split.groups[0].sm_count(),
        rest.sm_count(),
        all.sm_count()
    );
    let (fast, bulk) = (Context::green(&split.groups[0])?, Context::green(rest)?);
    let primary = &session.context;
    let urgent = primary.stream_priority_range()?.greatest;
    for (name, short, long, priority, is_busy) in [
        ("alone", primary, primary, 0, false),
        ("same context", primary, primary, 0, true),
        ("urgent stream", primary, primary, urgent, true),
        ("green context", &fast, &bulk, 0, true),
    ] {
        let short_stream = Stream::new(short, StreamFlags::NON_BLOCKING, priority)?;
        let long_stream = Stream::new(long, StreamFlags::NON_BLOCKING, 0)?;
        let mut short = Work::new(&short_stream, SHORT_BLOCKS, SHORT)?;
        let mut long = Work::new(&long_stream, size.long_blocks, size.long_steps)?;
        let start = Instant::now();
        let mut times = Vec::new();
        for _ in 0..size.samples {
            if is_busy {
                long.launch()?;
            }
            let start = Instant::now();
            short.launch()?;
            short_stream.synchronize()?;
            times.push(start.elapsed());
        }
        long_stream.synchronize()?;
        let all = start.elapsed();
        short.verify()?;
        if is_busy {
            long.verify()?;
        }
        if !session.is_software() {
            report(name, times, all);
        }
    }
    Ok(())
}

/// A kernel with its memory.
struct Work<'a> {
    stream: &'a Stream,
    kernel: SafeKernel,
    x: DeviceBuffer<u32>,
    config: LaunchConfig,
    steps: u32,
}

impl<'a> Work<'a> {
    fn new(stream: &'a Stream, blocks: u32, steps: u32) -> Result<Self> {
        let mut work = Self {
            stream,
            kernel: SafeModule::from_source(stream.context(), SOURCE)?.kernel("mix")?,
            x: DeviceBuffer::zeroed(stream, (blocks * THREADS) as usize)?,
            config: LaunchConfig::new(blocks, THREADS),
            steps,
        };
        // The first launch proves that the kernel accesses only `x`; later ones only compare.
        work.launch()?;
        stream.synchronize()?;
        Ok(work)
    }

    fn launch(&mut self) -> Result<()> {
        let args = (&mut self.x, self.steps);
        self.stream.launch_safe(&self.kernel, self.config, args)?;
        Ok(())
    }

    /// Compares the result with that of the host.
    fn verify(&self) -> Result<()> {
        let found = self.x.to_vec()?;
        // The steps are the same for all elements: `value * factor + term`.
        let (mut factor, mut term) = (1_u32, 0_u32);
        for _ in 0..self.steps {
            factor = factor.wrapping_mul(1_664_525);
            term = term.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
        let want: Vec<u32> = (0..found.len() as u32)
            .map(|i| i.wrapping_mul(factor).wrapping_add(term))
            .collect();
        verify_equal("green_contexts", &found, &want)
    }
}

/// Prints the median and the 99th percentile of `times`.
fn report(name: &str, mut times: Vec<Duration>, all: Duration) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!(
        "{name:>14}: p50 {:>8.1} us, p99 {:>8.1} us; everything took {:.0} ms",
        1e6 * at(50).as_secs_f64(),
        1e6 * at(99).as_secs_f64(),
        1e3 * all.as_secs_f64()
    );
}
