//! Kernels on the software device, compared with the same computation in C, on one core.
//!
//! The C code is `c/reference.c`, compiled in two ways: `plain` (`-O3`), and `fast` (`-O3`,
//! `-ffast-math`, and on x86-64 `-mavx2 -mfma`). The kernels are compiled by NVRTC. All three run
//! in turn on the same data, and each row prints the medians and the ratios. On Linux, times are
//! the processor time of the process, so that other processes disturb less. `RUNS` is the number of
//! runs of each (default: 9).

use std::cell::RefCell;
use std::env;
use std::time::Duration;

use benches::reference::Reference;
use cuda_driver::launch::KernelArgs;
use cuda_driver::prelude::*;

const SOURCE: &str = include_str!("compared_with_c.cu");

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The processor time that this process has used.
#[cfg(target_os = "linux")]
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time since the first call.
#[cfg(not(target_os = "linux"))]
fn now() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = now();
    run();
    now() - start
}

/// Runs all ways in turn, compares their results, and prints a row.
fn compare(
    name: &str,
    runs: usize,
    in_c: impl Fn(&Reference, &mut [f32]),
    on_device: impl Fn() -> cuda_driver::Result<()>,
    output: impl FnOnce() -> cuda_driver::Result<Vec<f32>>,
) -> cuda_driver::Result<()> {
    on_device()?;
    let found = output()?;
    let mut ways = vec![("plain", Reference::plain(), Vec::new())];
    ways.extend(Reference::fast().map(|fast| ("fast", fast, Vec::new())));
    let mut expected = vec![0.0; found.len()];
    let mut device = Vec::new();
    for _ in 0..runs {
        for (way, reference, times) in &mut ways {
            times.push(timed(|| in_c(reference, &mut expected)));
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let error = (found - expected).abs() / expected.abs().max(1.0);
                assert!(
                    error <= 1e-3,
                    "{name}: element {index} is {found}, and {expected} in C ({way})"
                );
            }
        }
        let mut outcome = Ok(());
        device.push(timed(|| outcome = on_device()));
        outcome?;
    }
    let device = median(device);
    print!("{name}: {device:.2?}");
    for (way, _, times) in ways {
        let c = median(times);
        let ratio = device.as_secs_f64() / c.as_secs_f64();
        print!("; C, {way}: {c:.2?}, {ratio:.1} times slower");
    }
    println!();
    Ok(())
}

fn numbers(length: usize) -> Vec<f32> {
    (0..length)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761) as f32 / 4e9)
        .collect()
}

/// Launches the original kernel and waits for it.
fn run(
    stream: &Stream,
    kernel: &SafeKernel,
    config: LaunchConfig,
    args: impl KernelArgs,
) -> cuda_driver::Result<()> {
    let launch = stream.launch_safe(kernel, config, args)?;
    assert!(!launch.is_checked(), "the accesses are proven");
    stream.synchronize()
}

/// Restricts the process to one core, so that the software device has no help of other threads.
fn use_one_core() {
    #[cfg(target_os = "linux")]
    {
        let allowed = rustix::thread::sched_getaffinity(None).expect("Linux reports the cores");
        let core = (0..1024).find(|core| allowed.is_set(*core));
        let mut one = rustix::thread::CpuSet::new();
        one.set(core.expect("the process may run on a core"));
        rustix::thread::sched_setaffinity(None, &one).expect("an allowed core can be chosen");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    use_one_core();
    let runs = match env::var("RUNS") {
        Ok(runs) => runs.parse()?,
        Err(_) => 9,
    };
    let driver = Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
    let context = driver.device(0)?.primary_context()?;
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0)?;
    let module = SafeModule::from_source(&context, SOURCE)?;
    let buffer = |values: &[f32]| DeviceBuffer::from_host(&stream, values);

    let (kernel, n) = (module.kernel("vector_add")?, 1 << 20);
    let (a, b) = (numbers(n), numbers(n));
    let (x, y, z) = (buffer(&a)?, buffer(&b)?, RefCell::new(buffer(&a)?));
    compare(
        "vector add, 2^20 elements",
        runs,
        |way, c| way.vector_add(&a, &b, c),
        || {
            let config = LaunchConfig::for_num_elems(n as u32)?;
            let args = (&x, &y, &mut *z.borrow_mut(), n as u32);
            run(&stream, &kernel, config, args)
        },
        || z.borrow().to_vec(),
    )?;

    let (kernel, n) = (module.kernel("matmul")?, 256);
    let (a, b) = (numbers(n * n), numbers(n * n));
    let (x, y, z) = (buffer(&a)?, buffer(&b)?, RefCell::new(buffer(&a)?));
    compare(
        "tiled matmul, 256 rows",
        runs,
        |way, c| way.matmul(&a, &b, c, n),
        || {
            let config = LaunchConfig::new((n as u32 / 16, n as u32 / 16), (16, 16));
            let args = (&x, &y, &mut *z.borrow_mut(), n as u32);
            run(&stream, &kernel, config, args)
        },
        || z.borrow().to_vec(),
    )?;

    let (kernel, n) = (module.kernel("n_body")?, 2048);
    let bodies = numbers(4 * n);
    let (x, z) = (buffer(&bodies)?, RefCell::new(buffer(&bodies)?));
    compare(
        "n-body, 2048 bodies",
        runs,
        |way, forces| way.n_body(&bodies, forces),
        || {
            let config = LaunchConfig::new(n as u32 / 128, 128);
            let args = (&x, &mut *z.borrow_mut(), n as u32);
            run(&stream, &kernel, config, args)
        },
        || z.borrow().to_vec(),
    )?;
    Ok(())
}
