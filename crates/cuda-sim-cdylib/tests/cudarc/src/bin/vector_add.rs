//! Adds two vectors on the device and compares the sum with that of the host. The argument is the
//! file with the PTX.

use std::error::Error;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

const COUNT: u16 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("the argument is missing")?;
    let stream = CudaContext::new(0)?.default_stream();
    let module = stream.context().load_module(Ptx::from_file(path))?;
    let add = module.load_function("add")?;

    let a: Vec<f32> = (0..COUNT).map(f32::from).collect();
    let b: Vec<f32> = a.iter().map(|number| 2.0 * number).collect();
    let (on_device_a, on_device_b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let mut sum = stream.alloc_zeros::<f32>(a.len())?;
    let count = u64::from(COUNT);
    let mut launch = stream.launch_builder(&add);
    launch.arg(&on_device_a).arg(&on_device_b).arg(&mut sum);
    launch.arg(&count);
    // SAFETY: the kernel takes these arguments, and the arrays have `count` elements.
    unsafe { launch.launch(LaunchConfig::for_num_elems(COUNT.into())) }?;

    for (sum, number) in stream.clone_dtoh(&sum)?.into_iter().zip(a) {
        assert_eq!(sum, 3.0 * number);
    }
    println!("the sum of {COUNT} pairs is right");
    Ok(())
}
