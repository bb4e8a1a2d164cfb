//! Only the owner of a stream, an event, a module or a kernel knows how long its handle is valid.

use std::ptr;

use cuda_driver::prelude::*;

fn borrow(context: &Context) {
    let _ = Stream::borrow_raw(context, ptr::without_provenance_mut(64), ());
    let _ = Event::borrow_raw(context, ptr::without_provenance_mut(64), ());
    let _ = Module::borrow_raw(context, ptr::without_provenance_mut(64), ());
    let _ = Function::borrow_raw(context, ptr::without_provenance_mut(64), ());
}

fn main() {}
