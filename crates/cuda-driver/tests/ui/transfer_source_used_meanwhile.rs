//! A transfer owns its memory until it is done.

use cuda_driver::prelude::*;

fn f(stream: &Stream, buffer: &mut DeviceBuffer<f32>, mut pinned: PinnedBuffer<f32>) {
    let transfer = buffer.copy_from_pinned_async(pinned, stream).unwrap();
    pinned[0] = 1.0;
    drop(transfer);
}

fn main() {}
