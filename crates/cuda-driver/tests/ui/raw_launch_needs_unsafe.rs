//! Launches and copies with raw pointers are unsafe: the addresses may be wrong.

use cuda_driver::{Function, LaunchConfig, Stream};

fn launch(stream: &Stream, kernel: &Function, config: LaunchConfig) {
    let _ = stream.launch_raw(kernel, config, None, &mut [], ());
    let _ = stream.copy_raw(0xdead_beef, 0, 8, ());
}

fn main() {}
