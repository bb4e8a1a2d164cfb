//! Rust orders the fields of a struct as it likes; the device's compiler does not.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
struct Item {
    id: u32,
    weight: f32,
}

fn main() {}
