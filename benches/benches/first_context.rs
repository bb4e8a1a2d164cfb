//! The time until the first context exists, through the safe layer and by raw calls; and the time
//! to find a context that exists.
//!
//! A process has one first context, so each measurement of it runs in its own process, in turn.
//! Runs on the null driver, on the software device, and on a GPU if there is one. On a GPU, both
//! ways begin with loading the driver's library.

use std::env;
use std::hint::black_box;
use std::process::Command;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use benches::null_driver;
use cuda_driver::Driver;
use cuda_sim::Builder;
use cuda_sys::DriverLibrary;

/// The number of processes for each of the two.
const PROCESSES: usize = 15;
/// How often the context that exists is looked up.
const LOOKUPS: u32 = 1_000_000;
/// The variable that makes a process measure one way on one driver, such as `raw GPU`.
const ROLE: &str = "FIRST_CONTEXT";

/// How long a process takes until it has a context.
struct Times {
    /// The time to load the driver's library and to find its functions; 0 if it is not a file.
    loading: Duration,
    /// The time of `cuInit` and of the context.
    context: Duration,
}

const DRIVERS: [&str; 3] = ["null driver", "software device", "GPU"];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let is_test = env::args().any(|argument| argument == "--test");
    match env::var(ROLE) {
        Ok(role) => {
            let (way, name) = role.split_once(' ').ok_or("the role has two parts")?;
            let Times { loading, context } = if way == "raw" {
                raw(name)?
            } else {
                safe(name)?.0
            };
            println!("{} {}", loading.as_nanos(), context.as_nanos());
            Ok(())
        }
        Err(_) => DRIVERS.iter().try_for_each(|name| {
            let sizes = if is_test {
                (1, 1000)
            } else {
                (PROCESSES, LOOKUPS)
            };
            compare(name, sizes)
        }),
    }
}

/// Returns the null driver or a software device.
fn library(name: &str) -> Result<DriverLibrary> {
    Ok(match name {
        "null driver" => null_driver()?,
        _ => Builder::new().build()?.library()?,
    })
}

/// `cuInit` and the primary context, by raw calls.
fn raw(name: &str) -> Result<Times> {
    if name == "GPU" {
        return raw_gpu();
    }
    let library = library(name)?;
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
    Ok(Times {
        loading: Duration::ZERO,
        context: elapsed,
    })
}

/// Does the work of a C program: loads the library, finds three functions and calls them.
#[cfg(target_os = "linux")]
fn raw_gpu() -> Result<Times> {
    use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
    use std::mem::transmute;

    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    type Init = unsafe extern "C" fn(c_uint) -> c_int;
    type Get = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
    /// `RTLD_NOW`
    const NOW: c_int = 2;

    let start = Instant::now();
    // SAFETY: the name ends with NUL, and the driver may be loaded at any time.
    let library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), NOW) };
    if library.is_null() {
        return Err("libcuda.so.1 cannot be loaded".into());
    }
    let find = |name: &CStr| {
        // SAFETY: the library is loaded, and the name ends with NUL.
        let found = unsafe { dlsym(library, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    };
    // SAFETY: the function has this signature.
    let init = unsafe { transmute::<*mut c_void, Init>(find(c"cuInit")) };
    // SAFETY: as above.
    let get = unsafe { transmute::<*mut c_void, Get>(find(c"cuDeviceGet")) };
    // SAFETY: as above.
    let retain = unsafe { transmute::<*mut c_void, Retain>(find(c"cuDevicePrimaryCtxRetain")) };
    let loading = start.elapsed();
    let start = Instant::now();
    let (mut device, mut context) = (0, ptr::null_mut());
    // SAFETY: the flags must be 0.
    let initialized = unsafe { init(0) };
    if initialized != 0 {
        return Err(format!("cuInit returns {initialized}").into());
    }
    // SAFETY: the pointer is to a local.
    let found = unsafe { get(&raw mut device, 0) };
    // SAFETY: as above.
    let retained = unsafe { retain(&raw mut context, device) };
    let context = start.elapsed();
    assert_eq!((found, retained), (0, 0));
    Ok(Times { loading, context })
}

#[cfg(not(target_os = "linux"))]
fn raw_gpu() -> Result<Times> {
    Err("the raw calls on a GPU are measured only on Linux".into())
}

/// Does the same work through the safe layer.
fn safe(name: &str) -> Result<(Times, Driver)> {
    let (loading, library) = if name == "GPU" {
        let start = Instant::now();
        let library = DriverLibrary::system()?;
        (start.elapsed(), library)
    } else {
        (Duration::ZERO, Arc::new(library(name)?))
    };
    let start = Instant::now();
    let driver = Driver::new(library)?;
    let first = driver.device(0)?.primary_context()?;
    let context = start.elapsed();
    drop(first);
    Ok((Times { loading, context }, driver))
}

fn compare(name: &str, (processes, lookups): (usize, u32)) -> Result<()> {
    println!("\n{name}");
    let program = env::current_exe()?;
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..processes {
        for (at, way) in ["raw", "safe"].iter().enumerate() {
            let output = Command::new(&program)
                .env(ROLE, format!("{way} {name}"))
                .output()?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr);
                println!("skipped: {}", why.lines().next().unwrap_or_default());
                return Ok(());
            }
            let text = String::from_utf8(output.stdout)?;
            for (part, nanoseconds) in text.split_whitespace().enumerate() {
                times[2 * part + at].push(Duration::from_nanos(nanoseconds.parse()?));
            }
        }
    }
    let [raw_loading, safe_loading, raw, safe] = times.map(|mut times| {
        times.sort();
        times[processes / 2]
    });
    println!("medians of {processes} processes");
    println!("loading the library: raw calls {raw_loading:?}, safe layer {safe_loading:?}");
    let more = safe.saturating_sub(raw);
    let is_kept = more <= Duration::from_millis(2) || more * 100 <= raw;
    println!(
        "cuInit and context: raw calls {raw:?}, safe layer {safe:?}; {more:?} more, bar of 1 % or \
         2 ms {}",
        if is_kept { "kept" } else { "MISSED" }
    );

    let (_, driver) = self::safe(name)?;
    let device = driver.device(0)?;
    let context = device.primary_context()?;
    // The median of parts, so that an interruption counts in one part only.
    let mut parts: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..lookups / 20 {
                drop(black_box(device.primary_context()));
            }
            start.elapsed() / (lookups / 20)
        })
        .collect();
    parts.sort();
    let time = parts[10];
    println!(
        "a context that exists: {time:?}, bar of 100 ns {}",
        if time.as_nanos() <= 100 {
            "kept"
        } else {
            "MISSED"
        }
    );
    drop(context);
    Ok(())
}
