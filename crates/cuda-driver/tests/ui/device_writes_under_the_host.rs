//! While the host borrows a slice of managed memory, no write to it can be queued.

use cuda_driver::Result;
use cuda_driver::memory::ManagedBuffer;

fn first(buffer: &mut ManagedBuffer<u32>) -> Result<u32> {
    let words = buffer.host()?;
    buffer.as_mut_slice().set_zero()?;
    Ok(words[0])
}

fn main() {}
