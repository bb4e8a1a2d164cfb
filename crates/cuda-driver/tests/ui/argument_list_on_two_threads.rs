//! An argument list borrows what a kernel writes: two threads must not launch it at once.

use cuda_driver::prelude::*;

fn both(first: &Stream, second: &Stream, kernel: &Function, buffer: &mut DeviceBuffer<u32>) {
    let mut args = ArgList::new();
    args.push(buffer);
    let config = LaunchConfig::new(1, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| unsafe { first.launch(kernel, config, &args) });
        scope.spawn(|| unsafe { second.launch(kernel, config, &args) });
    });
}

fn main() {}
