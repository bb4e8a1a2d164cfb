//! The layout of a packed struct differs from that of the device's compiler.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C, packed)]
struct Item {
    kind: u8,
    weight: f32,
}

fn main() {}
