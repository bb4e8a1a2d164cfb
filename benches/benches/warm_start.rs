//! The time from source text to a launchable function: cold, by NVRTC, and warm, from the disk
//! cache.
//!
//! Each warm sample opens a new cache. Within a process, the cache knows the compiler after the
//! first start, and the driver has already loaded a module; so the first start of a new process is
//! measured too. Loading NVRTC and creating the context are never included. On a GPU the image is a
//! cubin, and the warm start has a limit; on the software device it is PTX, and the times do not
//! apply to a GPU.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use cuda_driver::jit::Image;
use cuda_driver::prelude::*;
use cuda_nvrtc::{Arch, Cache, Cached, Nvrtc, Options, Output, Program};

/// The limit for a warm start on a GPU.
const BAR: Duration = Duration::from_micros(1500);

/// The number of samples of each kind of start.
const COLD: usize = 10;
const WARM: usize = 50;
const PROCESSES: usize = 10;

/// The environment variable that names the cache for a child process of this program.
const DIR: &str = "CUDA_WARM_START_DIR";

/// A kernel that takes NVRTC some time: a tiled matrix product, a template for three types.
const SOURCE: &str = r#"
template <typename T, int TILE> __device__ void product(const T *a, const T *b, T *c, int n) {
    __shared__ T left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    T sum = T();
    for (int tile = 0; tile < n; tile += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void product_f32(const float *a, const float *b, float *c, int n) { product<float, 16>(a, b, c, n); }
extern "C" __global__ void product_f64(const double *a, const double *b, double *c, int n) { product<double, 16>(a, b, c, n); }
extern "C" __global__ void product_i32(const int *a, const int *b, int *c, int n) { product<int, 16>(a, b, c, n); }
"#;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The two sources: a minimal kernel, and a source of the size of a program.
const SOURCES: [&str; 2] = ["small", "100 KiB"];

fn main() -> ExitCode {
    let result = match env::var_os(DIR) {
        Some(dir) => first_of_a_process(Path::new(&dir)),
        None => run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    // `cargo test` also builds benches, and runs them to check that they work.
    let is_test = !env::args().any(|arg| arg == "--bench");
    let (cold, warm, processes) = if is_test {
        (1, 1, 1)
    } else {
        (COLD, WARM, PROCESSES)
    };
    let before = Instant::now();
    let nvrtc = match Nvrtc::load() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!(
        "NVRTC {}, loaded in {:.1} ms",
        nvrtc.version(),
        millis(before.elapsed())
    );
    for name in SOURCES {
        let start = Start::new(&nvrtc, name)?;
        println!(
            "\n{}\n{}, {}, source: {name}",
            start.device,
            start.arch,
            start.kind()
        );
        if start.is_gpu {
            measure::<Cubin>(&start, name, cold, warm, processes)?;
        } else {
            measure::<Ptx>(&start, name, cold, warm, processes)?;
        }
    }
    Ok(())
}

/// Prints the duration of one warm start, in nanoseconds.
fn first_of_a_process(dir: &Path) -> Result<()> {
    let name = env::args().nth(1).unwrap_or_default();
    let start = Start::new(&Nvrtc::load()?, &name)?;
    let time = if start.is_gpu {
        start.warm::<Cubin>(dir)?.0.1
    } else {
        start.warm::<Ptx>(dir)?.0.1
    };
    println!("{}", time.as_nanos());
    Ok(())
}

/// The inputs of both kinds of start.
struct Start {
    device: String,
    arch: Arch,
    is_gpu: bool,
    context: Context,
    program: Program,
    options: Options,
}

impl Start {
    fn new(nvrtc: &Nvrtc, name: &str) -> Result<Self> {
        let choice = cuda_sim::gpu_or_software()?;
        let (device, is_gpu) = (choice.to_string(), !choice.is_software());
        let context = Driver::new(choice.into_library())?
            .device(0)?
            .primary_context()?;
        let capability = context.device().compute_capability()?;
        let arch = Arch::sm(capability.major, capability.minor);
        let arch = if is_gpu { arch } else { arch.to_virtual() };
        let mut options = Options::new().arch(arch);
        // NVRTC 12.9 and newer look into the driver's cache, which would make a cold start warm.
        if nvrtc.version().number() >= 12090 {
            options = options.no_cache(true);
        }
        let source = if name == SOURCES[0] {
            SOURCE.to_owned()
        } else {
            long(SOURCE)
        };
        let program = Program::new(nvrtc, source).name("product.cu");
        Ok(Self {
            device,
            arch,
            is_gpu,
            context,
            program,
            options,
        })
    }

    fn kind(&self) -> &'static str {
        if self.is_gpu { "cubin" } else { "PTX" }
    }

    /// Loads `image` and finds the function.
    fn load<'a>(&self, image: impl Into<Image<'a>>) -> Result<Function> {
        Ok(Module::load(&self.context, image)?.function("product_f32")?)
    }

    /// Compiles and loads. Returns the time until the image exists, and the time until the function
    /// exists.
    fn cold<T: Output>(&self) -> Result<(Duration, Duration)>
    where
        for<'a> &'a T: Into<Image<'a>>,
    {
        let before = Instant::now();
        let image: T = self.program.compile(&self.options)?.image;
        let compiled = before.elapsed();
        let _function = self.load(&image)?;
        Ok((compiled, before.elapsed()))
    }

    /// Starts from the cache in `dir`. Returns the same times and the cached image.
    fn warm<T: Output>(&self, dir: &Path) -> Result<((Duration, Duration), Cached<T>)>
    where
        for<'a> &'a T: Into<Image<'a>>,
    {
        let before = Instant::now();
        let found: Cached<T> = Cache::open(dir).compile(&self.program, &self.options)?;
        let read = before.elapsed();
        let _function = self.load(&found.compiled.image)?;
        let times = (read, before.elapsed());
        if found.is_hit() {
            Ok((times, found))
        } else {
            Err(format!("no hit: {:?}", found.outcome).into())
        }
    }
}

fn measure<T: Output + PartialEq>(
    start: &Start,
    name: &str,
    cold: usize,
    warm: usize,
    processes: usize,
) -> Result<()>
where
    for<'a> &'a T: Into<Image<'a>>,
{
    println!("{:<34} {:>10} {:>10}", "", "least ms", "median ms");
    let times = (0..cold)
        .map(|_| start.cold::<T>())
        .collect::<Result<Vec<_>>>()?;
    let (mut compiled, mut ready): (Vec<_>, Vec<_>) = times.into_iter().unzip();
    row("cold: NVRTC", &mut compiled);
    row("cold: source to function", &mut ready);

    let dir = Folder::new();
    let cache = Cache::open(&dir.0);
    let kept = cache.compile::<T>(&start.program, &start.options)?;
    if let Some(problem) = cache.problem() {
        return Err(problem.into());
    }
    let mut read = Vec::new();
    let mut ready = Vec::new();
    for _ in 0..warm {
        let (times, found) = start.warm::<T>(&dir.0)?;
        if found.compiled.image != kept.compiled.image {
            return Err("the cache returned an image that differs from the compiled one".into());
        }
        read.push(times.0);
        ready.push(times.1);
    }
    row("warm: cache", &mut read);
    let again = row("warm: source to function", &mut ready);
    let mut firsts = (0..processes)
        .map(|_| in_a_process(&dir.0, name))
        .collect::<Result<Vec<_>>>()?;
    let first = row("warm: the first of a process", &mut firsts);
    for (what, median) in [("warm", again), ("warm, the first of a process", first)] {
        let verdict = match (start.is_gpu, median <= BAR) {
            (false, _) => "no limit without a GPU",
            (true, true) => "passed",
            (true, false) => "missed",
        };
        println!(
            "limit: {what}, median at most {:.1} ms: {verdict}",
            millis(BAR)
        );
    }
    Ok(())
}

/// Measures one warm start in a new process.
fn in_a_process(dir: &Path, name: &str) -> Result<Duration> {
    let output = Command::new(env::current_exe()?)
        .arg(name)
        .env(DIR, dir)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(Duration::from_nanos(
        String::from_utf8(output.stdout)?.trim().parse()?,
    ))
}

/// A folder for a cache, which is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = Self(env::temp_dir().join(format!("cuda-warm-start-{}", std::process::id())));
        folder.clear();
        folder
    }

    fn clear(&self) {
        // The folder may not exist.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Prints the times, and returns their median.
fn row(name: &str, times: &mut [Duration]) -> Duration {
    times.sort();
    let (least, median) = (times[0], times[times.len() / 2]);
    println!(
        "{name:<34} {:>10.3} {:>10.3}",
        millis(least),
        millis(median)
    );
    median
}

/// The source after 100 KiB of comments.
fn long(source: &str) -> String {
    let mut text = String::new();
    while text.len() < 100 << 10 {
        let length = text.len();
        let _ = writeln!(text, "// {length}: a line of a source that is 100 KiB long");
    }
    text + source
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
