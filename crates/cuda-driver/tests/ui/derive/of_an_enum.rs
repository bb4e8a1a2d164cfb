//! A kernel may write any bit pattern, and not every bit pattern is a valid value of an enum.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
enum Kind {
    One,
    Two,
}

fn main() {}
