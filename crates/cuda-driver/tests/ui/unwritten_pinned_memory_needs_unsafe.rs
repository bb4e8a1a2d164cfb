//! Only the program knows that it has written all elements.

use cuda_driver::memory::PinnedFlags;
use cuda_driver::{Context, PinnedBuffer};

fn make(context: &Context) -> PinnedBuffer<u32> {
    let memory = PinnedBuffer::<u32>::uninit(context, 4, PinnedFlags::DEFAULT).unwrap();
    memory.assume_init()
}

fn main() {}
