//! Scenarios: programs that together make every call of the safe layer.

mod capture;
mod closes;
mod contexts;
mod devices;
#[cfg(any(target_os = "linux", windows))]
mod external;
mod graph_exec;
mod graphs;
mod host_memory;
mod launches;
#[cfg(target_os = "linux")]
mod mapped;
mod memory;
mod modules;
mod pools;
#[cfg(any(target_os = "linux", windows))]
mod processes;
mod streams;
#[cfg(feature = "dlpack")]
mod tensors;
mod textures;
mod waits;

use cuda_driver::prelude::*;
use cuda_sim::Builder;

use super::fixture::{Fixture, Result, Scenario};

/// Returns all scenarios.
pub(super) fn all() -> Vec<&'static Scenario> {
    [
        devices::ALL,
        contexts::ALL,
        memory::ALL,
        #[cfg(target_os = "linux")]
        mapped::ALL,
        host_memory::ALL,
        pools::ALL,
        #[cfg(any(target_os = "linux", windows))]
        processes::ALL,
        #[cfg(any(target_os = "linux", windows))]
        external::ALL,
        streams::ALL,
        waits::ALL,
        modules::ALL,
        launches::ALL,
        graphs::ALL,
        graph_exec::ALL,
        capture::ALL,
        closes::ALL,
        #[cfg(feature = "dlpack")]
        tensors::ALL,
        textures::ALL,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns a scenario that needs a single device.
const fn one(name: &'static str, run: fn(&Fixture) -> Result<()>) -> Scenario {
    on(name, |it| it, run)
}

/// Returns a scenario that needs a device with its own configuration.
const fn on(
    name: &'static str,
    device: fn(Builder) -> Builder,
    run: fn(&Fixture) -> Result<()>,
) -> Scenario {
    Scenario {
        name,
        device,
        devices: 1,
        run,
    }
}

/// Returns a scenario that needs two devices.
const fn two(name: &'static str, run: fn(&Fixture) -> Result<()>) -> Scenario {
    Scenario {
        name,
        device: |it| it,
        devices: 2,
        run,
    }
}

impl Fixture {
    fn stream(&self) -> Result<Stream> {
        Stream::new(&self.context, StreamFlags::NON_BLOCKING, 0)
    }

    fn kernel(&self, ptx: &str, name: &str) -> Result<Function> {
        Module::load(&self.context, &Ptx::new(ptx).unwrap())?.function(name)
    }
}

/// The length of most buffers, in elements.
const N: u32 = 64;

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(N).unwrap()
}

fn filled(stream: &Stream, value: u32) -> Result<DeviceBuffer<u32>> {
    DeviceBuffer::from_host(stream, &[value; N as usize])
}

/// Checks that every element of the buffer is `value`.
fn expect(buffer: &DeviceBuffer<u32>, value: u32) -> Result<()> {
    assert_eq!(buffer.to_vec()?, [value; N as usize], "wrong result");
    Ok(())
}

/// Computes `out = input` on `stream`.
fn copy(
    stream: &Stream,
    kernel: &Function,
    input: &DeviceBuffer<u32>,
    out: &mut DeviceBuffer<u32>,
) -> Result<()> {
    // SAFETY: the kernel reads N words of the one and writes N of the other; each has N.
    unsafe { stream.launch(kernel, config(), (input, out, N)) }
}
