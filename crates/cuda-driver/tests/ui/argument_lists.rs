//! Types that cannot be the arguments of a launch.

use cuda_driver::prelude::*;

fn no_tuple(stream: &Stream, kernel: &Function) {
    let _ = unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), 1_u32) };
}

fn seventeen(stream: &Stream, kernel: &Function) {
    let args = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17);
    let _ = unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), args) };
}

fn main() {}
