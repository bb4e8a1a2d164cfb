//! Uninitialized memory holds data of other programs and must not be read.

use cuda_driver::prelude::*;

fn secrets(stream: &Stream) -> Vec<u8> {
    DeviceBuffer::uninit(stream, 100).unwrap().to_vec().unwrap()
}

fn main() {}
