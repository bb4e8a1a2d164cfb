//! Teaches: kernels that use memory of other devices. Each device has one vector, and afterwards
//! each has the sum of all vectors (an all-reduce along a ring, as collective libraries do it).
//!
//! A vector is a list of chunks, one for each device. In each step, every device reads one chunk of
//! its neighbour. The program states no order: each launch waits for the chunks that it uses, so
//! all devices work at the same time.
//!
//! Prints the number of devices and of verified elements. Uses all GPUs, or four software devices.
//!
//! `cargo run -p examples --example ring_all_reduce`

use cuda_driver::context::DevicePool;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify_equal};

const SOURCE: &str = r#"
extern "C" __global__ void add(unsigned *x, const unsigned *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += y[i];
}
"#;

/// The number of elements of a chunk.
const CHUNK: u32 = 5_000;

fn main() -> Result<()> {
    let session = Session::open()?;
    let driver = if session.is_software() {
        Driver::new(cuda_sim::Builder::new().devices(4).build()?.library()?)?
    } else {
        session.device.driver().clone()
    };
    let pool = DevicePool::new(&driver)?;
    let contexts = pool.contexts();
    let devices = contexts.len();
    println!("ring_all_reduce: {devices} devices");

    let mut streams = Vec::new();
    let mut kernels = Vec::new();
    let mut vectors = Vec::new();
    for (rank, context) in contexts.iter().enumerate() {
        let stream = Stream::new(context, StreamFlags::NON_BLOCKING, 0)?;
        kernels.push(SafeModule::from_source(context, SOURCE)?.kernel("add")?);
        let chunks = (0..devices)
            .map(|chunk| DeviceBuffer::from_host(&stream, &words(rank, chunk)))
            .collect::<Result<Vec<_>, _>>()?;
        vectors.push(chunks);
        streams.push(stream);
    }

    // Each device adds a chunk of its neighbour to its own. Afterwards, device `rank` has the sum
    // of chunk `rank + 1`.
    let config = LaunchConfig::for_num_elems(CHUNK)?;
    for step in 1..devices {
        for rank in 0..devices {
            let chunk = (rank + devices - step) % devices;
            let (own, neighbour) = pair(&mut vectors, rank);
            let y = neighbour[chunk].as_slice().for_peer(&contexts[rank])?;
            let args = (&mut own[chunk], y, CHUNK);
            streams[rank].launch_safe(&kernels[rank], config, args)?;
        }
    }
    // The sums go around the ring.
    for step in 0..devices - 1 {
        for rank in 0..devices {
            let chunk = (rank + devices - step) % devices;
            let (own, neighbour) = pair(&mut vectors, rank);
            let sum = neighbour[chunk].as_slice();
            own[chunk].as_mut_slice().copy_from_peer(sum)?;
        }
    }

    let mut want = vec![0_u32; devices * CHUNK as usize];
    for rank in 0..devices {
        let vector = (0..devices).flat_map(|chunk| words(rank, chunk));
        for (sum, word) in want.iter_mut().zip(vector) {
            *sum = sum.wrapping_add(word);
        }
    }
    for vector in &vectors {
        let chunks: Result<Vec<_>, _> = vector.iter().map(DeviceBuffer::to_vec).collect();
        verify_equal("ring_all_reduce", &chunks?.concat(), &want)?;
    }
    Ok(())
}

/// Returns the first words of one chunk of the vector of one device.
fn words(rank: usize, chunk: usize) -> Vec<u32> {
    let seed = (rank * 31 + chunk) as u32;
    (0..CHUNK).map(|i| i.wrapping_mul(7919) ^ seed).collect()
}

/// Returns the vector of a device and that of its neighbour in the ring. There are two or more.
fn pair<T>(vectors: &mut [T], rank: usize) -> (&mut T, &T) {
    let (before, from) = vectors.split_at_mut(rank);
    let (own, after) = from.split_at_mut(1);
    let neighbour = before.last().or(after.last());
    (&mut own[0], neighbour.expect("two or more devices"))
}
