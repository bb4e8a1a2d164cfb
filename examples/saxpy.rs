//! Teaches: compiling CUDA C++ at run time with NVRTC, for the device of this machine.
//!
//! Prints the number of verified elements.
//!
//! `cargo run -p examples --example saxpy`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
extern "C" __global__ void saxpy(float a, const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let saxpy = SafeModule::from_source(&session.context, SOURCE)?.kernel("saxpy")?;

    let n = 1_000_000;
    let a = 2.5_f32;
    let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
    let y: Vec<f32> = (0..n).map(|i| (i % 77) as f32).collect();

    let stream = &session.stream;
    let x_device = DeviceBuffer::from_host(stream, &x)?;
    let mut y_device = DeviceBuffer::from_host(stream, &y)?;
    let config = LaunchConfig::for_num_elems(n)?;
    // This is not `unsafe`: an analysis of the kernel proves that it accesses only these buffers.
    stream.launch_safe(&saxpy, config, (a, &x_device, &mut y_device, n))?;

    // The compiler fuses the multiplication and the addition, so there is one rounding, as with
    // `mul_add`.
    let reference: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a.mul_add(*x, *y)).collect();
    verify("saxpy", &y_device.to_vec()?, &reference, 0.0)
}
