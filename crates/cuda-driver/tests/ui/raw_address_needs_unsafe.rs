//! An arbitrary number is not a valid address.

use cuda_driver::prelude::*;

fn anywhere(stream: &Stream) {
    let mut buffer = DeviceBuffer::<u8>::from_raw(stream, 0xdead_beef, 100).unwrap();
    buffer.set_zero().unwrap();
}

fn main() {}
