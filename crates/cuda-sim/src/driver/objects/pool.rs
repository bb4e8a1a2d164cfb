//! Memory pools.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cuda_sys::{CUmemAccess_flags, CUmemLocation};

use crate::driver::handle::fresh;
use crate::lock::lock;
use crate::memory::shared_file::SharedFile;

/// The place of the memory of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::driver) enum Home {
    /// On the device of the pool.
    Device,
    /// Page-locked memory of the host. The device of the pool is device 0.
    Host(Near),
    /// Managed memory. The device of the pool is its preferred location, or device 0.
    Managed(Near),
}

/// The location that memory of the host or managed memory is bound to, or prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::driver) enum Near {
    Device,
    Host,
    Numa,
    Any,
}

/// The pools of a location other than a device.
#[derive(Debug)]
pub(in crate::driver) struct PlacePools {
    pub(in crate::driver) default: Arc<Pool>,
    pub(in crate::driver) current: Arc<Pool>,
}

/// A memory pool.
#[derive(Debug)]
pub(in crate::driver) struct Pool {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) device: usize,
    pub(in crate::driver) home: Home,
    pub(in crate::driver) is_default: bool,
    pub(in crate::driver) used: AtomicU64,
    pub(in crate::driver) used_high: AtomicU64,
    pub(in crate::driver) reserved_high: AtomicU64,
    pub(in crate::driver) threshold: AtomicU64,
    /// The three reuse attributes, which are enabled by default.
    pub(in crate::driver) reuse: [AtomicU64; 3],
    pub(in crate::driver) max_size: u64,
    /// The types of handles that can be exported.
    pub(in crate::driver) handle_types: u32,
    /// Whether the pool was exported, which its memory needs before it can be exported.
    pub(in crate::driver) is_exported: AtomicBool,
    /// The number of the pool in handles of its memory.
    pub(in crate::driver) number: u64,
    /// The origin of the pool, if another process created it. It then has memory of that process
    /// only.
    pub(in crate::driver) origin: Option<ImportedPool>,
    /// The access of other devices to its memory, by ordinal.
    pub(in crate::driver) access: Mutex<BTreeMap<usize, CUmemAccess_flags>>,
}

impl Pool {
    /// Whether the device with this ordinal can access the memory.
    pub(in crate::driver) fn is_accessible(&self, device: usize) -> bool {
        self.is_always_accessible(device) || {
            let access = lock(&self.access);
            access.get(&device).is_some_and(|flags| flags.0 != 0)
        }
    }

    /// Whether the device with this ordinal can access the memory without `cuMemPoolSetAccess`.
    pub(in crate::driver) fn is_always_accessible(&self, device: usize) -> bool {
        match self.home {
            Home::Device => device == self.device,
            Home::Host(_) => false,
            Home::Managed(_) => true,
        }
    }

    pub(in crate::driver) fn new(device: usize, is_default: bool) -> Self {
        Self::at(device, Home::Device, is_default)
    }

    pub(in crate::driver) fn at(device: usize, home: Home, is_default: bool) -> Self {
        let handle = fresh();
        Self {
            handle,
            // A position in a file, which is smaller than a handle.
            number: handle & u64::from(u32::MAX),
            handle_types: 0,
            is_exported: AtomicBool::new(false),
            origin: None,
            device,
            home,
            is_default,
            used: AtomicU64::new(0),
            used_high: AtomicU64::new(0),
            reserved_high: AtomicU64::new(0),
            threshold: AtomicU64::new(0),
            reuse: [const { AtomicU64::new(1) }; 3],
            max_size: 0,
            access: Mutex::default(),
        }
    }

    /// Adds `size` bytes to the used memory. Returns false if that exceeds the maximum size of the
    /// pool.
    pub(in crate::driver) fn take(&self, size: u64) -> bool {
        let more = |used: u64| {
            let used = used.checked_add(size)?;
            (self.max_size == 0 || used <= self.max_size).then_some(used)
        };
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Updates the high-water mark after an allocation that [`take`](Self::take) counted has
    /// succeeded.
    pub(in crate::driver) fn grown(&self) {
        let used = self.used.load(Ordering::Relaxed);
        self.used_high.fetch_max(used, Ordering::Relaxed);
        self.reserved_high.fetch_max(used, Ordering::Relaxed);
    }

    pub(in crate::driver) fn give(&self, size: u64) {
        self.used.fetch_sub(size, Ordering::Relaxed);
    }
}

/// The origin of a pool that another process created.
#[derive(Debug)]
pub(in crate::driver) struct ImportedPool {
    /// The memory of the device of the other process.
    pub(in crate::driver) file: SharedFile,
    /// The number of the pool in the other process.
    pub(in crate::driver) number: u64,
}

/// Returns the id in a location; some versions of the header put it into a union.
pub(in crate::driver) fn location_id(location: &CUmemLocation) -> c_int {
    let bytes = std::ptr::from_ref(location).cast::<c_int>();
    // SAFETY: the second `int` of the struct must be initialized ← it is `id` in the header of
    // every CUDA version, directly or as the first member of a union, and callers of C functions
    // initialize it.
    unsafe { bytes.wrapping_add(1).read() }
}
