//! Teaches: clusters, whose blocks can read and write each other's shared memory (compute
//! capability 9.0 and later).
//!
//! Prints the number of verified counters, or that the device has no clusters.
//!
//! `cargo run -p examples --example clusters`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define BINS 64

// Counts values below 4 * BINS. Each block of a cluster holds a quarter of the counters, and all
// blocks count in all of them.
extern "C" __global__ void histogram(const unsigned *values, unsigned *counts, unsigned n) {
    __shared__ unsigned bins[BINS];
    cg::cluster_group cluster = cg::this_cluster();
    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x) bins[i] = 0;
    cluster.sync();
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned i = first; i < n; i += gridDim.x * blockDim.x) {
        unsigned *other = cluster.map_shared_rank(bins, values[i] / BINS);
        atomicAdd(other + values[i] % BINS, 1);
    }
    cluster.sync();
    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
        atomicAdd(counts + cluster.block_rank() * BINS + i, bins[i]);
}
"#;
const BINS: u32 = 64;
/// The number of blocks in a cluster.
const CLUSTER: u32 = 4;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (device, stream) = (&session.device, &session.stream);
    let capability = device.compute_capability()?;
    if capability.major < 9 {
        println!(
            "clusters: {} has compute capability {capability}, and no clusters",
            device.name()?
        );
        return Ok(());
    }
    let histogram = Module::from_source(&session.context, SOURCE)?.function("histogram")?;

    let n = 100_000_u32;
    let values: Vec<u32> = (0..n)
        .map(|i| i.wrapping_mul(2_654_435_761) >> 24)
        .collect();
    let device_values = DeviceBuffer::from_host(stream, &values)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(stream, (CLUSTER * BINS) as usize)?;
    let config = LaunchConfig::new(4 * CLUSTER, 128);
    let attributes = LaunchAttributes::new().cluster(CLUSTER);
    let args = (&device_values, &mut counts, n);
    // A safe launch refuses accesses to the shared memory of other blocks.
    // SAFETY: the kernel reads n values, each below 256, and adds to the 256 counters.
    unsafe { stream.launch_with(&histogram, config, &attributes, args)? };

    let mut want = vec![0_u32; (CLUSTER * BINS) as usize];
    for value in values {
        want[value as usize] += 1;
    }
    verify_equal("clusters", &counts.to_vec()?, &want)
}
