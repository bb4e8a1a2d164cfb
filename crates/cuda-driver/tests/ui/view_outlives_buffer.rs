//! A view borrows its buffer.

use cuda_driver::prelude::*;

fn last(buffer: DeviceBuffer<u32>) -> DeviceSlice<'static, u32> {
    let view = buffer.as_slice();
    drop(buffer);
    view
}

fn main() {}
