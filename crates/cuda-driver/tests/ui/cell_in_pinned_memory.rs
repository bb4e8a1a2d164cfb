//! A cell must not be shared between threads, and page-locked memory may be.

use std::cell::Cell;

use cuda_driver::prelude::*;

fn pin(context: &Context) {
    let _ = PinnedBuffer::<Cell<u32>>::zeroed(context, 1, PinnedFlags::empty());
}

fn main() {}
