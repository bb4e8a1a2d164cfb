//! Allocations of device, managed and host memory.

use std::alloc;
use std::alloc::Layout;
use std::sync::{Arc, Mutex};

use crate::driver::objects::advice::Pages;
use crate::driver::objects::device::Device;
use crate::driver::objects::graph::memory::GraphMemory;
use crate::driver::objects::imported::Imported;
use crate::driver::objects::pool::Pool;
use crate::memory::{POISON, POISON_LIMIT};

/// A live allocation of any kind.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(in crate::driver) size: u64,
    pub(in crate::driver) kind: Kind,
    pub(in crate::driver) device: Arc<Device>,
    /// The handle of the context in which it was made, or 0.
    pub(in crate::driver) context: u64,
    /// The unique id of the allocation.
    pub(in crate::driver) id: u64,
    /// Whether the memory still belongs to this allocation. Operations that depend on it hold the
    /// lock meanwhile.
    pub(in crate::driver) is_there: Arc<Mutex<bool>>,
    /// The mapping, if another process allocated the memory. The kind is then the kind in that
    /// process.
    pub(in crate::driver) imported: Option<Imported>,
    /// Whether copies and fills without a stream wait until they are complete, even if all of their
    /// memory is device memory: `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`.
    pub(in crate::driver) sync_mem_ops: bool,
}

/// The kind of an allocation, which determines where its bytes are and how it is freed.
#[derive(Debug)]
pub(in crate::driver) enum Kind {
    /// `cuMemAlloc`
    Device,
    /// `cuMemAllocAsync`
    Pool(Arc<Pool>),
    /// Memory of a pool of host memory.
    HostPool(Arc<Pool>),
    /// Memory of a pool of managed memory.
    ManagedPool(Arc<Pool>, Pages),
    /// `cuMemHostAlloc`, with its flags.
    Pinned(u32),
    /// `cuMemHostRegister`, with its flags.
    Registered(u32),
    /// `cuMemAllocManaged`
    Managed(Pages),
    /// An allocation node of a graph.
    Graph(Arc<GraphMemory>),
}

impl Kind {
    /// Returns whether the bytes are host memory.
    pub(in crate::driver) fn is_host(&self) -> bool {
        matches!(
            self,
            Self::Pinned(..) | Self::Registered(_) | Self::HostPool(_)
        )
    }
}

/// Host memory that the driver owns. Each user of the memory holds a reference, so that it outlives
/// work that is still running when it is freed.
#[derive(Debug)]
pub(in crate::driver) struct Block {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: a `Block` owns its bytes and is not tied to a thread.
unsafe impl Send for Block {}

// SAFETY: as for `Send`; `&self` gives access to the address only.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates `size` bytes, aligned to a page and filled with [`POISON`]. Returns `None` if
    /// the host has no memory left.
    pub(in crate::driver) fn new(size: u64) -> Option<Self> {
        let layout = Layout::from_size_align(usize::try_from(size).ok()?.max(1), 4096).ok()?;
        // SAFETY: the size must not be zero ← `max(1)` above ensures it.
        let start = unsafe { alloc::alloc(layout) };
        if start.is_null() {
            return None;
        }
        let poisoned = layout.size().min(POISON_LIMIT as usize);
        // SAFETY: `poisoned` bytes at `start` must be writable ← at least that many were just
        // allocated.
        unsafe { start.write_bytes(POISON, poisoned) };
        Some(Self { start, layout })
    }

    pub(in crate::driver) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` must come from `alloc` with this layout and be freed once ← `new` is the
        // only constructor, and this is the owner's drop.
        unsafe { alloc::dealloc(self.start, self.layout) };
    }
}
