//! Padding is uninitialized: copying it to the device would read uninitialized memory.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Item {
    kind: u8,
    weight: f32,
}

fn main() {}
