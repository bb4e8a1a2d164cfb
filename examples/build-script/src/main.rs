//! Teaches: kernels that are compiled in a build script, with typed signatures and launches without
//! `unsafe`. The program needs no NVRTC.
//!
//! Prints the number of verified elements of each kernel.
//!
//! `cargo run -p build-script`

use cuda_driver::prelude::*;

/// The kernels of `kernels/filters.cu`.
mod filters {
    include!(concat!(env!("OUT_DIR"), "/filters.rs"));
}

/// `Range` in `kernels/filters.cu`.
#[derive(Clone, Copy, Debug, DeviceRepr)]
#[repr(C)]
struct Range {
    low: f32,
    high: f32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let choice = cuda_sim::gpu_or_software()?;
    println!("{choice}");
    let context = Driver::new(choice.into_library())?
        .device(0)?
        .primary_context()?;
    let stream = context.default_stream()?;
    let kernels = filters::SafeKernels::load(&context)?;

    let n: u32 = 10_000;
    let config = LaunchConfig::for_num_elems(n)?;
    let wave: Vec<f32> = (0..n).map(|i| (i as f32 * 0.01).sin()).collect();
    let ramp: Vec<u8> = (0..n).map(|i| (i % 256) as u8).collect();
    let halves: Vec<u8> = ramp.iter().map(|value| value / 2).collect();

    let wave_device = DeviceBuffer::from_host(&stream, &wave)?;
    let mut clamped = DeviceBuffer::<f32>::zeroed(&stream, wave.len())?;
    let range = Range {
        low: -0.5,
        high: 0.25,
    };
    let clamp = kernels.clamp()?;
    clamp.launch(&stream, config, (&wave_device, &mut clamped, range, n))?;

    let mut mean = DeviceBuffer::<f32>::zeroed(&stream, wave.len())?;
    let blend = kernels.blend_float()?;
    blend.launch(&stream, config, (&wave_device, &clamped, &mut mean, n))?;

    let ramp_device = DeviceBuffer::from_host(&stream, &ramp)?;
    let halves_device = DeviceBuffer::from_host(&stream, &halves)?;
    let mut bytes = DeviceBuffer::<u8>::zeroed(&stream, ramp.len())?;
    let blend = kernels.blend_bytes()?;
    let args = (&ramp_device, &halves_device, &mut bytes, n);
    blend.launch(&stream, config, args)?;

    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 256)?;
    let histogram = kernels.histogram()?;
    // A byte from memory is an index, which is proven: there are 256 counts.
    histogram.launch(&stream, config, (&bytes, &mut counts, n))?;
    stream.synchronize()?;

    let limit = |value: &f32| value.clamp(range.low, range.high);
    let want_mean: Vec<f32> = wave.iter().map(|x| (x + limit(x)) / 2.0).collect();
    let want_bytes = ramp.iter().zip(&halves);
    let want_bytes: Vec<u8> = want_bytes
        .map(|(a, b)| u16::midpoint((*a).into(), (*b).into()) as u8)
        .collect();
    let mut want_counts = vec![0_u32; 256];
    for byte in &want_bytes {
        want_counts[usize::from(*byte)] += 1;
    }
    verify("clamp and blend<float>", &mean.to_vec()?, &want_mean)?;
    verify("blend<unsigned char>", &bytes.to_vec()?, &want_bytes)?;
    verify("histogram", &counts.to_vec()?, &want_counts)
}

fn verify<T: PartialEq>(
    what: &str,
    got: &[T],
    want: &[T],
) -> Result<(), Box<dyn std::error::Error>> {
    if got != want {
        return Err(format!("{what}: the result differs from that of the host").into());
    }
    println!("{what}: {} elements verified", got.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    /// Runs on the GPU if there is one, and on the software device otherwise.
    #[test]
    fn kernels_of_the_build_script_compute_as_the_host_does() {
        super::main().unwrap();
    }
}
