//! Teaches: the shortest complete program: load PTX, copy in, launch, copy out. It needs no
//! compiler.
//!
//! Prints the number of verified elements.
//!
//! `cargo run -p examples --example vector_add`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const PTX: &str = include_str!("kernels/vector_add.ptx");

fn main() -> Result<()> {
    let Session {
        context, stream, ..
    } = Session::open()?;
    let vector_add = SafeModule::load(&context, &Ptx::new(PTX)?)?.kernel("vector_add")?;

    let n = 1_000_000;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();

    let a_device = DeviceBuffer::from_host(&stream, &a)?;
    let b_device = DeviceBuffer::from_host(&stream, &b)?;
    let mut c_device = DeviceBuffer::<f32>::zeroed(&stream, n as usize)?;

    let config = LaunchConfig::for_num_elems(n)?;
    let args = (&a_device, &b_device, &mut c_device, n);
    stream.launch_safe(&vector_add, config, args)?;

    let c = c_device.to_vec()?;
    let reference: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    verify("vector_add", &c, &reference, 0.0)
}
