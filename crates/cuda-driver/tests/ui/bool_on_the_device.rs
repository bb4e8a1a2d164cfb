//! A kernel may write any bits, and not any bits are a `bool`.

use cuda_driver::prelude::*;

fn read(buffer: DeviceBuffer<bool>) {}

fn main() {}
