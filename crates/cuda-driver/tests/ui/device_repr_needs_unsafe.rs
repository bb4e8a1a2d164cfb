//! The claim that a type may be stored on the device requires `unsafe`.

use cuda_driver::DeviceRepr;

#[repr(C)]
#[derive(Clone, Copy)]
struct Pair {
    small: u8,
    large: u64,
}

impl DeviceRepr for Pair {}

fn main() {}
