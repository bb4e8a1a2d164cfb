//! Teaches: several devices. Each adds a part of the numbers, and the partial sums are copied
//! between devices. With one device, all parts are computed there.
//!
//! Prints the part of each device, and that the sum is verified.
//!
//! `cargo run -p examples --example multi_device`, or on a software driver with four devices:
//! `CUDA_SIM=devices=4 cargo run -p examples --example multi_device`

use cuda_driver::context::DevicePool;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
// Adds n words to `sum`.
extern "C" __global__ void add_up(const unsigned *words, unsigned long long *sum, unsigned n) {
    unsigned long long part = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        part += words[i];
    for (int half = 16; half > 0; half /= 2) part += __shfl_down_sync(~0u, part, half);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, part);
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let pool = DevicePool::new(session.device.driver())?;
    let words: Vec<u32> = (0..1_000_000_u32).map(|i| i.wrapping_mul(7919)).collect();

    // One thread for each device compiles the kernel, copies a part of the words, and launches. No
    // thread waits for its device.
    let sums = pool.divide(&words, |context, part| -> cuda_driver::Result<_> {
        let add_up = SafeModule::from_source(context, SOURCE)?.kernel("add_up")?;
        let stream = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
        let words = DeviceBuffer::from_host(&stream, part)?;
        let mut sum = DeviceBuffer::<u64>::zeroed(&stream, 1)?;
        let args = (&words, &mut sum, part.len() as u32);
        stream.launch_safe(&add_up, LaunchConfig::new(64, 256), args)?;
        let device = context.device();
        println!(
            "multi_device: {} words on device {}",
            part.len(),
            device.ordinal()
        );
        Ok(sum)
    })?;

    // Device 0 collects the sums. The copies wait for the kernels; the devices need no access to
    // each other's memory, because the driver copies through the host where they have none.
    let stream = Stream::new(&pool.contexts()[0], StreamFlags::NON_BLOCKING, 0)?;
    let mut collected = DeviceBuffer::<u64>::zeroed(&stream, sums.len())?;
    for (mut target, sum) in collected.chunks_mut(1)?.zip(&sums) {
        target.copy_from_peer(sum)?;
    }
    let got: u64 = collected.to_vec()?.iter().sum();
    let want: u64 = words.iter().map(|word| u64::from(*word)).sum();
    verify_equal("multi_device", &[got], &[want])
}
