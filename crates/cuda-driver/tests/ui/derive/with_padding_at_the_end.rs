//! Padding after the last field is uninitialized too.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Item {
    weight: f64,
    counts: [u16; 3],
}

fn main() {}
