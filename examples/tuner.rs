//! Teaches: choosing a block size: from the occupancy that the driver computes, and by measuring
//! every candidate.
//!
//! Prints the suggestion, the occupancy and the time of each block size and unrolling, and the
//! number of verified elements.
//!
//! `cargo run -p examples --example tuner`

use cuda_driver::nvrtc::Tuner;
use cuda_driver::prelude::*;
use cuda_nvrtc::{Nvrtc, Options, Program};
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
#ifndef UNROLL
#define UNROLL 1
#endif
// Each thread scales UNROLL elements.
extern "C" __global__ void scale(const float *in, float *out, float a, unsigned n) {
    unsigned first = blockIdx.x * blockDim.x * UNROLL + threadIdx.x;
    for (unsigned k = 0; k < UNROLL; k++) {
        unsigned i = first + k * blockDim.x;
        if (i < n) out[i] = a * in[i];
    }
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);

    // The driver suggests a block size from the registers and the shared memory of the kernel.
    let scale = Module::from_source(context, SOURCE)?.function("scale")?;
    let suggested = scale.max_potential_block_size(|_threads| 0, 0)?;
    println!(
        "tuner: {} threads in at least {} blocks are suggested",
        suggested.block, suggested.min_grid
    );
    let limit = session.device.max_threads_per_multiprocessor()?;
    for threads in [64, 256, 1024] {
        let blocks = scale.max_active_blocks(threads, 0)?;
        let percent = 100 * blocks * threads / limit;
        println!("tuner: {blocks} blocks of {threads} threads: {percent} % occupancy");
    }

    // Occupancy does not predict time, so measure: 3 block sizes, each with 2 constants.
    let n: u32 = if session.is_software() {
        20_000
    } else {
        1 << 24
    };
    let numbers: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
    let input = DeviceBuffer::from_host(stream, &numbers)?;
    let mut output = DeviceBuffer::<f32>::zeroed(stream, n as usize)?;
    let nvrtc = Nvrtc::load()?;
    let program = Program::new(&nvrtc, SOURCE).name("scale.cu");
    let tuning = Tuner::new(&program, "scale")
        .blocks([64, 256, 1024])
        .define("UNROLL", ["1", "4"])
        .samples(if session.is_software() { 1 } else { 20 })
        .tune(stream, &Options::new(), |candidate, kernel| {
            let unroll = if candidate.define("UNROLL") == Some("4") {
                4
            } else {
                1
            };
            let blocks = n.div_ceil(candidate.block * unroll);
            let config = LaunchConfig::new(blocks, candidate.block);
            // The tuner passes a `Function`, whose launches are `unsafe`.
            // SAFETY: with each constant the kernel reads n floats of `input` and writes n of
            // `output`.
            unsafe { stream.launch(kernel, config, (&input, &mut output, 2.5_f32, n)) }
        })?;
    println!("{tuning}");
    if let Some(best) = tuning.best() {
        println!("tuner: the fastest is {best}");
    }

    // The last candidate has written all elements, and so has every other one.
    let want: Vec<f32> = numbers.iter().map(|number| 2.5 * number).collect();
    verify("tuner", &output.to_vec()?, &want, 0.0)
}
