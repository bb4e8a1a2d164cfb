//! Teaches: more than 48 KiB of shared memory for a block, which C requires a separate call for.
//!
//! Prints how much shared memory a block can have, and the number of verified elements.
//!
//! `cargo run -p examples --example shared_memory`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
// Sorts n words in the shared memory of one block (a bitonic sort; n is a power of two).
extern "C" __global__ void sort(unsigned *words, unsigned n) {
    extern __shared__ unsigned shared[];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) shared[i] = words[i];
    for (unsigned run = 2; run <= n; run *= 2) {
        for (unsigned step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
                unsigned other = i ^ step;
                // One thread of each pair compares and swaps.
                if (other < i) continue;
                unsigned a = shared[i], b = shared[other];
                if ((a > b) == ((i & run) == 0)) {
                    shared[i] = b;
                    shared[other] = a;
                }
            }
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) words[i] = shared[i];
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (device, stream) = (&session.device, &session.stream);
    let sort = SafeModule::from_source(&session.context, SOURCE)?.kernel("sort")?;

    let n = 16_384_u32;
    let bytes = 4 * n;
    let limit = device.max_shared_memory_per_block_optin()?;
    println!(
        "shared_memory: {bytes} bytes; a block has {} bytes, or {limit} on request",
        device.max_shared_memory_per_block()?
    );
    let words: Vec<u32> = (0..n).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let mut on_device = DeviceBuffer::from_host(stream, &words)?;
    // The launch raises the limit of the kernel to what the configuration asks for.
    let config = LaunchConfig::new(1, 1024).with_shared_bytes(bytes);
    stream.launch_safe(&sort, config, (&mut on_device, n))?;

    let mut want = words;
    want.sort_unstable();
    verify_equal("shared_memory", &on_device.to_vec()?, &want)?;

    // More than the device has is an error that names the limit.
    let too_much = config.with_shared_bytes(limit + 1024);
    match stream.launch_safe(&sort, too_much, (&mut on_device, n)) {
        Ok(_) => Err("a launch with too much shared memory was accepted".into()),
        Err(error) => {
            println!("shared_memory: {error}");
            Ok(())
        }
    }
}
