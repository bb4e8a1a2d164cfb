//! A packed struct lies otherwise than the device's compiler would have it.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C, packed)]
struct Item {
    kind: u8,
    weight: f32,
}

fn main() {}
