//! Memory that graphs allocate. Each allocation node has an address, which is live while the
//! allocation is.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::driver::attributes::ALIGN;
use crate::driver::objects::device::Device;
use crate::driver::objects::graph::{GraphState, Store};
use crate::driver::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};
use crate::lock::lock;

/// The driver obtains memory for graphs in chunks of this size.
const CHUNK: u64 = 32 << 20;

/// The memory that a device holds for graphs.
///
/// Driver 580 takes memory when a graph is launched, for all of its allocation nodes, and keeps it
/// for later launches until it is trimmed. All of it counts as used, whether or not it is
/// allocated.
#[derive(Debug, Default)]
pub(in crate::driver) struct Footprint {
    /// The bytes that are allocated now.
    allocated: AtomicU64,
    /// The bytes that the device holds, in whole chunks.
    pub(in crate::driver) held: AtomicU64,
    /// The maximum of `held` since `USED_MEM_HIGH` was reset.
    pub(in crate::driver) used_high: AtomicU64,
    /// The maximum of `held` since `RESERVED_MEM_HIGH` was reset.
    pub(in crate::driver) reserved_high: AtomicU64,
}

impl Footprint {
    /// Takes chunks until the device holds at least `bytes`.
    pub(in crate::driver) fn hold(&self, bytes: u64) {
        let bytes = in_chunks(bytes);
        let held = self.held.fetch_max(bytes, Ordering::Relaxed).max(bytes);
        self.used_high.fetch_max(held, Ordering::Relaxed);
        self.reserved_high.fetch_max(held, Ordering::Relaxed);
    }

    /// Returns the chunks to the device that hold no allocated memory.
    pub(in crate::driver) fn trim(&self) {
        let allocated = self.allocated.load(Ordering::Relaxed);
        self.held.store(in_chunks(allocated), Ordering::Relaxed);
    }

    fn allocate(&self, bytes: u64) {
        let allocated = self.allocated.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.hold(allocated);
    }

    fn free(&self, bytes: u64) {
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Rounds a number of bytes up to whole chunks.
fn in_chunks(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNK).saturating_mul(CHUNK)
}

/// The memory of an allocation node. The address is reserved as long as a node, an executable graph
/// or the program refers to it.
#[derive(Debug)]
pub(in crate::driver) struct GraphMemory {
    pub(in crate::driver) addr: u64,
    pub(in crate::driver) size: u64,
    pub(in crate::driver) device: Arc<Device>,
    footprint: Arc<Footprint>,
    /// The graph of the allocation node.
    pub(in crate::driver) graph: u64,
    /// The graphs that have, or had, a free node for it.
    freed_in: Mutex<BTreeSet<u64>>,
}

impl GraphMemory {
    fn freed_in(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        lock(&self.freed_in)
    }

    /// Records that a graph has a free node for the memory. The record stays when that node is
    /// removed.
    pub(in crate::driver) fn note_free(&self, graph: u64) {
        self.freed_in().insert(graph);
    }

    /// Makes the memory live.
    pub(in crate::driver) fn activate(&self) {
        if self.device.arena.activate(self.addr) {
            self.footprint.allocate(self.size);
        }
    }

    /// Ends the lifetime of the memory.
    pub(in crate::driver) fn deactivate(&self) {
        if self.device.arena.deactivate(self.addr) {
            self.footprint.free(self.size);
        }
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        self.deactivate();
        self.device.arena.unreserve(self.addr);
    }
}

impl Store {
    pub(in crate::driver) fn footprint(&self, device: usize) -> Arc<Footprint> {
        let mut all = lock(&self.footprints);
        Arc::clone(all.entry(device).or_default())
    }

    /// Reserves memory for an allocation node of `graph`.
    pub(in crate::driver) fn reserve(
        &self,
        device: &Arc<Device>,
        size: u64,
        graph: u64,
    ) -> Status<Arc<GraphMemory>> {
        if size == 0 {
            return Err(INVALID_VALUE);
        }
        let limit = device.memory_limit.load(Ordering::Relaxed);
        let fits = device
            .arena
            .used()
            .checked_add(size)
            .is_some_and(|all| all <= limit);
        let addr = fits.then(|| device.arena.reserve(size, ALIGN)).flatten();
        Ok(Arc::new(GraphMemory {
            addr: addr.ok_or(OUT_OF_MEMORY)?,
            size,
            device: Arc::clone(device),
            footprint: self.footprint(device.ordinal),
            graph,
            freed_in: Mutex::default(),
        }))
    }
}

impl GraphState {
    /// Records the memory of an allocation node.
    pub(in crate::driver) fn note_memory(&mut self, memory: &Arc<GraphMemory>) {
        self.memory.retain(|_, memory| memory.strong_count() > 0);
        self.memory.insert(memory.addr, Arc::downgrade(memory));
    }

    /// Returns the memory that a new free node of `graph` frees. Fails with `INVALID_VALUE` if the
    /// graph must not free it.
    pub(in crate::driver) fn memory_to_free(
        &self,
        graph: u64,
        addr: u64,
    ) -> Status<Arc<GraphMemory>> {
        let memory = self.memory.get(&addr).and_then(std::sync::Weak::upgrade);
        let memory = memory.ok_or(INVALID_VALUE)?;
        // Each graph can free the memory once, and either only its own graph or only other graphs
        // can.
        let refuses = memory
            .freed_in()
            .iter()
            .any(|&other| other == graph || (other == memory.graph) != (graph == memory.graph));
        if refuses {
            Err(INVALID_VALUE)
        } else {
            Ok(memory)
        }
    }
}
