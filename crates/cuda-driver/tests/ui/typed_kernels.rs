//! Signatures that do not exist, and arguments that a typed kernel does not accept.

use cuda_driver::prelude::*;

fn vector_parameter(function: &Function) {
    let _ = function.typed::<(Vec<f32>, u32)>();
}

fn no_tuple(function: &Function) {
    let _ = function.typed::<Reads<f32>>();
}

fn wrong_number(stream: &Stream, kernel: &Kernel<(Writes<f32>, u32)>, buffer: &mut DeviceBuffer<f32>) {
    let _ = unsafe { kernel.launch(stream, LaunchConfig::new(1, 1), (buffer, 1_u64)) };
}

fn main() {}
