//! Padding has no value: copying it to the device would read memory that was never written.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Item {
    kind: u8,
    weight: f32,
}

fn main() {}
