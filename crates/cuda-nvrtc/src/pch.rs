//! The memory of precompiled headers
//! ([`Options::precompiled_headers`](crate::Options::precompiled_headers)): one heap for the
//! process, out of which NVRTC writes them.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

use cuda_sys::nvrtc::calls;

use crate::library::check;
use crate::{Error, Nvrtc};

/// Held for reading by each compilation, as long as NVRTC may be in the heap, and for writing while
/// the heap is replaced.
static HEAP: RwLock<()> = RwLock::new(());

/// Keeps the heap as it is, while it lives.
pub(crate) fn keep_heap() -> RwLockReadGuard<'static, ()> {
    HEAP.read().unwrap_or_else(PoisonError::into_inner)
}

/// What a compilation did about writing precompiled headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PchStatus {
    /// Nothing: they were not asked for, NVRTC saw no gain, or they were there already.
    #[default]
    NotAttempted,
    /// They were written.
    Created,
    /// They did not fit in the heap, and the compilation went on without:
    /// [`Nvrtc::set_pch_heap_size`], or it will take the time for nothing each time.
    HeapExhausted {
        /// The size that the heap would need, in bytes.
        required: usize,
    },
    /// They could not be written; the log tells more.
    Failed,
}

/// Precompiled headers. All of it needs NVRTC 12.8.
impl Nvrtc {
    /// `nvrtcGetPCHHeapSize`—The size of the heap for precompiled headers, in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::MissingFunction`] before NVRTC 12.8.
    #[doc(alias = "nvrtcGetPCHHeapSize")]
    pub fn pch_heap_size(&self) -> Result<usize, Error> {
        let ask = self.function(self.table().nvrtcGetPCHHeapSize, calls::nvrtcGetPCHHeapSize)?;
        let mut size = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        let status = unsafe { ask(&raw mut size) };
        check(status, calls::nvrtcGetPCHHeapSize)?;
        Ok(size)
    }

    /// `nvrtcSetPCHHeapSize`—Sets the size of the heap for precompiled headers, for compilations
    /// that begin later.
    ///
    /// NVRTC rounds it up to whole pages.
    ///
    /// # Errors
    ///
    /// [`Error::MissingFunction`] before NVRTC 12.8. [`Error::Compiling`] while a compilation runs
    /// in this process, for NVRTC gives the heap back at once; one that was left to itself after a
    /// time-out or a cancellation runs on.
    #[doc(alias = "nvrtcSetPCHHeapSize")]
    pub fn set_pch_heap_size(&self, bytes: usize) -> Result<(), Error> {
        let set = self.function(self.table().nvrtcSetPCHHeapSize, calls::nvrtcSetPCHHeapSize)?;
        let _alone = match HEAP.try_write() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Compiling {
                    function: calls::nvrtcSetPCHHeapSize,
                });
            }
        };
        // SAFETY: nobody may be in the heap, which is given back ← every compilation of this crate
        // holds the lock that was just taken alone; who compiles through the raw library says that
        // it goes with what else is done.
        let status = unsafe { set(bytes) };
        check(status, calls::nvrtcSetPCHHeapSize)
    }
}
