//! Teaches: what to learn from a failure: advice, the log of the driver, the history of errors, who
//! holds memory, and core dumps.
//!
//! Prints each of them. The last part, an invalid access of a kernel, makes the device unusable for
//! the process. On a GPU it is shown only on request, and writes a core dump for cuda-gdb.
//!
//! `cargo run -p examples --example post_mortem`, or with the fault on a GPU:
//! `cargo run -p examples --example post_mortem -- fault`

use cuda_driver::diagnostics::{CoreDumpFlags, CoreDumps};
use cuda_driver::error::HistoryOptions;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
extern "C" __global__ void count(unsigned *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let driver = context.driver();
    // From now on, the driver's errors are kept, and the places that hold memory.
    driver.record_errors(HistoryOptions::new().capacity(16).backtraces(true));
    context.track_memory(true);

    let module = session.load("count.cu", SOURCE)?;
    let kernel = module.kernel("count")?;
    let n = 1000_u32;
    let mut x = DeviceBuffer::<u32>::zeroed(stream, n as usize)?;
    let config = LaunchConfig::for_num_elems(n)?;
    stream.launch_safe(&kernel, config, (&mut x, n))?;
    verify_equal("post_mortem", &x.to_vec()?, &(0..n).collect::<Vec<_>>())?;

    // An error with advice, and with what the driver wrote to its log.
    let too_large = 2 * session.device.total_memory()?;
    match driver.explain(|| DeviceBuffer::<u8>::zeroed(stream, too_large)) {
        Err(error) => {
            println!("post_mortem: {error}");
            println!("post_mortem: the category is {}", error.error().category());
        }
        Ok(_) => return Err("the device has more memory than it reports".into()),
    }

    // Who holds memory, and what the device is doing.
    let report = context.memory_report();
    println!("post_mortem: {report}");
    if report.live() != x.len() * size_of::<u32>() {
        return Err("the report lists other memory than that of x".into());
    }
    println!("{}", context.snapshot()?);

    if session.is_software() || std::env::args().nth(1).as_deref() == Some("fault") {
        fault(&session, kernel.function(), config)?;
    }
    for error in driver.error_history().errors() {
        let has_backtrace = error.backtrace().is_some();
        println!(
            "post_mortem: {}; with a backtrace: {has_backtrace}",
            error.error()
        );
    }
    Ok(())
}

/// Lets a kernel write to address 0. A later call returns the error, which names the launch. On a
/// GPU, a core dump is written.
fn fault(session: &Session, kernel: &Function, config: LaunchConfig) -> Result<()> {
    let flags = CoreDumpFlags::LIGHTWEIGHT | CoreDumpFlags::SKIP_ABORT;
    let file = std::env::temp_dir().join("post_mortem.%p.cucore");
    match session
        .context
        .set_core_dumps(&CoreDumps::to(&file).flags(flags))
    {
        Ok(()) => println!("post_mortem: a fault writes {}", file.display()),
        Err(error) => println!("post_mortem: no core dump: {error}"),
    }
    // A safe launch would not make this access, and report it.
    // SAFETY: the kernel writes to an address that is never mapped, so it changes no memory.
    unsafe { session.stream.launch(kernel, config, (0_u64, 1000_u32)) }?;
    let Err(error) = session.stream.synchronize() else {
        return Err("the invalid access was not reported".into());
    };
    println!("post_mortem: {error}");
    println!("post_mortem: advice: {}", error.advice().unwrap_or("none"));
    if !error.is_sticky() {
        return Err("the error does not say that the device is lost".into());
    }
    Ok(())
}
