//! A kernel can access any memory, so a launch requires `unsafe`.

use cuda_driver::prelude::*;

fn launch(stream: &Stream, kernel: &Function) {
    let _ = stream.launch(kernel, LaunchConfig::new(1, 1), (0xdead_beef_u64,));
}

fn main() {}
