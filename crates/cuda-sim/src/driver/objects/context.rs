//! Contexts.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;

use cuda_sys::CUlimit;

use crate::driver::objects::device::Device;
use crate::driver::objects::heap::Heap;
use crate::driver::objects::sm_set::{SmSet, Workqueues};
use crate::engine::{GroupId, QueueId};
use crate::lock::lock;

/// A context.
#[derive(Debug)]
pub(in crate::driver) struct Context {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) device: Arc<Device>,
    pub(in crate::driver) is_primary: bool,
    /// The multiprocessors of the context, if it is a green context.
    pub(in crate::driver) green: Option<Green>,
    pub(in crate::driver) group: GroupId,
    pub(in crate::driver) legacy: QueueId,
    pub(in crate::driver) per_thread: Mutex<HashMap<ThreadId, QueueId>>,
    pub(in crate::driver) flags: AtomicU32,
    pub(in crate::driver) limits: Mutex<HashMap<u32, usize>>,
    /// The `CUfunc_cache` that `cuCtxSetCacheConfig` has set.
    pub(in crate::driver) cache: AtomicI32,
    /// The `CUsharedconfig` that `cuCtxSetSharedMemConfig` has set.
    pub(in crate::driver) shared: AtomicI32,
    pub(in crate::driver) is_alive: AtomicBool,
    /// The number of `cuCtxAttach` calls that `cuCtxDetach` has not undone.
    pub(in crate::driver) attached: AtomicU32,
    /// The memory that kernels allocate with `malloc`.
    pub(in crate::driver) heap: Arc<Heap>,
    /// The ordinals of the peer devices whose memory kernels of this context may access.
    pub(in crate::driver) peers: Mutex<HashSet<usize>>,
}

/// The state that only green contexts have.
#[derive(Debug)]
pub(in crate::driver) struct Green {
    /// The handle of type `CUgreenCtx`.
    pub(in crate::driver) handle: u64,
    /// The primary context, which owns the memory and the modules.
    pub(in crate::driver) home: Arc<Context>,
    pub(in crate::driver) sms: SmSet,
    pub(in crate::driver) workqueues: Workqueues,
}

/// The primary context of a device.
#[derive(Debug, Default)]
pub(in crate::driver) struct Primary {
    pub(in crate::driver) count: usize,
    pub(in crate::driver) flags: u32,
    pub(in crate::driver) context: Option<Arc<Context>>,
    /// The last context that a reset has destroyed, whose handle stays.
    pub(in crate::driver) reset: Option<Arc<Context>>,
}

/// `CU_CTX_SCHED_MASK`
const SCHED_MASK: u32 = 7;

impl Context {
    pub(in crate::driver) fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Acquire)
    }

    /// Returns the context that owns the memory, the modules and the settings: this one, or the
    /// primary context if this is a green context.
    pub(in crate::driver) fn home(self: &Arc<Self>) -> &Arc<Self> {
        self.green.as_ref().map_or(self, |green| &green.home)
    }

    /// Returns the handle of [`home`](Self::home).
    pub(in crate::driver) fn home_handle(&self) -> u64 {
        let green = self.green.as_ref();
        green.map_or(self.handle, |green| green.home.handle)
    }

    /// Returns the handle of [`home`](Self::home), with the device.
    pub(in crate::driver) fn owner(&self) -> (u64, &Arc<Device>) {
        (self.home_handle(), &self.device)
    }

    /// Returns whether the context is a green context whose memory `home` owns.
    pub(in crate::driver) fn is_green_of(&self, home: &Self) -> bool {
        let green = self.green.as_ref();
        green.is_some_and(|green| green.home.handle == home.handle)
    }

    /// Returns the multiprocessors that its kernels use.
    pub(in crate::driver) fn sms(&self) -> SmSet {
        match &self.green {
            Some(green) => green.sms,
            None => self.device.sms(),
        }
    }

    pub(in crate::driver) fn peers(&self) -> MutexGuard<'_, HashSet<usize>> {
        lock(&self.peers)
    }

    pub(in crate::driver) fn limit(&self, limit: CUlimit) -> Option<usize> {
        let limits = lock(&self.limits);
        limits.get(&(limit.0)).copied().or(match limit {
            CUlimit::CU_LIMIT_STACK_SIZE => Some(1024),
            CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => Some(1 << 20),
            CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => Some(8 << 20),
            CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH => Some(2),
            CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => Some(2048),
            CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY => Some(64),
            CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE => Some(0),
            _ => None,
        })
    }

    /// Returns the largest size of the device heap in bytes.
    pub(in crate::driver) fn heap_bytes(&self) -> u64 {
        let bytes = self.limit(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE);
        bytes.unwrap_or(0) as u64
    }

    /// Returns the minimum stack size of each thread of its kernels, in bytes.
    pub(in crate::driver) fn stack_bytes(&self) -> u32 {
        let bytes = self.limit(CUlimit::CU_LIMIT_STACK_SIZE).unwrap_or(0);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// Returns whether at most one of the scheduling flags is set.
pub(in crate::driver) fn is_schedule(flags: u32) -> bool {
    matches!(flags & SCHED_MASK, 0 | 1 | 2 | 4)
}
