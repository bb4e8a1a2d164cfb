//! A kernel may write any bit pattern, and not every bit pattern is a valid `bool`.

use cuda_driver::prelude::*;

fn zeros(stream: &Stream) {
    let _ = DeviceBuffer::<bool>::zeroed(stream, 1);
}

fn main() {}
