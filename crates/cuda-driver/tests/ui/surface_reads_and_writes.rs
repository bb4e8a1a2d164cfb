//! An array that a kernel writes through a surface is borrowed until the launch is queued.

use cuda_driver::prelude::*;
use cuda_driver::texture::Array;

fn two_surfaces(stream: &Stream, kernel: &Function, array: &mut Array<u32>) -> cuda_driver::Result<()> {
    let args = (array.surface()?, array.surface_mut()?);
    unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), args) }
}

fn surface_outlives_its_array(stream: &Stream, array: Array<u32>) {
    let surface = array.surface();
    drop(array);
    let _ = (stream, surface);
}

fn main() {}
