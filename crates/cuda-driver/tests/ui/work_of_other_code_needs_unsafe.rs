//! Work that other code queues in the closure is not checked.

use cuda_driver::prelude::*;

fn queue(stream: &Stream, buffer: &mut DeviceBuffer<u32>) {
    let _ = stream.using((buffer,), |_stream| ());
}

fn main() {}
