//! Zero bits are not a valid reference.

use cuda_driver::prelude::*;

fn zeros(stream: &Stream) {
    let _ = DeviceBuffer::<&'static u8>::zeroed(stream, 1);
}

fn main() {}
