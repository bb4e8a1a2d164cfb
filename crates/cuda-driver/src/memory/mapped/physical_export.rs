//! Physical memory that several processes use.

use std::sync::Arc;

use super::{PhysicalKind, PhysicalMemory};
use crate::driver::call;
use crate::error::{Error, RangeError, Result};
use crate::memory::ipc::{
    BorrowedShareableHandle, HANDLE_TYPE, ImportArgument, ShareableHandle, owned,
};

/// Other processes.
impl PhysicalMemory {
    /// `cuMemExportToShareableHandle()`—Returns a handle of the memory, by which another process
    /// [imports](Self::import) it. The memory exists until every process has released it and the
    /// handle is closed.
    ///
    /// Nothing orders the uses of different processes: see
    /// [`Event::ipc_handle`](crate::Event::ipc_handle).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the memory is not of an
    /// [exportable](PhysicalKind::exportable) kind.
    #[doc(alias = "cuMemExportToShareableHandle")]
    pub fn export(&self) -> Result<ShareableHandle> {
        let driver = self.kind().driver();
        let export = |place| {
            // SAFETY: the pointer must be to a place for a handle of the type, and the memory alive
            // ← `owned` provides the place, and the memory is borrowed.
            unsafe {
                call!(
                    driver,
                    cuMemExportToShareableHandle(place, self.as_raw(), HANDLE_TYPE, 0)
                )
            }
        };
        // SAFETY: the handle must be a new one that no other code closes ← the driver creates it.
        Ok(unsafe { owned(export) }?)
    }

    /// `cuMemImportFromShareableHandle()`—Imports `bytes` bytes of memory that another process has
    /// [exported](Self::export). The handle may be closed afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if `bytes` is not a multiple of the
    /// [granularity](PhysicalKind::granularity). `CUDA_ERROR_INVALID_VALUE` if the handle is not
    /// one of physical memory.
    ///
    /// # Safety
    ///
    /// - [`export`](Self::export) has returned the handle, in this process or in another one, for
    ///   memory of this kind that has `bytes` bytes.
    /// - Accesses of this process to the memory do not overlap with those of other processes,
    ///   unless all of them read. Events that both processes use, or waits of the host, order them.
    ///   If this process has the memory twice, the same applies to the two mappings.
    #[doc(alias = "cuMemImportFromShareableHandle")]
    pub unsafe fn import(
        kind: &PhysicalKind,
        handle: BorrowedShareableHandle<'_>,
        bytes: usize,
    ) -> Result<Arc<Self>> {
        let granularity = kind.granularity()?;
        if !bytes.is_multiple_of(granularity) {
            return Err(Error::from(RangeError::NotMultiple {
                what: "the size of physical memory in bytes",
                given: bytes,
                of: granularity,
            }));
        }
        let mut raw = 0;
        let argument = ImportArgument::new(handle);
        // SAFETY: the pointer must be writable and the handle open ← the pointer is to a local
        // variable, and the handle is borrowed.
        unsafe {
            call!(
                kind.driver(),
                cuMemImportFromShareableHandle(&raw mut raw, argument.as_ptr(), HANDLE_TYPE)
            )
        }?;
        // SAFETY: no other code may release the handle ← it was imported just now.
        Ok(unsafe { Self::of_raw(kind, raw, bytes, granularity) })
    }
}
