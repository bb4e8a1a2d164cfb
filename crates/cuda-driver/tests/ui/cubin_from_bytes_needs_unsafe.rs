//! The driver trusts a cubin: half of one is read past its end.

use cuda_driver::prelude::*;

fn half(bytes: &[u8]) -> Cubin {
    Cubin::from_bytes(bytes[..bytes.len() / 2].to_vec())
}

fn main() {}
