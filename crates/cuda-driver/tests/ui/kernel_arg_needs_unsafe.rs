//! What a kernel gets is a promise: here an address that nobody has.

use cuda_driver::KernelArg;

struct Wild;

impl KernelArg for Wild {
    type Value = u64;

    fn value(&self) -> u64 {
        0xdead_beef
    }
}

fn main() {}
