//! What may lie on the device is a promise.

use cuda_driver::DeviceRepr;

#[repr(C)]
#[derive(Clone, Copy)]
struct Pair {
    small: u8,
    large: u64,
}

impl DeviceRepr for Pair {}

fn main() {}
