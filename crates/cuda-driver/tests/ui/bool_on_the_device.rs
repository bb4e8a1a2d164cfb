//! A kernel may write any bit pattern, and not every bit pattern is a valid `bool`.

use cuda_driver::prelude::*;

fn read(buffer: DeviceBuffer<bool>) {}

fn main() {}
