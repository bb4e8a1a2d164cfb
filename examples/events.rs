//! Teaches: events: timing work on the device without its waiting for the host, and waiting for a
//! part of the work of a stream.
//!
//! Prints the time and the rate of a copy to the device, of a kernel, and of a copy to the host,
//! and the number of verified elements.
//!
//! `cargo run -p examples --example events`

use cuda_driver::prelude::*;
use examples::{Result, Session, verify};

const SOURCE: &str = r#"
extern "C" __global__ void roots(const float *in, float *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sqrtf(in[i]);
}
"#;

fn main() -> Result<()> {
    let session = Session::open()?;
    let (context, stream) = (&session.context, &session.stream);
    let roots = SafeModule::from_source(context, SOURCE)?.kernel("roots")?;

    let n: u32 = if session.is_software() {
        200_000
    } else {
        1 << 24
    };
    let numbers: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let flags = PinnedFlags::DEFAULT;
    let source = PinnedBuffer::from_host(context, &numbers, flags)?;
    let target = PinnedBuffer::<f32>::zeroed(context, n as usize, flags)?;
    let mut input = DeviceBuffer::<f32>::zeroed(stream, n as usize)?;
    let mut output = DeviceBuffer::<f32>::zeroed(stream, n as usize)?;

    // Each event is recorded when the stream reaches it. The host waits for none of them.
    let start = stream.record_event()?;
    let sending = input.copy_from_pinned_async(source, stream)?;
    let sent = stream.record_event()?;
    let config = LaunchConfig::for_num_elems(n)?;
    stream.launch_safe(&roots, config, (&input, &mut output, n))?;
    let computed = stream.record_event()?;
    let receiving = output.copy_to_pinned_async(target, stream)?;
    let received = stream.record_event()?;

    // Waits for the first copy only.
    sent.synchronize()?;
    println!("events: the source may be reused: {}", sending.is_done()?);
    received.synchronize()?;
    let rate = |bytes: u32, time: std::time::Duration| {
        let rate = f64::from(bytes) / time.as_secs_f64() / 1e9;
        format!("{time:?}, {rate:.2} GB/s")
    };
    println!(
        "events: copy to the device: {}",
        rate(4 * n, sent.elapsed_since(&start)?)
    );
    println!(
        "events: kernel: {}",
        rate(8 * n, computed.elapsed_since(&sent)?)
    );
    println!(
        "events: copy to the host: {}",
        rate(4 * n, received.elapsed_since(&computed)?)
    );

    let want: Vec<f32> = numbers.iter().map(|number| number.sqrt()).collect();
    verify("events", &receiving.wait()?, &want, 1e-6)
}
