//! Whether a generic struct has padding depends on its types.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Pair<T> {
    first: u8,
    second: T,
}

fn main() {}
