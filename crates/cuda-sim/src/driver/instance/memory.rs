//! Allocating and freeing memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::driver::instance::Instance;
use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::objects::memory::{Allocation, Kind};

impl Instance {
    /// Records a new allocation.
    pub(in crate::driver) fn note(
        &self,
        addr: u64,
        size: u64,
        kind: Kind,
        context: &Context,
    ) -> Arc<Mutex<bool>> {
        self.note_of(addr, size, kind, context.home_handle(), &context.device)
    }

    /// Records a new allocation in the context with the handle `context`, or in none if it is 0.
    pub(in crate::driver) fn note_of(
        &self,
        addr: u64,
        size: u64,
        kind: Kind,
        context: u64,
        device: &Arc<Device>,
    ) -> Arc<Mutex<bool>> {
        let of_pool = match &kind {
            // The device of the pool may differ from the device of the stream.
            Kind::Pool(pool) => self.devices.get(pool.device),
            _ => None,
        };
        let device = of_pool.unwrap_or(device);
        if let Kind::Pool(pool) = &kind {
            device.add_pool_memory(addr, pool);
        }
        let is_there = Arc::new(Mutex::new(true));
        let allocation = Allocation {
            size,
            device: Arc::clone(device),
            kind,
            context,
            id: crate::driver::handle::fresh(),
            is_there: Arc::clone(&is_there),
            imported: None,
            sync_mem_ops: false,
        };
        self.allocations().insert(addr, allocation);
        is_there
    }

    /// Returns whether copies and fills of this memory wait, unless they are asynchronous.
    pub(in crate::driver) fn synchronizes(&self, addr: u64) -> bool {
        self.find_allocation(addr, |_, allocation| allocation.sync_mem_ops)
            .unwrap_or(false)
    }

    /// Removes the allocation that starts at `addr` from the list, if `which` accepts its kind.
    pub(in crate::driver) fn forget(
        &self,
        addr: u64,
        which: impl Fn(&Kind) -> bool,
    ) -> Option<Allocation> {
        let mut allocations = self.allocations();
        if !which(&allocations.get(&addr)?.kind) {
            return None;
        }
        allocations.remove(&addr)
    }

    /// Frees the memory of an allocation that was removed from the list and is no longer in use.
    /// `by` is used in messages.
    pub(in crate::driver) fn release(&self, addr: u64, allocation: &Allocation, by: &'static str) {
        let freed = match &allocation.kind {
            // Dropping the allocation unmaps the memory.
            Kind::Device | Kind::Pool(_) if allocation.imported.is_some() => {
                self.forget_imported(addr, allocation);
                true
            }
            Kind::Device => allocation.device.arena.free(addr, by).is_ok(),
            Kind::Pool(pool) => {
                pool.give(allocation.size);
                allocation.device.free_pool_memory(addr, by)
            }
            Kind::Graph(memory) => {
                memory.deactivate();
                true
            }
            Kind::Pinned(..)
            | Kind::Registered(_)
            | Kind::Managed(..)
            | Kind::HostPool(_)
            | Kind::ManagedPool(..) => {
                if let Kind::HostPool(pool) | Kind::ManagedPool(pool, _) = &allocation.kind {
                    pool.give(allocation.size);
                }
                let host = std::ptr::without_provenance(addr as usize);
                let known = self.devices.iter();
                // Unregistered from every device, even after one that does not know the memory.
                let known = known.filter(|device| device.arena.unregister_host(host).is_ok());
                known.count() == self.devices.len()
            }
        };
        debug_assert!(freed, "a listed allocation is known to its arena");
    }

    /// Removes an imported allocation from its pool.
    fn forget_imported(&self, addr: u64, allocation: &Allocation) {
        if let Kind::Pool(pool) = &allocation.kind {
            pool.give(allocation.size);
            allocation.device.remove_pool_memory(addr);
        }
    }

    /// Frees all allocations that `which` accepts.
    pub(in crate::driver) fn free_allocations(&self, which: impl Fn(&Allocation) -> bool) {
        let gone: Vec<(u64, Allocation)> = {
            let mut allocations = self.allocations();
            let (gone, kept) = std::mem::take(&mut *allocations)
                .into_iter()
                .partition::<BTreeMap<_, _>, _>(|(_, allocation)| which(allocation));
            *allocations = kept;
            gone.into_iter().collect()
        };
        for (addr, allocation) in &gone {
            self.release(*addr, allocation, "the end of its context");
        }
        let is_registered = |kind: &Kind| matches!(kind, Kind::Registered(_));
        if gone.iter().any(|(_, gone)| is_registered(&gone.kind)) {
            self.engine.settle();
        }
    }

    /// Finds the allocation that contains `addr` and returns the result of `read` for it.
    pub(in crate::driver) fn find_allocation<T>(
        &self,
        addr: u64,
        read: impl FnOnce(u64, &Allocation) -> T,
    ) -> Option<T> {
        let allocations = self.allocations();
        let (&start, allocation) = allocations.range(..=addr).next_back()?;
        (addr - start < allocation.size.max(1)).then(|| read(start, allocation))
    }

    /// Returns the size of the memory on a device that graphs allocated and that no call has freed.
    pub(in crate::driver) fn kept_by_graphs(&self, device: usize) -> u64 {
        let allocations = self.allocations();
        let sizes = allocations
            .values()
            .map(|allocation| match &allocation.kind {
                Kind::Graph(memory) if memory.device.ordinal == device => memory.size,
                _ => 0,
            });
        sizes.sum()
    }

    /// Waits for all work of a context and of no other context. A driver does this when an object
    /// of the context is unloaded, or is freed and was not allocated in stream order.
    ///
    /// Work of other contexts that uses the memory finds it freed or reused.
    pub(in crate::driver) fn drain_context(&self, context: u64) {
        let context = self.contexts.get(context);
        let contexts = context.map_or_else(Vec::new, |context| self.with_greens(&context));
        let tails = contexts.iter();
        let mut tail: Vec<_> = tails
            .flat_map(|context| self.engine.group_tail(context.group))
            .collect();
        tail.extend(self.engine.orphans());
        self.engine.wait(&tail);
    }

    /// Waits for all work of all devices.
    pub(in crate::driver) fn drain(&self) {
        for device in self.devices.iter() {
            self.engine.wait(&self.device_tail(device));
        }
    }
}
