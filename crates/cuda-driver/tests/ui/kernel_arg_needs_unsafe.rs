//! Implementing `KernelArg` requires `unsafe`: here the argument is an invalid address.

use cuda_driver::launch::KernelArg;

struct Wild;

impl KernelArg for Wild {
    type Value = u64;

    fn value(&self) -> u64 {
        0xdead_beef
    }
}

fn main() {}
