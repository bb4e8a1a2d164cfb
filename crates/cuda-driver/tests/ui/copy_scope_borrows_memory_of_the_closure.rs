//! A copy borrows its memory for all of the scope, so it cannot be memory that goes before the scope waits.

use cuda_driver::prelude::*;

fn f(stream: &Stream, buffer: &DeviceBuffer<f32>) -> cuda_driver::Result<()> {
    stream.copy_scope(|scope| {
        let mut pinned = PinnedBuffer::zeroed(stream.context(), 4, PinnedFlags::empty())?;
        scope.copy_to_host(&buffer.as_slice(), &mut pinned)
    })
}

fn main() {}
