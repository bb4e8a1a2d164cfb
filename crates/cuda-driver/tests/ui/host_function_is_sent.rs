//! A host function runs on another thread: what it owns must be `Send`.

use std::rc::Rc;

use cuda_driver::prelude::*;

fn f(stream: &Stream, shared: Rc<u32>) -> cuda_driver::Result<()> {
    stream.launch_host(move || println!("{shared}"))?;
    Ok(())
}

fn main() {}
