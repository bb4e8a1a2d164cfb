//! Zero bits are not a valid `NonZeroU8`, and a kernel can write them.

use std::num::NonZeroU8;

use cuda_driver::prelude::*;

fn copy(stream: &Stream) {
    let _ = DeviceBuffer::from_host(stream, &[NonZeroU8::MIN]);
}

fn main() {}
