//! A buffer that a launch writes cannot be another argument of the same launch.

use cuda_driver::prelude::*;

fn launch(stream: &Stream, kernel: &Function, buffer: &mut DeviceBuffer<u32>) {
    let _ = unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), (&mut *buffer, &*buffer)) };
}

fn main() {}
