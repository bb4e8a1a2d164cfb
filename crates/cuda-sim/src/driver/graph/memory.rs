//! Memory that graphs allocate. Each allocation node has an address, which is live while the
//! allocation is.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_sys::{CUdevice, CUgraphMem_attribute};

use super::{Store, World};
use crate::driver::arg::Out;
use crate::driver::device::Device;
use crate::driver::export::{Call, exports};
use crate::driver::memory::ALIGN;
use crate::driver::status::{INVALID_VALUE, OUT_OF_MEMORY, Status};
use crate::lock::lock;

exports! {
    cuDeviceGetGraphMemAttribute => device_get_graph_mem_attribute;
    cuDeviceSetGraphMemAttribute => device_set_graph_mem_attribute;
    cuDeviceGraphMemTrim => device_graph_mem_trim;
}

/// The amount of memory that the graphs of a device use.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    used: AtomicU64,
    used_high: AtomicU64,
    reserved: AtomicU64,
    reserved_high: AtomicU64,
}

impl Footprint {
    fn take(&self, size: u64) {
        let used = self.used.fetch_add(size, Ordering::Relaxed) + size;
        self.used_high.fetch_max(used, Ordering::Relaxed);
        let reserved = self.reserved.fetch_max(used, Ordering::Relaxed).max(used);
        self.reserved_high.fetch_max(reserved, Ordering::Relaxed);
    }
}

/// The memory of an allocation node. The address is reserved as long as a node, an executable graph
/// or the program refers to it.
#[derive(Debug)]
pub(in crate::driver) struct GraphMemory {
    pub(super) addr: u64,
    pub(super) size: u64,
    pub(super) device: Arc<Device>,
    footprint: Arc<Footprint>,
    /// The graph of the allocation node.
    pub(super) home: u64,
    /// The graphs that have, or had, a free node for it.
    freed_in: Mutex<BTreeSet<u64>>,
}

impl GraphMemory {
    fn freed_in(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        lock(&self.freed_in)
    }

    /// Records that a graph has a free node for the memory. The record stays when that node is
    /// removed.
    pub(super) fn note_free(&self, graph: u64) {
        self.freed_in().insert(graph);
    }

    /// Makes the memory live.
    pub(super) fn activate(&self) {
        if self.device.arena.activate(self.addr) {
            self.footprint.take(self.size);
        }
    }

    /// Ends the lifetime of the memory.
    pub(in crate::driver) fn deactivate(&self) {
        if self.device.arena.deactivate(self.addr) {
            self.footprint.used.fetch_sub(self.size, Ordering::Relaxed);
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
    fn footprint(&self, device: usize) -> Arc<Footprint> {
        let mut all = lock(&self.footprints);
        Arc::clone(all.entry(device).or_default())
    }

    /// Reserves memory for an allocation node of `graph`.
    pub(super) fn reserve(
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
            home: graph,
            freed_in: Mutex::default(),
        }))
    }
}

impl World {
    /// Records the memory of an allocation node.
    pub(super) fn note_memory(&mut self, memory: &Arc<GraphMemory>) {
        self.memory.retain(|_, memory| memory.strong_count() > 0);
        self.memory.insert(memory.addr, Arc::downgrade(memory));
    }

    /// Returns the memory that a new free node of `graph` frees. Fails with `INVALID_VALUE` if the
    /// graph must not free it.
    pub(super) fn memory_to_free(&self, graph: u64, addr: u64) -> Status<Arc<GraphMemory>> {
        let memory = self.memory.get(&addr).and_then(std::sync::Weak::upgrade);
        let memory = memory.ok_or(INVALID_VALUE)?;
        // Each graph can free the memory once, and either only its own graph or only other graphs
        // can.
        let refuses = memory
            .freed_in()
            .iter()
            .any(|&other| other == graph || (other == memory.home) != (graph == memory.home));
        if refuses {
            Err(INVALID_VALUE)
        } else {
            Ok(memory)
        }
    }
}

impl Call {
    fn device_get_graph_mem_attribute(
        &self,
        device: CUdevice,
        attribute: CUgraphMem_attribute,
        value: Out<c_void>,
    ) -> Status {
        type A = CUgraphMem_attribute;
        let footprint = self.graphs.footprint(self.device(device)?.ordinal);
        let number = match attribute {
            A::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => &footprint.used,
            A::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => &footprint.used_high,
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => &footprint.reserved,
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => &footprint.reserved_high,
            _ => return Err(INVALID_VALUE),
        };
        value.typed::<u64>().set(number.load(Ordering::Relaxed))
    }

    /// `cuDeviceSetGraphMemAttribute()`—Resets the high-water marks.
    fn device_set_graph_mem_attribute(
        &self,
        device: CUdevice,
        attribute: CUgraphMem_attribute,
        value: Out<c_void>,
    ) -> Status {
        type A = CUgraphMem_attribute;
        let footprint = self.graphs.footprint(self.device(device)?.ordinal);
        let (mark, now) = match attribute {
            A::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => (&footprint.used_high, &footprint.used),
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => {
                (&footprint.reserved_high, &footprint.reserved)
            }
            _ => return Err(INVALID_VALUE),
        };
        if value.typed::<u64>().get()? != 0 {
            return Err(INVALID_VALUE);
        }
        mark.store(now.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(())
    }

    /// `cuDeviceGraphMemTrim()`—Returns unused memory to the device.
    fn device_graph_mem_trim(&self, device: CUdevice) -> Status {
        let footprint = self.graphs.footprint(self.device(device)?.ordinal);
        let used = footprint.used.load(Ordering::Relaxed);
        footprint.reserved.store(used, Ordering::Relaxed);
        Ok(())
    }
}
