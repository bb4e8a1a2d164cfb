//! What it costs to find all functions of a driver when it is loaded, in a process that launches
//! one kernel.
//!
//! The driver is that of the system, or the file in `CUDA_DRIVER_LIBRARY`, such as the driver
//! library that is built from cuda-sim. Each measurement runs in its own process:
//!
//! - loading the library and finding its functions,
//! - finding the functions alone: the system's loader already has the library,
//! - the rest until the results of the kernel are on the host.

use std::env;
use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use cuda_driver::prelude::*;
use cuda_sys::{DriverLibrary, FUNCTIONS};

/// The number of processes.
const PROCESSES: usize = 21;
/// The variable that makes a process measure.
const ROLE: &str = "SYMBOLS";
const SOURCE: &str = "
    .version 7.0
    .target sm_52
    .address_size 64
    .visible .entry fill(.param .u64 out) {
        .reg .b64 %out;
        .reg .b32 %at;
        ld.param.u64 %out, [out];
        cvta.to.global.u64 %out, %out;
        mov.u32 %at, 7;
        st.global.u32 [%out], %at;
        ret;
    }";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    if env::var_os(ROLE).is_some() {
        return measure();
    }
    if let Err(error) = DriverLibrary::system() {
        println!("symbols: there is no driver to measure; set CUDA_DRIVER_LIBRARY\n{error}");
        return Ok(());
    }
    let is_test = env::args().any(|argument| argument == "--test");
    let mut rows: [Vec<f64>; 3] = Default::default();
    for _ in 0..if is_test { 1 } else { PROCESSES } {
        let output = Command::new(env::current_exe()?).env(ROLE, "1").output()?;
        let text = String::from_utf8(output.stdout)?;
        let times: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        if times.len() != rows.len() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        rows.iter_mut()
            .zip(times)
            .for_each(|(row, time)| row.push(time));
    }
    println!("{} functions; medians of processes", FUNCTIONS.len());
    let names = [
        "load the library, find the functions",
        "find the functions",
        "the rest, with one kernel",
    ];
    for (name, row) in names.iter().zip(&mut rows) {
        row.sort_by(f64::total_cmp);
        println!("{name:<40} {:>10.1} µs", row[row.len() / 2]);
    }
    Ok(())
}

/// Prints the three times of this process in microseconds.
fn measure() -> Result<()> {
    let start = Instant::now();
    let library = DriverLibrary::system()?;
    let loading = start.elapsed();

    let path = env::var_os("CUDA_DRIVER_LIBRARY").filter(|path| !path.is_empty());
    let path = path.unwrap_or_else(|| OsStr::new("libcuda.so.1").to_owned());
    let start = Instant::now();
    // SAFETY: the file must be a CUDA driver ← it was loaded as one just now.
    let again = unsafe { DriverLibrary::open(path) }?;
    let finding = start.elapsed();

    let start = Instant::now();
    let context = Driver::new(library)?.device(0)?.primary_context()?;
    let stream = context.default_stream()?;
    let module = SafeModule::load(&context, &Ptx::new(SOURCE)?)?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    stream.launch_safe(
        &module.kernel("fill")?,
        LaunchConfig::new(1, 1),
        (&mut out,),
    )?;
    assert_eq!(out.to_vec()?, [7]);
    let rest = start.elapsed();
    assert_eq!(again.version(), context.driver().version());

    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("{} {} {}", micros(loading), micros(finding), micros(rest));
    Ok(())
}
