//! A host function runs later: it cannot borrow what may be gone by then.

use cuda_driver::prelude::*;

fn f(stream: &Stream) -> cuda_driver::Result<()> {
    let mut local = [0; 4];
    stream.launch_host(|| local[0] = 1)?;
    Ok(())
}

fn main() {}
