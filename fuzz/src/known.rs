//! Results of calls that later calls use: handles, device addresses, and structures.

use std::collections::BTreeMap;

/// The number of results of a kind that are remembered.
const KEPT: usize = 32;

/// Functions that return an address of memory that faults permanently once it is freed. Other freed
/// addresses belong to the host again.
const FOR_GOOD: &[&str] = &[
    "cuMemAlloc_v2",
    "cuMemAllocPitch_v2",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocFromPoolAsync_ptsz",
];

/// Whether the first handle or address in the arguments of a function is invalid afterwards.
pub(crate) fn destroys(function: &str) -> bool {
    let parts = [
        "Destroy",
        "Unload",
        "cuMemFree",
        "AddressFree",
        "MemRelease",
        "Unregister",
    ];
    parts.iter().any(|part| function.contains(part)) && function != "cuGraphDestroyNode"
}

/// The memory whose addresses a function takes.
pub(crate) fn wanted_memory(function: &str) -> &'static [Memory] {
    let is = |part| function.contains(part);
    match function {
        "cuMemMap"
        | "cuMemSetAccess"
        | "cuMemGetAccess"
        | "cuMemUnmap"
        | "cuMemAddressFree"
        | "cuMemRetainAllocationHandle"
        | "cuMemGetHandleForAddressRange" => &[Memory::Reserved],
        "cuMemFree_v2" | "cuIpcGetMemHandle" => &[Memory::Device],
        "cuMemPoolExportPointer" => &[Memory::Ordered],
        "cuGraphAddMemFreeNode" => &[Memory::Graph],
        "cuMemFreeHost" | "cuMemHostGetDevicePointer_v2" | "cuMemHostGetFlags" => &[Memory::Host],
        "cuMemHostUnregister" => &[Memory::Registered],
        _ if is("cuMemFreeAsync") => &[Memory::Ordered],
        _ if is("Advise") || is("Prefetch") || is("MemRange") => &[Memory::Managed],
        _ if is("AttachMem") || is("Discard") => &[Memory::Managed],
        _ => &[
            Memory::Device,
            Memory::Ordered,
            Memory::Managed,
            Memory::Host,
        ],
    }
}

/// A device address that a function returned.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub(crate) value: u64,
    pub(crate) made_by: &'static str,
}

/// The owner of the memory at an address, as far as the functions of the driver distinguish it.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Memory {
    Device,
    Ordered,
    Managed,
    Host,
    /// A part of a module, or of memory of another API.
    Part,
    /// Memory of the program.
    Registered,
    /// Addresses without memory.
    Reserved,
    /// Memory of a graph, which exists only while the graph runs.
    Graph,
}

impl Address {
    pub(crate) fn is_for_good(self) -> bool {
        FOR_GOOD.contains(&self.made_by)
    }

    pub(crate) fn memory(self) -> Memory {
        let is = |part| self.made_by.contains(part);
        match self.made_by {
            "cuMemAlloc_v2" | "cuMemAllocPitch_v2" | "cuMemSetAccess" => Memory::Device,
            "cuMemAddressReserve" => Memory::Reserved,
            "cuMemAllocManaged" => Memory::Managed,
            _ if is("cuGraph") => Memory::Graph,
            "cuMemHostRegister" | "cuMemHostRegister_v2" => Memory::Registered,
            _ if is("Host") => Memory::Host,
            _ if is("Async") => Memory::Ordered,
            _ => Memory::Part,
        }
    }
}

#[derive(Default)]
pub(crate) struct Known {
    /// Live handles of each kind.
    handles: BTreeMap<&'static str, Vec<u64>>,
    /// For each handle the first handle in the arguments of the call that returned it.
    parents: BTreeMap<u64, u64>,
    images: BTreeMap<u64, usize>,
    /// Handles of destroyed objects.
    destroyed: Vec<u64>,
    pub(crate) addresses: Vec<Address>,
    /// Freed addresses that fault permanently.
    freed: Vec<u64>,
    structures: BTreeMap<&'static str, Vec<Vec<u64>>>,
}

fn push<T>(all: &mut Vec<T>, new: T) {
    if all.len() == KEPT {
        all.remove(0);
    }
    all.push(new);
}

impl Known {
    pub(crate) fn add(&mut self, kind: &'static str, handle: u64, parent: u64) {
        let all = self.handles.entry(kind).or_default();
        if !all.contains(&handle) {
            push(all, handle);
            self.parents.insert(handle, parent);
        }
    }

    pub(crate) fn add_address(&mut self, value: u64, made_by: &'static str) {
        push(&mut self.addresses, Address { value, made_by });
    }

    pub(crate) fn add_structure(&mut self, kind: &'static str, words: &[u64]) {
        push(self.structures.entry(kind).or_default(), words.to_vec());
    }

    /// Remembers that a handle or an address is no longer valid, and with it the objects that were
    /// made from it.
    pub(crate) fn destroy(&mut self, handle: u64) {
        let known = self.addresses.iter().find(|known| known.value == handle);
        if known.is_some_and(|known| known.is_for_good()) {
            push(&mut self.freed, handle);
        }
        self.addresses.retain(|known| known.value != handle);
        for all in self.handles.values_mut() {
            all.retain(|&known| known != handle);
        }
        if self.parents.remove(&handle).is_some() {
            push(&mut self.destroyed, handle);
        }
        if handle == 0 {
            return;
        }
        let of_it = |(child, parent): (&u64, &u64)| (*parent == handle).then_some(*child);
        let children: Vec<u64> = self.parents.iter().filter_map(of_it).collect();
        for child in children {
            self.destroy(child);
        }
    }

    pub(crate) fn set_image(&mut self, handle: u64, image: usize) {
        self.images.insert(handle, image);
    }

    /// The index of the text that a module or a library was loaded from.
    pub(crate) fn image(&self, handle: u64) -> Option<usize> {
        let of_parent = || self.images.get(&self.parent(handle));
        self.images.get(&handle).or_else(of_parent).copied()
    }

    pub(crate) fn handles(&self, kind: &str) -> &[u64] {
        self.handles.get(kind).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.handles.keys().copied().collect()
    }

    pub(crate) fn destroyed(&self) -> &[u64] {
        &self.destroyed
    }

    pub(crate) fn freed(&self) -> &[u64] {
        &self.freed
    }

    pub(crate) fn parent(&self, handle: u64) -> u64 {
        self.parents.get(&handle).copied().unwrap_or(0)
    }

    pub(crate) fn structures(&self, kind: &str) -> &[Vec<u64>] {
        self.structures.get(kind).map_or(&[], Vec::as_slice)
    }
}
