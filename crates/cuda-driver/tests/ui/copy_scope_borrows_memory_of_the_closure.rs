//! A copy borrows its memory until the scope has waited, so it cannot use locals of the closure.

use cuda_driver::prelude::*;

fn f(stream: &Stream, buffer: &DeviceBuffer<f32>) -> cuda_driver::Result<()> {
    stream.copy_scope(|scope| {
        let mut pinned = PinnedBuffer::zeroed(stream.context(), 4, PinnedFlags::empty())?;
        scope.copy_to_host(&buffer.as_slice(), &mut pinned)
    })
}

fn main() {}
