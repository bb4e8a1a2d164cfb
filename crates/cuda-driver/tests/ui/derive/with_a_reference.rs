//! A host address is invalid on the device, and an address from the device is not a reference.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Item {
    name: &'static u64,
}

fn main() {}
