//! The heap in which NVRTC creates precompiled headers
//! ([`Options::precompiled_headers`](crate::Options::precompiled_headers)). Each process has one.

use std::sync::{RwLock, RwLockReadGuard, TryLockError};

use cuda_sys::nvrtc::calls;

use crate::library::check;
use crate::lock::read;
use crate::{Error, Nvrtc};

/// The lock of the heap. A compilation holds it for reading as long as NVRTC may use the heap; a
/// replacement of the heap holds it for writing.
static HEAP: RwLock<()> = RwLock::new(());

/// Prevents a replacement of the heap while the guard lives.
pub(crate) fn keep_heap() -> RwLockReadGuard<'static, ()> {
    read(&HEAP)
}

/// The result of creating precompiled headers in a compilation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PchStatus {
    /// NVRTC did not try: they were not requested, would not help, or existed already.
    #[default]
    NotAttempted,
    /// NVRTC created them.
    Created,
    /// They did not fit in the heap, and the compilation continued without them. Enlarge the heap
    /// with [`Nvrtc::set_pch_heap_size`]; otherwise each compilation wastes the time of the
    /// attempt.
    HeapExhausted {
        /// The size that the heap would need, in bytes.
        required: usize,
    },
    /// NVRTC failed to create them; the log has the details.
    Failed,
}

/// Precompiled headers. All methods require NVRTC 12.8.
impl Nvrtc {
    /// `nvrtcGetPCHHeapSize`—Returns the size of the heap for precompiled headers in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::MissingFunction`] if this NVRTC is older than 12.8.
    #[doc(alias = "nvrtcGetPCHHeapSize")]
    pub fn pch_heap_size(&self) -> Result<usize, Error> {
        let ask = self.function(self.table().nvrtcGetPCHHeapSize, calls::nvrtcGetPCHHeapSize)?;
        let mut size = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        let status = unsafe { ask(&raw mut size) };
        check(status, calls::nvrtcGetPCHHeapSize)?;
        Ok(size)
    }

    /// `nvrtcSetPCHHeapSize`—Sets the size in bytes of the heap for precompiled headers, for
    /// compilations that begin later.
    ///
    /// NVRTC rounds the size up to whole pages.
    ///
    /// # Errors
    ///
    /// [`Error::MissingFunction`] if this NVRTC is older than 12.8. [`Error::Compiling`] while a
    /// compilation runs in this process, because NVRTC frees the old heap at once. A compilation
    /// that was abandoned after a time-out or a cancellation still runs.
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
        // SAFETY: nothing may use the heap, which NVRTC frees ← every compilation of this crate
        // holds the lock for reading, and this call holds it for writing. Code that compiles
        // through the raw library has promised that its calls are compatible with all others.
        let status = unsafe { set(bytes) };
        check(status, calls::nvrtcSetPCHHeapSize)
    }
}
