//! Teaches: addresses in structs. One launch adds up many buffers of different lengths, whose
//! addresses are in an array of structs.
//!
//! Prints the number of verified sums.
//!
//! `cargo run -p examples --example batch`

use cuda_driver::memory::DevicePtr;
use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
struct Row { const float *values; float *sum; unsigned long long len; };

// Each block adds up one row.
extern "C" __global__ void add_up(const Row *rows) {
    __shared__ float total;
    Row row = rows[blockIdx.x];
    if (threadIdx.x == 0) total = 0.0f;
    __syncthreads();
    float part = 0.0f;
    for (unsigned long long i = threadIdx.x; i < row.len; i += blockDim.x) part += row.values[i];
    atomicAdd(&total, part);
    __syncthreads();
    if (threadIdx.x == 0) *row.sum = total;
}
"#;

/// `Row` in the source. A `DevicePtr` is an address with the type of its elements.
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
struct Row {
    values: DevicePtr<f32>,
    sum: DevicePtr<f32>,
    len: u64,
}

fn main() -> Result<()> {
    let session = Session::open()?;
    let stream = &session.stream;
    let add_up = session.load("batch.cu", SOURCE)?.kernel("add_up")?;

    // Small integers, so that every order of additions gives the same sum.
    let count = 50_u32;
    let host: Vec<Vec<f32>> = (0..count)
        .map(|row| (0..100 * row).map(|i| (i % 10) as f32).collect())
        .collect();
    let values = host.iter().map(|row| DeviceBuffer::from_host(stream, row));
    let values: Vec<DeviceBuffer<f32>> = values.collect::<cuda_driver::Result<_>>()?;
    let mut sums = DeviceBuffer::<f32>::zeroed(stream, count as usize)?;

    let rows = values.iter().enumerate().map(|(at, values)| {
        Ok(Row {
            values: values.device_ptr(),
            sum: sums.slice(at..)?.device_ptr(),
            len: values.len() as u64,
        })
    });
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    let rows = DeviceBuffer::from_host(stream, &rows)?;

    // A launch cannot see which addresses a struct contains. `uses` names the memory, so that the
    // kernel may access it, and the launch is ordered with its other uses.
    let mut args = ArgList::new();
    args.push(&rows).uses(&mut sums);
    for buffer in &values {
        args.uses(buffer);
    }
    // The addresses are in memory, so the accesses to them cannot be proven. Each is checked when
    // the kernel runs: it must be in one of the buffers above, or `wait` returns an error.
    let launch = stream.launch_safe(&add_up, LaunchConfig::new(count, 128), &args)?;
    launch.wait()?;
    drop(args);

    let want: Vec<f32> = host.iter().map(|row| row.iter().sum()).collect();
    verify("batch", &sums.to_vec()?, &want, 0.0)
}
