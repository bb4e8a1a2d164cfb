//! Teaches: how exact the times of the profiler are, and what it costs.
//!
//! The profiler has two sources of times: events around each piece of work, and the activity
//! records of CUPTI, which this program uses if it finds the library. It times kernels of several
//! lengths with both, measures the time of a launch with each, and draws a timeline of two streams
//! with a copy and a graph.
//!
//! Prints the times and costs of both sources, a table of the timeline, and the number of verified
//! elements. With a folder, it writes the timeline there as a page (`backends.html`) and for
//! <https://ui.perfetto.dev> (`backends.json`).
//!
//! `cargo run -p examples --example profile_backends --release -- FOLDER`

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use cuda_driver::prelude::*;
use cuda_driver::profile::{Backend, Cupti, Origin, Profile, Profiler};
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
// Each step needs the result of the step before.
extern "C" __global__ void spin(unsigned *out, unsigned steps) {
    unsigned x = threadIdx.x;
    for (unsigned i = 0; i < steps; ++i)
        x = x * 1664525u + 1013904223u;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
"#;

/// The times of the kernels in microseconds.
const LENGTHS: [u64; 6] = [2, 10, 100, 1_000, 4_000, 10_000];

struct Bench {
    session: Session,
    spin: Function,
    cupti: Option<Cupti>,
    /// How many steps of the kernel take a microsecond.
    steps_per_microsecond: f64,
    repeats: usize,
}

fn main() -> Result<()> {
    let session = Session::open()?;
    let module = Module::from_source(&session.context, SOURCE)?;
    let spin = module.function("spin")?;
    let cupti = match session.is_software() {
        true => None,
        false => match Cupti::load(session.context.driver()) {
            Ok(cupti) => {
                println!("CUPTI {} in {}", cupti.version(), cupti.origin());
                Some(cupti)
            }
            Err(error) => {
                println!("without CUPTI: {error}");
                None
            }
        },
    };
    let repeats = if session.is_software() { 3 } else { 200 };
    let mut bench = Bench {
        session,
        spin,
        cupti,
        steps_per_microsecond: 1.0,
        repeats,
    };
    bench.calibrate()?;
    bench.compare_times()?;
    bench.measure_launches()?;
    bench.draw_timeline()?;
    bench.verify()
}

impl Bench {
    /// Starts a profiler.
    fn start(&self, backend: Backend) -> Result<Profiler> {
        let context = &self.session.context;
        Ok(match &self.cupti {
            Some(cupti) if backend == Backend::Cupti => Profiler::start_with_cupti(context, cupti)?,
            _ => Profiler::start(context)?,
        })
    }

    /// The backends of this machine.
    fn backends(&self) -> Vec<Backend> {
        let both = [
            Some(Backend::Events),
            self.cupti.as_ref().map(|_| Backend::Cupti),
        ];
        both.into_iter().flatten().collect()
    }

    fn spin(&self, stream: &Stream, out: &mut DeviceBuffer<u32>, steps: u32) -> Result<()> {
        let config = LaunchConfig::new(1, 32);
        // SAFETY: each of the 32 threads writes one number of `out`, which has at least as many.
        Ok(unsafe { stream.launch(&self.spin, config, (out, steps)) }?)
    }

    fn steps(&self, microseconds: u64) -> u32 {
        (microseconds as f64 * self.steps_per_microsecond).max(1.0) as u32
    }

    /// Returns the times of kernels with `steps`, in ascending order.
    fn times(&self, backend: Backend, steps: u32, count: usize) -> Result<Vec<u64>> {
        let stream = &self.session.stream;
        let mut out = DeviceBuffer::zeroed(stream, 32)?;
        // The clock of the device rises with the first kernels.
        for _ in 0..3 {
            self.spin(stream, &mut out, steps)?;
        }
        stream.synchronize()?;
        let profiler = self.start(backend)?;
        for _ in 0..count {
            self.spin(stream, &mut out, steps)?;
        }
        Ok(times_of(&profiler.finish()?))
    }

    /// Finds the number of steps in a microsecond.
    fn calibrate(&mut self) -> Result<()> {
        let mut steps = 1000;
        loop {
            let times = self.times(Backend::Events, steps, 5)?;
            let time = median(&times);
            if time > 5_000_000 {
                self.steps_per_microsecond = f64::from(steps) * 1000.0 / time as f64;
                return Ok(());
            }
            steps *= 2;
        }
    }

    /// Times the same kernels with each backend.
    fn compare_times(&self) -> Result<()> {
        println!(
            "\ntimes of the same kernel, {} launches each, in µs",
            self.repeats
        );
        println!("backend  median      5 %     95 %   bias of the events");
        for length in LENGTHS {
            let steps = self.steps(length);
            // The runs alternate, so that a change of the clock affects both.
            let mut all = vec![Vec::new(); 2];
            for _ in 0..3 {
                for (backend, times) in self.backends().into_iter().zip(&mut all) {
                    times.extend(self.times(backend, steps, self.repeats / 3 + 1)?);
                }
            }
            for times in &mut all {
                times.sort_unstable();
            }
            for (backend, times) in self.backends().into_iter().zip(&all) {
                let micros = |time: u64| time as f64 / 1000.0;
                let at = |percent: usize| micros(times[(times.len() - 1) * percent / 100]);
                print!("{backend:<8}{:>8.2} {:>8.2} {:>8.2}", at(50), at(5), at(95));
                if backend == Backend::Cupti {
                    let [events, records] = [&all[0], &all[1]].map(|it| micros(median(it)));
                    let bias = events - records;
                    let percent = 100.0 * bias / records;
                    print!("   {bias:+.2} µs ({percent:+.2} %)");
                    if length >= 1000 && percent.abs() > 2.0 {
                        return Err(
                            format!("the bias is {percent} %; at most 2 % is expected").into()
                        );
                    }
                }
                println!();
            }
        }
        Ok(())
    }

    /// Returns the time of a launch on the host in nanoseconds.
    fn launch_time(&self) -> Result<f64> {
        let stream = &self.session.stream;
        let mut out = DeviceBuffer::zeroed(stream, 32)?;
        let count = if self.session.is_software() { 20 } else { 400 };
        let mut times = Vec::new();
        for _ in 0..self.repeats.min(30) {
            stream.synchronize()?;
            let start = Instant::now();
            for _ in 0..count {
                self.spin(stream, &mut out, 0)?;
            }
            times.push(start.elapsed().as_nanos() as u64 / count);
        }
        times.sort_unstable();
        Ok(median(&times) as f64)
    }

    /// Measures a launch without a profiler and with each backend.
    fn measure_launches(&self) -> Result<()> {
        let build = if cfg!(debug_assertions) {
            " (a debug build)"
        } else {
            ""
        };
        println!("\ntime of a launch on the host{build}");
        let other = Stream::new(&self.session.context, StreamFlags::NON_BLOCKING, 0)?;
        let off = self.launch_time()?;
        println!("no profiler     {off:>6.0} ns");
        for backend in self.backends() {
            let profiler = self.start(backend)?;
            let time = self.launch_time()?;
            drop(profiler);
            println!(
                "{:<15} {time:>6.0} ns, {:+.0} ns",
                backend.to_string(),
                time - off
            );
        }
        if let Some(cupti) = &self.cupti {
            // The launches are on a stream that the profiler does not observe, but CUPTI does.
            let profiler = Profiler::start_on_with_cupti(&other, cupti)?;
            let time = self.launch_time()?;
            drop(profiler);
            println!("CUPTI by itself {time:>6.0} ns, {:+.0} ns", time - off);
            let time = self.launch_time()?;
            println!("after CUPTI     {time:>6.0} ns, {:+.0} ns", time - off);
        }
        Ok(())
    }

    /// Profiles two streams that overlap, with a copy and a graph.
    fn draw_timeline(&self) -> Result<()> {
        let context = &self.session.context;
        let length = if self.session.is_software() {
            2_000
        } else {
            500
        };
        let steps = self.steps(length);
        let streams = [0, 0].map(|_| Stream::new(context, StreamFlags::NON_BLOCKING, 0));
        let [one, other] = streams;
        let (one, other) = (one?, other?);
        let mut outs = [&one, &one, &one, &other].map(|it| DeviceBuffer::zeroed(it, 32));
        let [a, b, c, d] = &mut outs;
        let [a, b, c, d] = [a, b, c, d].map(|it| it.as_mut().map_err(|error| error.to_string()));
        let (a, b, c, d) = (a?, b?, c?, d?);
        let mut graph = Graph::new(context)?;
        let config = LaunchConfig::new(1, 32);
        for out in [&mut *b, &mut *c] {
            // SAFETY: each of the 32 threads writes one number of `out`.
            unsafe { graph.add_kernel(&[], &self.spin, config, (out, steps)) }?;
        }
        let graph = graph.instantiate()?;
        let host = PinnedBuffer::<u32>::zeroed(context, 1 << 20, PinnedFlags::empty())?;
        let mut words = DeviceBuffer::zeroed(&other, 1 << 20)?;
        // The first launch of a graph prepares it, and takes longer.
        graph.launch(&one)?;
        context.synchronize()?;

        let backend = self.backends().pop().unwrap_or(Backend::Events);
        let profiler = self.start(backend)?;
        // The first launch of a kernel under a profiler queries its resources.
        profiler.range("first launch", || self.spin(&one, a, 1))?;
        profiler.range("two streams", || -> Result<()> {
            self.spin(&one, a, steps)?;
            self.spin(&other, d, 2 * steps)?;
            words.as_mut_slice().copy_from_pinned(&host)?;
            graph.launch(&one)?;
            self.spin(&other, d, steps)
        })?;
        let profile = profiler.finish()?;
        println!("\n{}", profile.table());
        let overlap = overlap(&profile);
        println!("the kernels of the two streams overlap for {overlap:?}");
        if let Some(folder) = std::env::args().nth(1) {
            let folder = Path::new(&folder);
            fs::write(folder.join("backends.html"), profile.html())?;
            profile.write_trace(fs::File::create(folder.join("backends.json"))?)?;
        }
        Ok(())
    }

    /// Compares the result of the kernel with that of the host.
    fn verify(&self) -> Result<()> {
        let mut out = DeviceBuffer::zeroed(&self.session.stream, 32)?;
        self.spin(&self.session.stream, &mut out, 10)?;
        let step = |x: u32, _| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let want: Vec<u32> = (0..32).map(|x| (0..10).fold(x, step)).collect();
        verify_equal("profile_backends", &out.to_vec()?, &want)
    }
}

/// Returns the times of the kernels of a profile in nanoseconds, in ascending order.
fn times_of(profile: &Profile) -> Vec<u64> {
    let calls = profile.operations().iter();
    let calls = calls.filter(|it| it.origin() == Origin::Call && it.name() == "spin");
    let times = calls.filter_map(|it| Some(it.duration()?.as_nanos() as u64));
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    times
}

/// Returns the median of sorted numbers.
fn median(sorted: &[u64]) -> u64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// Returns for how long the first kernels of two streams ran at the same time.
fn overlap(profile: &Profile) -> Duration {
    let of = |stream: usize| {
        let mut all = profile.operations().iter();
        let first = all.find(|it| it.range() == Some(1) && it.stream() == stream)?;
        Some((first.start()?, first.start()? + first.duration()?))
    };
    match (of(0), of(1)) {
        (Some(one), Some(other)) => one.1.min(other.1).saturating_sub(one.0.max(other.0)),
        _ => Duration::ZERO,
    }
}
