//! Teaches: streams. Work on different streams may run at the same time; uses of the same buffer
//! are ordered.
//!
//! Prints the time of 8 small kernels on one stream and on 8 streams, and the number of verified
//! elements.
//!
//! `cargo run -p examples --example streams`

use std::time::Instant;

use cuda_driver::prelude::*;
use cuda_driver::stream::StreamPool;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
// One block, so that a launch uses a small part of the device.
extern "C" __global__ void iterate(float *x, unsigned steps) {
    float value = x[threadIdx.x];
    for (unsigned i = 0; i < steps; i++) value = fmaf(value, 0.5f, 1.0f);
    x[threadIdx.x] = value;
}

extern "C" __global__ void add(float *sum, const float *x) { sum[threadIdx.x] += x[threadIdx.x]; }
"#;
const WIDTH: u32 = 256;
const JOBS: usize = 8;

fn main() -> Result<()> {
    let session = Session::open()?;
    let context = &session.context;
    let module = SafeModule::from_source(context, SOURCE)?;
    let (iterate, add) = (module.kernel("iterate")?, module.kernel("add")?);
    let steps: u32 = if session.is_software() {
        1000
    } else {
        1_000_000
    };
    let config = LaunchConfig::new(1, WIDTH);

    let pool = StreamPool::new(context, JOBS, 0)?;
    let last = &pool.streams()[JOBS - 1];
    let mut results = Vec::new();
    for (name, count) in [("one stream", 1), ("8 streams", JOBS)] {
        let streams = &pool.streams()[..count];
        let start = Instant::now();
        let mut parts = Vec::new();
        for job in 0..JOBS {
            let stream = &streams[job % count];
            let mut part = DeviceBuffer::filled(stream, WIDTH as usize, job as f32)?;
            stream.launch_safe(&iterate, config, (&mut part, steps))?;
            parts.push(part);
        }
        // Each addition waits for the stream that writes its part. No call here says so.
        let mut sum = DeviceBuffer::<f32>::zeroed(last, WIDTH as usize)?;
        for part in &parts {
            last.launch_safe(&add, config, (&mut sum, part))?;
        }
        results.push(sum.to_vec()?);
        println!("streams: {:?} on {name}", start.elapsed());
    }

    // Events order work that shares no memory: the second stream waits for the first.
    let [first, second, ..] = pool.streams() else {
        return Err("the pool has fewer than two streams".into());
    };
    let event = Event::new(context, EventFlags::DISABLE_TIMING)?;
    event.record(first)?;
    second.wait(&event)?;
    pool.synchronize()?;

    let mut want = 0.0;
    for job in 0..JOBS {
        // The value converges to 2, so a few of the steps are enough.
        want += (0..steps.min(1000)).fold(job as f32, |value, _| value.mul_add(0.5, 1.0));
    }
    let want = vec![want; WIDTH as usize];
    verify("streams, one", &results[0], &want, 1e-6)?;
    verify("streams, 8", &results[1], &want, 1e-6)
}
