//! Abandoning page-locked memory leaks it and empties its owner; only a failed transfer does so.

use cuda_driver::error::DriverError;
use cuda_driver::memory::PageLocked;

fn abandon<P: PageLocked<u8>>(memory: &mut P, error: DriverError) {
    memory.abandon(error);
}

fn poison<P: PageLocked<u8>>(memory: &P, error: DriverError) {
    memory.poison(error);
}

fn main() {}
