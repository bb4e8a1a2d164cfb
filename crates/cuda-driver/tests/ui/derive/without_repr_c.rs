//! Rust may reorder the fields of a struct; the device's compiler does not.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
struct Item {
    id: u32,
    weight: f32,
}

fn main() {}
