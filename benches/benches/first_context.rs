//! The time until the first context exists, through the safe layer and by raw calls; and the time
//! to find a context that exists.
//!
//! A process has one first context, so each measurement of it runs in a process of its own, in
//! turn. Runs on the GPU or, without one, on the software device.

use std::env;
use std::hint::black_box;
use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_driver::Driver;

/// The number of processes for each of the two.
const PROCESSES: usize = 15;
/// How often the context that exists is looked up.
const LOOKUPS: u32 = 1_000_000;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    // The second argument of cargo is `--bench`.
    match env::var("FIRST_CONTEXT").as_deref() {
        Ok("raw") => raw(),
        Ok(_) => safe(),
        Err(_) => compare(),
    }
}

/// `cuInit` and the primary context, by raw calls.
fn raw() -> Result<()> {
    let library = cuda_sim::gpu_or_software()?.into_library();
    let start = Instant::now();
    // SAFETY: the flags must be 0.
    let initialized = unsafe { library.cuInit(0) };
    let (mut device, mut context) = (0, ptr::null_mut());
    // SAFETY: the pointer is to a local.
    let found = unsafe { library.cuDeviceGet(&raw mut device, 0) };
    // SAFETY: as above.
    let retained = unsafe { library.cuDevicePrimaryCtxRetain(&raw mut context, device) };
    let elapsed = start.elapsed();
    assert!(initialized.is_success() && found.is_success() && retained.is_success());
    println!("{}", elapsed.as_nanos());
    Ok(())
}

/// Does the same work through the safe layer.
fn safe() -> Result<()> {
    let library = cuda_sim::gpu_or_software()?.into_library();
    let start = Instant::now();
    let context = Driver::new(library)?.device(0)?.primary_context()?;
    let elapsed = start.elapsed();
    println!("{}", elapsed.as_nanos());
    drop(context);
    Ok(())
}

fn compare() -> Result<()> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..PROCESSES {
        for (kind, times) in ["raw", "safe"].iter().zip(&mut times) {
            let program = env::current_exe()?;
            let output = Command::new(program).env("FIRST_CONTEXT", kind).output()?;
            let text = String::from_utf8(output.stdout)?;
            times.push(Duration::from_nanos(text.trim().parse()?));
        }
    }
    let [raw, safe] = times.map(|mut times| {
        times.sort();
        times[PROCESSES / 2]
    });
    println!(
        "first context, median of {PROCESSES} processes: raw calls {raw:?}, safe layer {safe:?}"
    );

    let choice = cuda_sim::gpu_or_software()?;
    println!("{choice}");
    let device = Driver::new(choice.into_library())?.device(0)?;
    let context = device.primary_context()?;
    let start = Instant::now();
    for _ in 0..LOOKUPS {
        drop(black_box(device.primary_context()?));
    }
    println!("a context that exists: {:?}", start.elapsed() / LOOKUPS);
    drop(context);
    Ok(())
}
