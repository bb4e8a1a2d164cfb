//! Pools of other processes.

use std::fmt;
use std::ptr;

use super::{BorrowedShareableHandle, HANDLE_TYPE, ImportArgument, PoolPointer};
use crate::device::Device;
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::{DeviceBuffer, DeviceRepr, Memory, MemoryAccess, MemoryPool, bytes_of};
use crate::stream::Stream;

/// A pool that another process has [exported](MemoryPool::export). This process
/// [opens](Self::open) allocations of the pool as buffers; it cannot allocate from it.
///
/// Cloning it returns another handle to the same pool. The pool is released in this process when
/// the last handle and the last buffer of it are dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct ImportedPool(MemoryPool);

impl ImportedPool {
    /// `cuMemPoolImportFromShareableHandle()`, `cuMemPoolSetAccess()`—Imports a pool for use by
    /// `device`. The handle may be closed afterwards.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the handle is not that of a pool. `CUDA_ERROR_INVALID_DEVICE`
    /// if `device` cannot access the memory of the pool.
    ///
    /// # Safety
    ///
    /// [`MemoryPool::export`] has returned the handle, in this process or in another one.
    #[doc(alias = "cuMemPoolImportFromShareableHandle")]
    #[doc(alias = "cudaMemPoolImportFromShareableHandle")]
    pub unsafe fn import(device: &Device, handle: BorrowedShareableHandle<'_>) -> Result<Self> {
        let driver = device.driver();
        let mut raw = ptr::null_mut();
        let argument = ImportArgument::new(handle);
        // SAFETY: the pointer must be writable and the handle open ← the pointer is to a local
        // variable, and the handle is borrowed.
        unsafe {
            call!(
                driver,
                cuMemPoolImportFromShareableHandle(&raw mut raw, argument.as_ptr(), HANDLE_TYPE, 0)
            )
        }?;
        // SAFETY: no other code may destroy the pool ← it was imported just now.
        let pool = unsafe { MemoryPool::of_imported(device, raw) };
        if pool.access(device)? != MemoryAccess::ReadWrite {
            // SAFETY: granting access has no requirements.
            unsafe { pool.set_access(device, MemoryAccess::ReadWrite) }?;
        }
        Ok(Self(pool))
    }

    /// `cuMemPoolImportPointer()`—Opens an allocation of the pool as a buffer of `len` elements,
    /// whose owning stream is `stream`.
    ///
    /// Dropping the buffer queues `cuMemFreeAsync` on the owning stream, after all uses in this
    /// process. That closes the memory in this process and does not free it. Wait for the stream
    /// before telling the exporting process that the memory is closed.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if `stream` is not of the device of the pool. [`Error::Unsupported`]
    /// if the buffer would have 0 bytes. `CUDA_ERROR_INVALID_VALUE` if the pointer is not one of
    /// this pool.
    ///
    /// # Safety
    ///
    /// - The pointer is that of an [`ExportedBuffer`](super::ExportedBuffer), or of other code that
    ///   keeps the same rules. Its memory has at least `len` elements of `T`, and all of them have
    ///   been written.
    /// - The exporting process does not free the memory before this process has closed it, unless
    ///   it ends. It waits for the close, by an event or by a message.
    /// - Accesses of this process to the memory do not overlap with those of other processes,
    ///   unless all of them read. Events that both processes use, or waits of the host, order them.
    ///   If this process has the memory open twice, the same applies to the two buffers.
    #[doc(alias = "cuMemPoolImportPointer")]
    #[doc(alias = "cudaMemPoolImportPointer")]
    pub unsafe fn open<T: DeviceRepr>(
        &self,
        stream: &Stream,
        pointer: &PoolPointer,
        len: usize,
    ) -> Result<DeviceBuffer<T>> {
        stream.expect_direct("ImportedPool::open")?;
        if stream.context().device() != self.device() {
            return Err(Error::other_context(
                "the imported pool",
                self.device(),
                stream.context(),
            ));
        }
        let bytes = bytes_of::<T>(len)?;
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "opening memory of another process as a buffer of 0 bytes; open at least one \
                       element",
            });
        }
        let driver = stream.driver();
        let _current = stream.context().enter()?;
        let (mut address, mut raw) = (0, pointer.raw());
        // SAFETY: the pointers must be valid and the pool alive ← they point to local variables,
        // and the pool is borrowed.
        unsafe {
            call!(
                driver,
                cuMemPoolImportPointer(&raw mut address, self.0.as_raw(), &raw mut raw)
            )
        }?;
        // SAFETY: the memory must be usable, from `source`, and freed by no other code ← it was
        // opened just now, and the pool frees it in order.
        let memory = unsafe { Memory::of_source(stream, address, bytes, self.0.source()) };
        Ok(DeviceBuffer::of_memory(memory, len))
    }

    /// Returns the device that uses the memory.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.0.device()
    }

    /// `cuMemPoolGetAccess()`—Returns the access of `device` to the memory of the pool.
    ///
    /// # Errors
    ///
    /// Fails as [`MemoryPool::access`] does.
    pub fn access(&self, device: &Device) -> Result<MemoryAccess> {
        self.0.access(device)
    }

    /// `cuMemPoolDestroy()`—Drops this handle, and releases the pool in this process if it was the
    /// last one, as [`MemoryPool::close`] does.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }
}

impl fmt::Debug for ImportedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ImportedPool({:?} on {:?})",
            self.0.as_raw(),
            self.device()
        )
    }
}
