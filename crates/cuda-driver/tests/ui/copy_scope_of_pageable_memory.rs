//! Only page-locked memory can be copied while the host continues.

use cuda_driver::prelude::*;

fn f(stream: &Stream, buffer: &DeviceBuffer<f32>, mut memory: Vec<f32>) -> cuda_driver::Result<()> {
    stream.copy_scope(|scope| scope.copy_to_host(&buffer.as_slice(), &mut memory))
}

fn main() {}
