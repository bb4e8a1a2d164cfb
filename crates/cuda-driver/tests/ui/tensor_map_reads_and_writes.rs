//! Memory that a kernel writes through a tensor map cannot be passed a second time.

use cuda_driver::{DeviceBuffer, Function, LaunchConfig, Result, Stream};
use cuda_driver::tensor_map::TensorMap;

fn f(stream: &Stream, kernel: &Function, map: &TensorMap, buffer: &mut DeviceBuffer<f32>) -> Result<()> {
    let args = (map.reads(buffer.as_slice())?, map.writes(buffer.as_mut_slice())?);
    unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), args) }
}

fn main() {}
