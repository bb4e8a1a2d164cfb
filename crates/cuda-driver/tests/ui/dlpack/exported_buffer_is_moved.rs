//! A buffer that is exported belongs to the consumer.

use cuda_driver::dlpack::Consumer;
use cuda_driver::prelude::*;

fn export(buffer: DeviceBuffer<f32>, consumer: &Consumer) {
    let _ = buffer.into_dlpack(&[4], consumer);
    let _ = buffer.to_vec();
}

fn main() {}
