//! Teaches: the whole path of a program: it compiles CUDA C++ with NVRTC, proves which memory the
//! kernels access, launches them, verifies their results, and times each step.
//!
//! Prints a table of times, and the number of verified elements. On systems without NVRTC (macOS),
//! it runs handwritten PTX instead, and prints a note.
//!
//! `cargo run -p examples --example demo`, or `cargo xtask demo`, which installs NVRTC first

use std::time::{Duration, Instant};

use cuda_driver::error::LoadError;
use cuda_driver::nvrtc::{Cache, CacheMode, Source};
use cuda_driver::prelude::*;
use cuda_driver::safe::{InferredContract, SafeLaunch};
use cuda_nvrtc::Nvrtc;
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
    build: Duration,
    proof: Duration,
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
                saxpy(&session, || built(&session, &nvrtc, "saxpy.cu", SAXPY))?,
                matmul(&session, &nvrtc)?,
            ]
        }
        Err(cuda_nvrtc::Error::Load(LoadError::UnsupportedPlatform { .. })) => {
            println!(
                "NVIDIA provides no NVRTC for this system: running saxpy from handwritten PTX"
            );
            vec![saxpy(&session, || {
                let ptx = Ptx::new(include_str!("kernels/saxpy.ptx"))?;
                Ok(SafeModule::load(&session.context, &ptx)?)
            })?]
        }
        Err(error) => return Err(error.into()),
    };
    table(&rows, session.is_software());
    Ok(())
}

/// Compiles CUDA C++ to PTX, and loads the PTX: the driver compiles it to machine code. A compiler
/// that is newer than the driver works, too.
fn built(session: &Session, nvrtc: &Nvrtc, name: &str, source: &str) -> Result<SafeModule> {
    // Without the cache, the second run of this program takes as long as the first.
    let cache = Cache::builder("").mode(CacheMode::Off).open();
    let source = Source::new(source).name(name).nvrtc(nvrtc).cache(&cache);
    Ok(SafeModule::from_source(&session.context, source)?)
}

fn saxpy(session: &Session, module: impl FnOnce() -> Result<SafeModule>) -> Result<Row> {
    let start = Instant::now();
    let module = module()?;
    let build = start.elapsed();
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
    let config = LaunchConfig::for_num_elems(n)?;
    let saxpy = module.kernel("saxpy")?;
    let start = Instant::now();
    let contract = saxpy.contract(config, (a, &x_device, &mut y_device, n))?;
    let proof = start.elapsed();
    let kernel = timed(session, &contract, |stream| {
        stream.launch_safe(&saxpy, config, (a, &x_device, &mut y_device, n))
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
        build,
        proof,
        copies,
        kernel,
        rate,
    })
}

fn matmul(session: &Session, nvrtc: &Nvrtc) -> Result<Row> {
    let start = Instant::now();
    let module = built(session, nvrtc, "matmul.cu", MATMUL)?;
    let build = start.elapsed();
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
    let matmul = module.kernel("matmul")?;
    let start = Instant::now();
    let contract = matmul.contract(config, (&a_device, &b_device, &mut c_device, n))?;
    let proof = start.elapsed();
    let kernel = timed(session, &contract, |stream| {
        stream.launch_safe(&matmul, config, (&a_device, &b_device, &mut c_device, n))
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
        build,
        proof,
        copies,
        kernel,
        rate,
    })
}

/// Launches a kernel whose accesses are proven. Returns the time between two events around it.
fn timed(
    session: &Session,
    contract: &InferredContract,
    launch: impl FnOnce(&Stream) -> cuda_driver::Result<SafeLaunch>,
) -> Result<Duration> {
    if !contract.is_proven() {
        return Err(format!("not proven:\n{contract}").into());
    }
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
        "job", "build ms", "proof ms", "copies ms", "kernel ms"
    );
    for row in rows {
        println!(
            "{:<8} {:>12} {:>10} {:>12} {:>12}  {}",
            row.job,
            ms(row.build),
            ms(row.proof),
            ms(row.copies),
            ms(row.kernel),
            row.rate
        );
    }
    if software {
        println!("(times of the software device do not predict those of a GPU)");
    }
}
