//! The records of CUPTI, converted to types of this crate.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;

use cuda_sys::cupti::{
    CUpti_Activity, CUpti_ActivityKernel, CUpti_ActivityKind, CUpti_ActivityMemcpy,
    CUpti_ActivityMemcpyPtoP, CUpti_ActivityMemset, CUptiResult, CuptiTable,
};

use super::super::result::Kernel;
use crate::observer::KernelResources;
use crate::types::{Dim3, LaunchConfig, WorkKind};

/// A piece of work that the device has executed. Times are those of CUPTI's clock in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    pub(super) kind: WorkKind,
    /// The name of a kernel; otherwise that of the kind.
    pub(super) name: Arc<str>,
    pub(super) bytes: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) context: u32,
    pub(super) stream: u32,
    /// The id of the call that queued the work.
    pub(super) correlation: u32,
}

/// The records that CUPTI has delivered.
#[derive(Clone, Default)]
pub(super) struct Records {
    pub(super) activities: Vec<Activity>,
    /// The first launch of each kernel.
    pub(super) kernels: HashMap<Arc<str>, Kernel>,
    names: HashSet<Arc<str>>,
}

impl Records {
    /// Adds the records of another buffer.
    pub(super) fn append(&mut self, other: Self) {
        self.activities.extend(other.activities);
        for (name, kernel) in other.kernels {
            self.kernels.entry(name).or_insert(kernel);
        }
    }

    /// Adds the records in a buffer.
    ///
    /// # Safety
    ///
    /// The first `valid` bytes of `buffer` are records of a known version of CUPTI, and the names
    /// of the kernels still exist.
    pub(super) unsafe fn add_buffer(&mut self, table: &CuptiTable, buffer: *mut u8, valid: usize) {
        let mut record: *mut CUpti_Activity = ptr::null_mut();
        loop {
            // SAFETY: the bytes must be records, and `record` null or the last record ← the caller
            // guarantees the former, and only this call writes `record`.
            let status =
                unsafe { (table.cuptiActivityGetNextRecord)(buffer, valid, &raw mut record) };
            if status != CUptiResult::CUPTI_SUCCESS || record.is_null() {
                return;
            }
            let room = valid.saturating_sub(record.addr().wrapping_sub(buffer.addr()));
            // SAFETY: the record must be one of a known version with `room` bytes ← the caller
            // guarantees the version, and the bytes up to `valid` are records.
            unsafe { self.add(record, room) };
        }
    }

    /// Adds a record, if it is of a kind that the profiler uses and has a time.
    ///
    /// # Safety
    ///
    /// `record` points to a record of a known version of CUPTI, of which `room` bytes exist.
    unsafe fn add(&mut self, record: *const CUpti_Activity, room: usize) {
        if room < size_of::<CUpti_Activity>() {
            return;
        }
        // SAFETY: the pointer must be readable ← the record has at least this many bytes.
        let CUpti_Activity { kind } = unsafe { record.read_unaligned() };
        let activity = match kind {
            CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_KERNEL
            | CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => {
                // SAFETY: the record must be of this type ← records of these kinds are.
                let Some(it) = (unsafe { read::<CUpti_ActivityKernel>(record, room) }) else {
                    return;
                };
                // SAFETY: the name must be null or a C string ← CUPTI keeps the names of kernels.
                let name = unsafe { self.name_at(it.name) };
                if !self.kernels.contains_key(&name) {
                    self.kernels.insert(Arc::clone(&name), kernel_of(&it));
                }
                Activity {
                    kind: WorkKind::Kernel,
                    name,
                    bytes: 0,
                    start: it.start,
                    end: it.end,
                    context: it.contextId,
                    stream: it.streamId,
                    correlation: it.correlationId,
                }
            }
            CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMCPY => {
                // SAFETY: the record must be of this type ← records of this kind are.
                let Some(it) = (unsafe { read::<CUpti_ActivityMemcpy>(record, room) }) else {
                    return;
                };
                let kind = copy_kind(it.copyKind);
                Activity {
                    kind,
                    name: self.name(kind.name()),
                    bytes: it.bytes,
                    start: it.start,
                    end: it.end,
                    context: it.contextId,
                    stream: it.streamId,
                    correlation: it.correlationId,
                }
            }
            CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMCPY2 => {
                // SAFETY: the record must be of this type ← records of this kind are.
                let Some(it) = (unsafe { read::<CUpti_ActivityMemcpyPtoP>(record, room) }) else {
                    return;
                };
                Activity {
                    kind: WorkKind::CopyToPeer,
                    name: self.name(WorkKind::CopyToPeer.name()),
                    bytes: it.bytes,
                    start: it.start,
                    end: it.end,
                    context: it.contextId,
                    stream: it.streamId,
                    correlation: it.correlationId,
                }
            }
            CUpti_ActivityKind::CUPTI_ACTIVITY_KIND_MEMSET => {
                // SAFETY: the record must be of this type ← records of this kind are.
                let Some(it) = (unsafe { read::<CUpti_ActivityMemset>(record, room) }) else {
                    return;
                };
                Activity {
                    kind: WorkKind::Fill,
                    name: self.name(WorkKind::Fill.name()),
                    bytes: it.bytes,
                    start: it.start,
                    end: it.end,
                    context: it.contextId,
                    stream: it.streamId,
                    correlation: it.correlationId,
                }
            }
            _ => return,
        };
        // A record without times is of work that was not complete, or could not be timed.
        if activity.start > 0 && activity.end >= activity.start {
            self.activities.push(activity);
        }
    }

    /// Returns a shared copy of a C string.
    ///
    /// # Safety
    ///
    /// `name` is null or a C string.
    unsafe fn name_at(&mut self, name: *const c_char) -> Arc<str> {
        if name.is_null() {
            return self.name("unknown kernel");
        }
        // SAFETY: the pointer must be a C string ← the caller guarantees it.
        let name = unsafe { CStr::from_ptr(name) };
        self.name(&name.to_string_lossy())
    }

    /// Returns a shared copy of a name.
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

/// Reads a record, or returns `None` if the buffer ends before it.
///
/// # Safety
///
/// `record` points to a record of type `T`, of which `room` bytes exist.
unsafe fn read<T: Copy>(record: *const CUpti_Activity, room: usize) -> Option<T> {
    // SAFETY: a `T` must be readable there ← the caller guarantees it, and that it is long enough
    // is checked here. No alignment is required.
    (room >= size_of::<T>()).then(|| unsafe { record.cast::<T>().read_unaligned() })
}

fn kernel_of(it: &CUpti_ActivityKernel) -> Kernel {
    let dim = |[x, y, z]: [i32; 3]| Dim3 {
        x: x.unsigned_abs(),
        y: y.unsigned_abs(),
        z: z.unsigned_abs(),
    };
    Kernel {
        config: LaunchConfig {
            grid: dim([it.gridX, it.gridY, it.gridZ]),
            block: dim([it.blockX, it.blockY, it.blockZ]),
            shared_bytes: it.dynamicSharedMemory.unsigned_abs(),
        },
        resources: KernelResources {
            registers: it.registersPerThread.into(),
            static_shared: it.staticSharedMemory.unsigned_abs(),
            local: it.localMemoryPerThread,
            occupancy: 0.0,
        },
        has_occupancy: false,
    }
}

/// Converts a `CUpti_ActivityMemcpyKind`.
fn copy_kind(kind: u8) -> WorkKind {
    match kind {
        // Between the host and device memory or arrays.
        1 | 3 => WorkKind::CopyToDevice,
        2 | 4 => WorkKind::CopyToHost,
        10 => WorkKind::CopyToPeer,
        _ => WorkKind::CopyOnDevice,
    }
}
