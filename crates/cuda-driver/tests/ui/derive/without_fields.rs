//! A struct without fields has size 0 in Rust and size 1 in C++.

use cuda_driver::DeviceRepr;

#[derive(Clone, Copy, DeviceRepr)]
#[repr(C)]
struct Nothing;

fn main() {}
