//! Memory that a copy writes cannot be read inside the scope.

use cuda_driver::prelude::*;

fn f(stream: &Stream, buffer: &DeviceBuffer<f32>, pinned: &mut PinnedBuffer<f32>) -> cuda_driver::Result<f32> {
    stream.copy_scope(|scope| {
        scope.copy_to_host(&buffer.as_slice(), pinned)?;
        Ok(pinned[0])
    })
}

fn main() {}
