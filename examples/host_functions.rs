//! Teaches: host functions: closures that a stream calls between its kernels. This one reports
//! progress while the host waits elsewhere.
//!
//! Prints a line for each completed step, the error of a closure that panics, and the number of
//! verified elements.
//!
//! `cargo run -p examples --example host_functions`

use std::sync::mpsc;

use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
extern "C" __global__ void triple(unsigned *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 3;
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let stream = &session.stream;
    let triple = SafeModule::from_source(&session.context, SOURCE)?.kernel("triple")?;

    let n = 10_000_u32;
    let mut x = DeviceBuffer::filled(stream, n as usize, 1_u32)?;
    let (done, steps) = mpsc::channel();
    for step in 1..=4 {
        stream.launch_safe(&triple, LaunchConfig::for_num_elems(n)?, (&mut x, n))?;
        // A thread of the driver calls the closure, which must not use CUDA itself.
        let done = done.clone();
        stream.launch_host(move || {
            // The receiver outlives the stream's work.
            let _ = done.send(step);
        })?;
    }
    drop(done);
    // Ends when the last closure has been called and dropped.
    let order: Vec<u32> = steps
        .iter()
        .inspect(|step| println!("host_functions: step {step} is complete"))
        .collect();
    verify_equal("host_functions, order", &order, &[1, 2, 3, 4])?;

    // A panic does not cross into the driver. It becomes an error of the call.
    std::panic::set_hook(Box::new(|_| {}));
    let call = stream.launch_host(|| panic!("the disk is full"))?;
    let result = call.wait();
    drop(std::panic::take_hook());
    match result {
        Ok(()) => return Err("the panic was not reported".into()),
        Err(error) => println!("host_functions: {error}"),
    }
    verify_equal("host_functions", &x.to_vec()?, &vec![81; n as usize])
}
