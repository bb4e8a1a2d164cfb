//! A buffer does not shrink while a view of it exists, and no other buffer takes its place.

use cuda_driver::memory::GrowableBuffer;
use cuda_driver::prelude::*;

fn shrinks_under_a_view(mut buffer: GrowableBuffer<u32>) -> Vec<u32> {
    let view = buffer.as_slice();
    buffer.shrink_to(0).unwrap();
    view.to_vec().unwrap()
}

fn replaced(growable: &mut GrowableBuffer<u32>, other: &mut DeviceBuffer<u32>) {
    std::mem::swap(&mut **growable, other);
}

fn main() {}
