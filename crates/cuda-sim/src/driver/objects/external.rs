//! Memory and semaphores of other APIs, such as Vulkan.
//!
//! Each is a file in memory: `memfd` on Linux, a section on Windows. The first word of the file of
//! a semaphore is its value: that of a timeline semaphore, or 1 if a binary semaphore is signalled
//! and 0 otherwise.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::{CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS};

use crate::driver::handle::fresh;
use crate::driver::objects::device::Device;
use crate::driver::objects::stream::unless_lost;
use crate::driver::status::{INVALID_VALUE, Status};
use crate::engine::Work;
use crate::memory::shared_file::{SharedFile, SharedPage};

/// Memory of another API.
#[derive(Debug)]
pub(in crate::driver) struct ExternalMemory {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) file: SharedFile,
    /// The offset of the memory in the file.
    pub(in crate::driver) start: u64,
    pub(in crate::driver) size: u64,
    /// Whether it was imported as a dma-buf, of which no arrays can be made.
    pub(in crate::driver) is_dma_buf: bool,
    /// The context that imported it.
    pub(in crate::driver) context: u64,
}

/// A semaphore of another API.
#[derive(Debug)]
pub(in crate::driver) struct ExternalSemaphore {
    pub(in crate::driver) handle: u64,
    /// The context that imported it.
    pub(in crate::driver) context: u64,
    page: SharedPage,
    is_timeline: bool,
}

impl ExternalSemaphore {
    /// Returns the semaphore in a file. Fails with `INVALID_VALUE` if the file has less than a
    /// page.
    pub(in crate::driver) fn new(
        file: &SharedFile,
        is_timeline: bool,
        context: u64,
    ) -> Status<Self> {
        Ok(Self {
            handle: fresh(),
            context,
            page: SharedPage::map(file, 0).map_err(|_| INVALID_VALUE)?,
            is_timeline,
        })
    }

    fn word(&self) -> &AtomicU64 {
        self.page.word(0)
    }

    fn signal(&self, value: u64) {
        if self.is_timeline {
            self.word().fetch_max(value, Ordering::AcqRel);
        } else {
            self.word().store(1, Ordering::Release);
        }
    }

    /// Returns whether a wait for `value` is over. That resets a binary semaphore.
    fn take(&self, value: u64) -> bool {
        if self.is_timeline {
            return self.word().load(Ordering::Acquire) >= value;
        }
        let taken = self
            .word()
            .compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok()
    }
}

/// The parameters of a signal or a wait.
pub(in crate::driver) trait Params: Copy + 'static {
    /// Whether the operation signals the semaphore.
    const IS_SIGNAL: bool;

    fn value(&self) -> u64;
    fn flags(&self) -> u32;
}

impl Params for CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {
    const IS_SIGNAL: bool = true;

    fn value(&self) -> u64 {
        self.params.fence.value
    }

    fn flags(&self) -> u32 {
        self.flags
    }
}

impl Params for CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {
    const IS_SIGNAL: bool = false;

    fn value(&self) -> u64 {
        self.params.fence.value
    }

    fn flags(&self) -> u32 {
        self.flags
    }
}

/// One signal or wait.
#[derive(Clone, Debug)]
pub(in crate::driver) struct SemaphoreOp {
    semaphore: Arc<ExternalSemaphore>,
    value: u64,
    is_signal: bool,
}

impl SemaphoreOp {
    /// Converts the operation to queued work.
    pub(in crate::driver) fn work(&self, device: &Arc<Device>) -> Work {
        let Self {
            semaphore, value, ..
        } = self.clone();
        if self.is_signal {
            return Work::Device(Box::new(unless_lost(device, move || {
                semaphore.signal(value);
                Ok(())
            })));
        }
        let device = Arc::clone(device);
        // The condition is polled again after it was true.
        let mut is_over = false;
        Work::Poll(Box::new(move || {
            is_over = is_over || device.alive().is_err() || semaphore.take(value);
            is_over
        }))
    }
}

/// Signals of semaphores, or waits for them, and their parameters at stable addresses, because the
/// program may query pointers to them.
#[derive(Clone)]
pub(in crate::driver) struct Semaphores<P> {
    pub(in crate::driver) ops: Arc<[SemaphoreOp]>,
    handles: Arc<[usize]>,
    raw: Arc<Raw<P>>,
}

struct Raw<P>(Box<[P]>);

// SAFETY: pointers in the parameters are not used, and are returned unchanged.
unsafe impl<P> Send for Raw<P> {}

// SAFETY: as for `Send`.
unsafe impl<P> Sync for Raw<P> {}

impl<P: Params> Semaphores<P> {
    /// Fails with `INVALID_VALUE` if a flag is set, because flags are for other kinds of
    /// semaphores.
    pub(in crate::driver) fn new(all: &[(Arc<ExternalSemaphore>, P)]) -> Status<Self> {
        if all.is_empty() || all.iter().any(|(_, params)| params.flags() != 0) {
            return Err(INVALID_VALUE);
        }
        let op = |(semaphore, params): &(Arc<ExternalSemaphore>, P)| SemaphoreOp {
            semaphore: Arc::clone(semaphore),
            value: params.value(),
            is_signal: P::IS_SIGNAL,
        };
        Ok(Self {
            ops: all.iter().map(op).collect(),
            handles: all.iter().map(|(it, _)| it.handle as usize).collect(),
            raw: Arc::new(Raw(all.iter().map(|&(_, params)| params).collect())),
        })
    }

    /// Returns the array of handles, as C reads it: handles are pointers.
    pub(in crate::driver) fn handles(&self) -> &[usize] {
        &self.handles
    }

    /// Returns the parameters of the operations.
    pub(in crate::driver) fn params(&self) -> &[P] {
        &self.raw.0
    }
}

impl<P> fmt::Debug for Semaphores<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.ops).finish()
    }
}
