//! The device heap of a context: memory that kernels allocate with `malloc`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use crate::driver::objects::device::Device;
use crate::lock::lock;

/// The smallest block in bytes, which is also the alignment of blocks.
const LEAST: u64 = 16;

/// The blocks of a heap. Kernels of the context allocate and free them at any time.
///
/// The sizes of blocks are powers of two, so that freed blocks fit later requests. Freed blocks
/// stay in the heap until the context is destroyed: other kernels of the context may be running,
/// and use the addresses by mistake.
#[derive(Debug, Default)]
pub(in crate::driver) struct Heap(Mutex<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    /// The size of each block in use, by its address.
    used: HashMap<u64, u64>,
    used_bytes: u64,
    /// The addresses of freed blocks, by their size.
    freed: BTreeMap<u64, Vec<u64>>,
}

impl Heap {
    /// Allocates a block of at least `size` bytes. Returns `None` for size 0, if the blocks in use
    /// would exceed `limit` bytes, or if the device has no room.
    pub(in crate::driver) fn allocate(
        &self,
        device: &Device,
        size: u64,
        limit: u64,
    ) -> Option<u64> {
        if size == 0 {
            return None;
        }
        let size = size.checked_next_power_of_two()?.max(LEAST);
        let mut blocks = lock(&self.0);
        let used_bytes = blocks.used_bytes.checked_add(size)?;
        if used_bytes > limit {
            return None;
        }
        let reused = blocks.freed.get_mut(&size).and_then(Vec::pop);
        let address = match reused {
            Some(address) => address,
            None => device.allocate(size, LEAST)?,
        };
        blocks.used_bytes = used_bytes;
        blocks.used.insert(address, size);
        Some(address)
    }

    /// Frees the block at `address`; returns whether there is one.
    pub(in crate::driver) fn free(&self, address: u64) -> bool {
        let mut blocks = lock(&self.0);
        let Some(size) = blocks.used.remove(&address) else {
            return false;
        };
        blocks.used_bytes -= size;
        blocks.freed.entry(size).or_default().push(address);
        true
    }

    /// Returns all memory of the heap to the device. No kernel of the context may be running.
    pub(in crate::driver) fn clear(&self, device: &Device) {
        let blocks = std::mem::take(&mut *lock(&self.0));
        let freed = blocks.freed.into_values().flatten();
        for address in blocks.used.into_keys().chain(freed) {
            // The blocks are allocations of this arena, so freeing them cannot fail.
            let _ = device.arena.free(address, "the destruction of its context");
        }
    }
}
