//! An address of the host means nothing to the device, and one that the device wrote is no reference.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Item {
    name: &'static u64,
}

fn main() {}
