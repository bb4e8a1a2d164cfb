//! Types that cannot be arguments of a kernel.

use cuda_driver::prelude::*;

#[derive(Clone, Copy)]
struct Params {
    scale: f32,
}

fn buffer_by_value(stream: &Stream, kernel: &Function, buffer: DeviceBuffer<f32>) {
    let _ = unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), (buffer,)) };
}

fn struct_without_derive(stream: &Stream, kernel: &Function, params: Params) {
    let _ = unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), (params,)) };
}

fn option(stream: &Stream, kernel: &Function, buffer: Option<&DeviceBuffer<f32>>) {
    let _ = unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), (buffer,)) };
}

fn host_memory(stream: &Stream, kernel: &Function, values: &[f32]) {
    let _ = unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), (values,)) };
}

fn main() {}
