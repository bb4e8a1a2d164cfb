//! A struct without fields has no bytes in Rust, and one in C++.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Nothing;

fn main() {}
