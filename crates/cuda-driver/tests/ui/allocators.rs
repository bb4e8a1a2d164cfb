//! Only allocators of this crate return device memory.

use cuda_driver::prelude::*;

fn of_a_device(device: &Device, stream: &Stream) {
    let _ = DeviceBuffer::<f32>::zeroed_in(device, stream, 1);
}

fn main() {}
