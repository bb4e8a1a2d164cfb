//! Teaches: the whole path of a program: it compiles CUDA C++ with NVRTC, launches the kernels,
//! verifies their results, and times each step.
//!
//! Prints a table of times, and the number of verified elements. On systems without NVRTC (macOS),
//! it runs handwritten PTX instead, and prints a note.
//!
//! `cargo run -p examples --example demo`, or `cargo xtask demo`, which installs NVRTC first

use std::time::{Duration, Instant};

use cuda_driver::error::LoadError;
use cuda_driver::prelude::*;
use cuda_nvrtc::{Nvrtc, Options, Program};
use examples::{Result, Session, verify};

const SAXPY: &str = r#"
extern "C" __global__ void saxpy(float a, const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"#;

const MATMUL: &str = r#"
#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    unsigned tx = threadIdx.x, ty = threadIdx.y;
    unsigned row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (unsigned at = 0; at < n; at += TILE) {
        tile_a[ty][tx] = a[row * n + at + tx];
        tile_b[ty][tx] = b[(at + ty) * n + column];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++) sum += tile_a[ty][k] * tile_b[k][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"#;
const TILE: u32 = 16;

/// The time of each step of a job, and the throughput of the kernel.
struct Row {
    job: &'static str,
    compile: Duration,
    load: Duration,
    copies: Duration,
    kernel: Duration,
    rate: String,
}

fn main() -> Result<()> {
    let session = Session::open()?;
    println!("{}", session.device.name()?);
    let rows = match Nvrtc::load() {
        Ok(nvrtc) => {
            println!("NVRTC {} ({})", nvrtc.version(), nvrtc.origin());
            vec![
                saxpy(&session, |session| {
                    compiled(session, &nvrtc, "saxpy.cu", SAXPY)
                })?,
                matmul(&session, &nvrtc)?,
            ]
        }
        Err(cuda_nvrtc::Error::Load(LoadError::UnsupportedPlatform { .. })) => {
            println!(
                "NVIDIA provides no NVRTC for this system: running saxpy from handwritten PTX"
            );
            vec![saxpy(&session, |session| {
                let start = Instant::now();
                let ptx = Ptx::new(include_str!("kernels/saxpy.ptx"))?;
                let module = Module::load(&session.context, &ptx)?;
                Ok((module, Duration::ZERO, start.elapsed()))
            })?]
        }
        Err(error) => return Err(error.into()),
    };
    table(&rows, session.is_software());
    Ok(())
}

/// Compiles and loads a module; returns it with the times of compiling and of loading.
///
/// For a GPU, compiles to a cubin: machine code for the GPU's architecture, which the driver loads
/// whatever the versions of NVRTC and driver are. For the software device, compiles to PTX, which
/// it executes.
fn compiled(
    session: &Session,
    nvrtc: &Nvrtc,
    name: &str,
    source: &str,
) -> Result<(Module, Duration, Duration)> {
    let (context, device) = (&session.context, &session.device);
    let program = Program::new(nvrtc, source).name(name);
    let start = Instant::now();
    if session.is_software() {
        let ptx = program
            .compile_ptx(&Options::new().arch(device.virtual_arch()?))?
            .image;
        let compile = start.elapsed();
        let start = Instant::now();
        Ok((Module::load(context, &ptx)?, compile, start.elapsed()))
    } else {
        let cubin = program
            .compile_cubin(&Options::new().arch(device.arch()?))?
            .image;
        let compile = start.elapsed();
        let start = Instant::now();
        Ok((Module::load(context, &cubin)?, compile, start.elapsed()))
    }
}

fn saxpy(
    session: &Session,
    module: impl FnOnce(&Session) -> Result<(Module, Duration, Duration)>,
) -> Result<Row> {
    let (module, compile, load) = module(session)?;
    let kernel = module.function("saxpy")?;
    let stream = &session.stream;
    let n: u32 = if session.is_software() {
        1 << 20
    } else {
        1 << 24
    };
    let a = 3.0_f32;
    let x: Vec<f32> = (0..n).map(|i| (i % 1009) as f32).collect();
    let y: Vec<f32> = (0..n).map(|i| (i % 503) as f32).collect();

    let start = Instant::now();
    let x_device = DeviceBuffer::from_host(stream, &x)?;
    let mut y_device = DeviceBuffer::from_host(stream, &y)?;
    let mut copies = start.elapsed();
    let kernel = timed(session, |stream| {
        // SAFETY: the kernel reads n floats of `x` and reads and writes n floats of `y`; both have
        // n.
        Ok(unsafe {
            stream.launch(
                &kernel,
                LaunchConfig::for_num_elems(n)?,
                (a, &x_device, &mut y_device, n),
            )
        }?)
    })?;
    let start = Instant::now();
    let got = y_device.to_vec()?;
    copies += start.elapsed();

    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a.mul_add(*x, *y)).collect();
    verify("saxpy", &got, &want, 0.0)?;
    let rate = format!(
        "{:.1} GB/s",
        12.0 * f64::from(n) / kernel.as_secs_f64() / 1e9
    );
    Ok(Row {
        job: "saxpy",
        compile,
        load,
        copies,
        kernel,
        rate,
    })
}

fn matmul(session: &Session, nvrtc: &Nvrtc) -> Result<Row> {
    let (module, compile, load) = compiled(session, nvrtc, "matmul.cu", MATMUL)?;
    let kernel = module.function("matmul")?;
    let stream = &session.stream;
    let n: u32 = if session.is_software() { 192 } else { 512 };
    let size = n as usize;
    let a: Vec<f32> = (0..size * size).map(|i| (i % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..size * size).map(|i| (i % 11) as f32 - 5.0).collect();

    let start = Instant::now();
    let a_device = DeviceBuffer::from_host(stream, &a)?;
    let b_device = DeviceBuffer::from_host(stream, &b)?;
    let mut c_device = DeviceBuffer::<f32>::zeroed(stream, size * size)?;
    let mut copies = start.elapsed();
    let config = LaunchConfig::new((n / TILE, n / TILE), (TILE, TILE));
    let kernel = timed(session, |stream| {
        // SAFETY: the kernel reads n * n floats of `a` and of `b` and writes n * n floats of `c`;
        // all three have n * n, and n is a multiple of the tile size.
        Ok(unsafe { stream.launch(&kernel, config, (&a_device, &b_device, &mut c_device, n)) }?)
    })?;
    let start = Instant::now();
    let got = c_device.to_vec()?;
    copies += start.elapsed();

    // The inputs are small integers, so the sums are exact in `f32` in any order of additions.
    let mut want = vec![0.0_f32; size * size];
    for (row, out) in want.chunks_mut(size).enumerate() {
        for k in 0..size {
            let factor = a[row * size + k];
            for (out, b) in out.iter_mut().zip(&b[k * size..][..size]) {
                *out += factor * b;
            }
        }
    }
    verify("matmul", &got, &want, 0.0)?;
    let flops = 2.0 * f64::from(n).powi(3);
    let rate = format!("{:.1} GFLOP/s", flops / kernel.as_secs_f64() / 1e9);
    Ok(Row {
        job: "matmul",
        compile,
        load,
        copies,
        kernel,
        rate,
    })
}

/// Returns the time between two events around the work that `launch` queues.
fn timed(session: &Session, launch: impl FnOnce(&Stream) -> Result<()>) -> Result<Duration> {
    let start = session.stream.record_event()?;
    launch(&session.stream)?;
    let end = session.stream.record_event()?;
    end.synchronize()?;
    Ok(end.elapsed_since(&start)?)
}

fn table(rows: &[Row], software: bool) {
    let ms = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    println!(
        "\n{:<8} {:>12} {:>10} {:>12} {:>12}  rate",
        "job", "compile ms", "load ms", "copies ms", "kernel ms"
    );
    for row in rows {
        println!(
            "{:<8} {:>12} {:>10} {:>12} {:>12}  {}",
            row.job,
            ms(row.compile),
            ms(row.load),
            ms(row.copies),
            ms(row.kernel),
            row.rate
        );
    }
    if software {
        println!("(times of the software device do not predict those of a GPU)");
    }
}
