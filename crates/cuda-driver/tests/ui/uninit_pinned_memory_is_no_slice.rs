//! Page-locked memory that was not written gives no slice of its elements.

use cuda_driver::memory::PinnedFlags;
use cuda_driver::{Context, PinnedBuffer};

fn first(context: &Context) -> u32 {
    let memory = PinnedBuffer::<u32>::uninit(context, 4, PinnedFlags::DEFAULT).unwrap();
    let words: &[u32] = &memory;
    words[0]
}

fn main() {}
