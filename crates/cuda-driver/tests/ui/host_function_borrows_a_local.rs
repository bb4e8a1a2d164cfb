//! A host function runs later and cannot borrow a local, which may be dropped by then.

use cuda_driver::prelude::*;

fn f(stream: &Stream) -> cuda_driver::Result<()> {
    let mut local = [0; 4];
    stream.launch_host(|| local[0] = 1)?;
    Ok(())
}

fn main() {}
