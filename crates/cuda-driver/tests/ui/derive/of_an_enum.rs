//! A kernel may write any bits, and not any bits are a value of an enum.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
enum Kind {
    One,
    Two,
}

fn main() {}
