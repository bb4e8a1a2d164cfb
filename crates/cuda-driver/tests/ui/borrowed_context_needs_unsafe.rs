//! An arbitrary address is not a context, and only the owner of a context knows its lifetime.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cuda_driver::prelude::*;

fn borrow(driver: &Driver) {
    let token = Arc::new(AtomicBool::new(true));
    let _ = Context::borrow_raw(driver, ptr::without_provenance_mut(64), token);
}

fn main() {}
