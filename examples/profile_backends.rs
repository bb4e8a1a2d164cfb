//! Teaches: how exact the times of the profiler are, and what it costs.
//!
//! The profiler has two sources of times: events around each piece of work, and the activity
//! records of CUPTI, which this program uses if it finds the library. It times kernels of several
//! lengths with both, and with Nsight Compute (`ncu`) if that is installed. Then it measures the
//! time of a launch with each source, and draws a timeline of two streams with a copy and a graph.
//!
//! Prints the times and costs of the sources, a table of the timeline, and the number of verified
//! elements. With a folder, it writes the timeline there as a page (`backends.html`) and for
//! <https://ui.perfetto.dev> (`backends.json`).
//!
//! `cargo run -p examples --example profile_backends --release -- FOLDER`

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
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
/// The number of launches before those that count: the clock of the device rises with the first
/// kernels.
const WARM_UP: usize = 3;
/// The variable with the steps of the kernels that this program launches under `ncu`.
const STEPS_UNDER_NCU: &str = "PROFILE_BACKENDS_STEPS";
/// The number of kernels of each length that `ncu` times.
const REPEATS_UNDER_NCU: usize = 20;

struct Bench {
    session: Session,
    spin: SafeKernel,
    cupti: Option<Cupti>,
    /// How many steps of the kernel take a microsecond.
    steps_per_microsecond: f64,
    repeats: usize,
}

fn main() -> Result<()> {
    let session = Session::open()?;
    let spin = session.load("spin.cu", SOURCE)?.kernel("spin")?;
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
    if let Ok(steps) = env::var(STEPS_UNDER_NCU) {
        return bench.launch_for_ncu(&steps);
    }
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
        // Not `launch_safe`: it also compares the launch with its proof, and this program measures
        // what the profiler adds to a plain launch.
        // SAFETY: each of the 32 threads writes one number of `out`, which has at least as many.
        Ok(unsafe { stream.launch(self.spin.function(), config, (out, steps)) }?)
    }

    fn steps(&self, microseconds: u64) -> u32 {
        (microseconds as f64 * self.steps_per_microsecond).max(1.0) as u32
    }

    /// Returns the times of kernels with `steps`, in ascending order.
    fn times(&self, backend: Backend, steps: u32, count: usize) -> Result<Vec<u64>> {
        let stream = &self.session.stream;
        let mut out = DeviceBuffer::zeroed(stream, 32)?;
        for _ in 0..WARM_UP {
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

    /// Launches kernels with these steps, separated by commas.
    fn launch_for_ncu(&self, steps: &str) -> Result<()> {
        let stream = &self.session.stream;
        let mut out = DeviceBuffer::zeroed(stream, 32)?;
        for steps in steps.split(',') {
            for _ in 0..WARM_UP + REPEATS_UNDER_NCU {
                self.spin(stream, &mut out, steps.parse()?)?;
            }
        }
        Ok(stream.synchronize()?)
    }

    /// Returns the times of the kernels of each length in nanoseconds as `ncu` measures them, in
    /// ascending order. It runs this program again, as a process of its own.
    fn times_of_ncu(&self) -> Result<Vec<Vec<u64>>> {
        let steps = LENGTHS.map(|length| self.steps(length).to_string());
        // By default `ncu` lowers the clock of the device.
        let output = Command::new(path_of_ncu())
            .args(["--clock-control", "none", "--cache-control", "none"])
            .args(["--metrics", "gpu__time_duration.sum"])
            .args(["--csv", "--print-units", "base", "--kernel-name", "spin"])
            .arg(env::current_exe()?)
            .env(STEPS_UNDER_NCU, steps.join(","))
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rows = text.lines().filter(|line| line.contains("gpu__time"));
        let times: Option<Vec<u64>> = rows.map(nanoseconds_of_row).collect();
        let times = times.unwrap_or_default();
        if times.len() != LENGTHS.len() * (WARM_UP + REPEATS_UNDER_NCU) {
            let reason = text.lines().find(|line| line.contains("ERR"));
            let reason = reason.unwrap_or("its output is not understood");
            return Err(format!("{} times in its output: {reason}", times.len()).into());
        }
        let lengths = times.chunks(WARM_UP + REPEATS_UNDER_NCU);
        let sorted = lengths.map(|times| {
            let mut times = times[WARM_UP..].to_vec();
            times.sort_unstable();
            times
        });
        Ok(sorted.collect())
    }

    /// Times the same kernels with each backend.
    fn compare_times(&self) -> Result<()> {
        let of_ncu = match self.session.is_software() {
            true => Vec::new(),
            false => self.times_of_ncu().unwrap_or_else(|error| {
                println!("without ncu: {error}");
                Vec::new()
            }),
        };
        println!(
            "\ntimes of the same kernel, {} launches each ({REPEATS_UNDER_NCU} with ncu), in µs",
            self.repeats
        );
        println!("source   median      5 %     95 %   bias of the events");
        for (index, length) in LENGTHS.into_iter().enumerate() {
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
            let events = median(&all[0]);
            for (backend, times) in self.backends().into_iter().zip(&all) {
                print_times(&backend.to_string(), times);
                if backend == Backend::Cupti {
                    let percent = print_bias(events, median(times));
                    if length >= 1000 && percent.abs() > 2.0 {
                        return Err(
                            format!("the bias is {percent} %; at most 2 % is expected").into()
                        );
                    }
                }
                println!();
            }
            if let Some(times) = of_ncu.get(index) {
                print_times("ncu", times);
                print_bias(events, median(times));
                println!();
            }
        }
        Ok(())
    }

    /// Returns the times of a launch on the host in nanoseconds: each is the mean of a row of
    /// launches. The stream is idle before each row.
    fn launch_times(&self, rows: usize) -> Result<Vec<u64>> {
        let stream = &self.session.stream;
        let mut out = DeviceBuffer::zeroed(stream, 32)?;
        let count = if self.session.is_software() { 20 } else { 400 };
        let mut times = Vec::new();
        for _ in 0..rows {
            stream.synchronize()?;
            let start = Instant::now();
            for _ in 0..count {
                self.spin(stream, &mut out, 0)?;
            }
            times.push(start.elapsed().as_nanos() as u64 / count);
        }
        Ok(times)
    }

    fn launch_time(&self) -> Result<f64> {
        let mut times = self.launch_times(self.repeats.min(30))?;
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
        let profiler = self.start(Backend::Events)?;
        // 400 launches in a row: a thread reads the events from the 4,097th launch on, and calls
        // read some too once 16,384 are pending.
        let mut times = self.launch_times(if self.session.is_software() { 4 } else { 90 })?;
        drop(profiler);
        let mut rest = times.as_mut_slice();
        for (what, rows) in [("", 10), (", being read", 25), (", long run", usize::MAX)] {
            let (part, after) = rest.split_at_mut(rows.min(rest.len()));
            rest = after;
            part.sort_unstable();
            if !part.is_empty() {
                let more = median(part) as f64 - off;
                println!(
                    "{:<15} {:>6} ns, {more:+.0} ns",
                    format!("events{what}"),
                    median(part)
                );
            }
        }
        if let Some(cupti) = &self.cupti {
            let profiler = self.start(Backend::Cupti)?;
            let time = self.launch_time()?;
            drop(profiler);
            println!("CUPTI           {time:>6.0} ns, {:+.0} ns", time - off);
            // The launches are on a stream that the profiler does not observe, but CUPTI does.
            let profiler = Profiler::start_on_with_cupti(&other, cupti)?;
            let time = self.launch_time()?;
            drop(profiler);
            println!("CUPTI by itself {time:>6.0} ns, {:+.0} ns", time - off);
            let time = self.launch_time()?;
            println!("after CUPTI     {time:>6.0} ns, {:+.0} ns", time - off);
        }
        self.measure_events()
    }

    /// Measures the calls of which a profiler with events consists.
    fn measure_events(&self) -> Result<()> {
        /// The number of calls, for which a stream has room.
        const CALLS: usize = 500;
        let stream = &self.session.stream;
        stream.synchronize()?;
        let each = |start: Instant| start.elapsed().as_nanos() as usize / CALLS;
        let start = Instant::now();
        let events: Result<Vec<Event>, _> = (0..CALLS)
            .map(|_| Event::new(&self.session.context, EventFlags::empty()))
            .collect();
        let (events, create) = (events?, each(start));
        let start = Instant::now();
        for event in &events {
            event.record(stream)?;
        }
        let record = each(start);
        stream.synchronize()?;
        let start = Instant::now();
        let mut total = Duration::ZERO;
        for event in &events {
            total += event.elapsed_since(&events[0])?;
        }
        let read = each(start);
        println!(
            "an event: create {create} ns, record {record} ns, read {read} ns, {:?} apart",
            total / (CALLS * CALLS / 2) as u32
        );
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
            graph.add_kernel_safe(&[], &self.spin, config, (out, steps))?;
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
        if let Some(folder) = env::args().nth(1) {
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

/// Returns the path of Nsight Compute.
fn path_of_ncu() -> PathBuf {
    let toolkits = [env::var_os("CUDA_PATH"), Some("/usr/local/cuda".into())];
    let mut paths = toolkits
        .into_iter()
        .flatten()
        .map(|toolkit| Path::new(&toolkit).join("bin/ncu"));
    paths.find(|path| path.exists()).unwrap_or("ncu".into())
}

/// Returns the time in a row of `ncu --csv`, which ends with the unit and the value.
fn nanoseconds_of_row(row: &str) -> Option<u64> {
    let mut fields = row.trim_matches('"').rsplit("\",\"");
    let (value, unit) = (fields.next()?.replace(',', ""), fields.next()?);
    let factor = match unit {
        "ns" | "nsecond" => 1.0,
        "us" | "usecond" => 1e3,
        "ms" | "msecond" => 1e6,
        _ => return None,
    };
    Some((value.parse::<f64>().ok()? * factor) as u64)
}

/// Prints the median and the spread of sorted times.
fn print_times(source: &str, times: &[u64]) {
    let micros = |percent: usize| times[(times.len() - 1) * percent / 100] as f64 / 1000.0;
    print!(
        "{source:<8}{:>8.2} {:>8.2} {:>8.2}",
        micros(50),
        micros(5),
        micros(95)
    );
}

/// Prints how much longer the time of the events is. Returns the percentage.
fn print_bias(events: u64, other: u64) -> f64 {
    let bias = events as f64 - other as f64;
    let percent = 100.0 * bias / other as f64;
    print!("   {:+.2} µs ({percent:+.2} %)", bias / 1000.0);
    percent
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
