//! The last handle of a borrowed stream can be dropped on another thread, and its owner with it.

use std::rc::Rc;

use cuda_driver::prelude::*;

fn borrow(stream: &Stream) {
    let owner = Rc::new(stream.clone());
    let _ = unsafe { Stream::borrow_raw(stream.context(), stream.as_raw(), owner) };
}

fn main() {}
