//! Stores one element past the end of a buffer. The argument is the file with the PTX, which has
//! the source lines of a compiler.

use std::error::Error;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("the argument is missing")?;
    let stream = CudaContext::new(0)?.default_stream();
    let module = stream.context().load_module(Ptx::from_file(path))?;
    let fill = module.load_function("fill")?;
    // The buffer has 32 elements, and 33 threads write.
    let mut buffer = stream.alloc_zeros::<u32>(32)?;
    let config = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (33, 1, 1),
        shared_mem_bytes: 0,
    };
    let mut launch = stream.launch_builder(&fill);
    launch.arg(&mut buffer);
    // SAFETY: this is the mistake that the device reports.
    unsafe { launch.launch(config) }?;
    stream.synchronize()?;
    Ok(())
}
