//! Every bit pattern of a field must be valid, even in a struct that is only an argument.

use cuda_driver::launch::KernelArg;

#[derive(Clone, Copy, KernelArg)]
#[repr(C)]
struct Item {
    kind: u8,
    is_last: bool,
}

fn main() {}
