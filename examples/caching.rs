//! Teaches: caching compiled kernels on disk, so that only the first run of a program compiles.
//!
//! `SafeModule::from_source` uses the cache of the user by itself. This program has a cache of its
//! own, in a temporary folder.
//!
//! Prints the time of each way to load a kernel, the statistics of the cache, and the number of
//! verified elements.
//!
//! `cargo run -p examples --example caching`

use std::time::Instant;

use cuda_driver::nvrtc::{Cache, Options, Source};
use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
extern "C" __global__ void fill(unsigned *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i * STRIDE;
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let folder = tempfile::tempdir()?;
    let cache = Cache::open(folder.path());
    if let Some(problem) = cache.problem() {
        return Err(format!("the cache cannot be used: {problem}").into());
    }

    // The second constant is another program. The last line finds the first one again.
    for (stride, is_known) in [(3_u32, false), (5, false), (3, true)] {
        let start = Instant::now();
        let options = Options::new().define("STRIDE", stride.to_string());
        let before = cache.stats();
        let source = Source::new(SOURCE).name("fill.cu").options(options);
        let module = SafeModule::from_source(context, source.cache(&cache))?;
        let was_found = cache.stats().misses == before.misses;
        let how = if was_found { "found" } else { "compiled" };
        println!("caching: STRIDE={stride}: {how} in {:?}", start.elapsed());
        if was_found != is_known {
            return Err(format!("STRIDE={stride} was {how}").into());
        }

        let n = 1000_u32;
        let mut x = DeviceBuffer::<u32>::zeroed(stream, n as usize)?;
        let fill = module.kernel("fill")?;
        stream.launch_safe(&fill, LaunchConfig::for_num_elems(n)?, (&mut x, n))?;
        let want: Vec<u32> = (0..n).map(|i| i * stride).collect();
        verify_equal("caching", &x.to_vec()?, &want)?;
    }

    let stats = cache.stats();
    println!(
        "caching: {} entries of {} bytes in all",
        stats.entries, stats.bytes
    );
    Ok(())
}
