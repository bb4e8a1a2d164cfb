//! Teaches: failures: what each kind looks like, and how a program continues.
//!
//! Prints the text of each error, and what was done about it. The last one, an invalid access of a
//! kernel, makes the device unusable for the process. On a GPU it is shown only on request.
//!
//! `cargo run -p examples --example errors`, or with the last error on a GPU:
//! `cargo run -p examples --example errors -- fault`

use cuda_driver::error::Error;
use cuda_driver::nvrtc::CompileError;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
extern "C" __global__ void count(unsigned *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}
"#;

fn main() -> Result<()> {
    // No driver, or no GPU: `Session::open` continues with the software device, and says why.
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);

    // A mistake in the source: the diagnostics are those of the compiler, with lines.
    match Module::from_source(context, SOURCE.replace("x[i] = i;", "x[i] = j;")) {
        Err(CompileError::Nvrtc(cuda_nvrtc::Error::Compile(error))) => {
            println!("errors: {error}");
            if let Some(line) = error.errors().find_map(|it| it.line) {
                println!("errors: an editor would jump to line {line}");
            }
        }
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("a wrong program was compiled".into()),
    }
    let module = SafeModule::from_source(context, SOURCE)?;

    // A kernel that does not exist: the error lists those that do.
    let kernel = match module.kernel("cuont") {
        Err(error @ Error::NoSuchFunction { .. }) => {
            println!("errors: {error}");
            module.kernel("count")?
        }
        other => other?,
    };

    // Wrong arguments: nothing is launched.
    let n = 1000_u32;
    let mut x = DeviceBuffer::<u32>::zeroed(stream, n as usize)?;
    let config = LaunchConfig::for_num_elems(n)?;
    let launch = stream.launch_safe(&kernel, config, (&mut x,));
    expect("a missing argument", launch)?;
    let launch = stream.launch_safe(&kernel, config, (&mut x, u64::from(n)));
    expect("a wrong type", launch)?;

    // A block that is too large: the program launches smaller blocks.
    let large = LaunchConfig::new(1, n.next_multiple_of(4096));
    let launch = match stream.launch_safe(&kernel, large, (&mut x, n)) {
        Err(error @ Error::LaunchConfig(_)) => {
            println!("errors: {error}");
            stream.launch_safe(&kernel, config, (&mut x, n))?
        }
        other => other?,
    };
    launch.wait()?;
    verify_equal("errors", &x.to_vec()?, &(0..n).collect::<Vec<_>>())?;

    // A kernel that leaves its buffer: a checked copy of it runs, which does not write there.
    let launch = stream.launch_safe(&kernel, config, (&mut x, n + 1))?;
    expect("a write behind the buffer", launch.wait())?;

    // Copies between different lengths: nothing is copied.
    expect("a copy of another length", x.copy_from_host(&[1, 2, 3]))?;

    // Too little memory: the program continues with smaller batches.
    match DeviceBuffer::<u8>::zeroed(stream, 2 * session.device.total_memory()?) {
        Err(error @ Error::OutOfMemory { .. }) => {
            println!("errors: {error}");
            let (free, _) = context.memory_info()?;
            let batch = free.min(1 << 20);
            let buffer = DeviceBuffer::<u8>::zeroed(stream, batch)?;
            println!("errors: continues with batches of {} bytes", buffer.len());
        }
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("the device has more memory than it reports".into()),
    }

    if session.is_software() || std::env::args().nth(1).as_deref() == Some("fault") {
        fault(stream, kernel.function(), config)?;
    }
    Ok(())
}

/// Prints the error of a call that has to fail.
fn expect<T>(what: &str, result: cuda_driver::Result<T>) -> Result<()> {
    match result {
        Err(error) => println!("errors: {error}"),
        Ok(_) => return Err(format!("{what} was accepted").into()),
    }
    Ok(())
}

/// Lets a kernel write to address 0. A launch only queues, so a later call returns the error; it
/// names the launches that may have caused it.
fn fault(stream: &Stream, kernel: &Function, config: LaunchConfig) -> Result<()> {
    // A safe launch would not make this access, and report it.
    // SAFETY: the kernel writes to an address that is never mapped, so it changes no memory.
    unsafe { stream.launch(kernel, config, (0_u64, 1000_u32)) }?;
    let Err(error) = stream.synchronize() else {
        return Err("the invalid access was not reported".into());
    };
    println!("errors: {error}");
    let loss = error
        .loss()
        .ok_or("the error does not report the loss of the device")?;
    println!(
        "errors: device {} is lost: a new process has to be started",
        loss.device()
    );
    for launches in loss.launches() {
        println!(
            "errors: in flight: {}",
            launches.kernels().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}
