//! A reset frees the memory of live buffers.

use cuda_driver::prelude::*;

fn under(buffer: &DeviceBuffer<u8>) {
    buffer.stream().context().device().reset_primary_context().unwrap();
}

fn main() {}
