//! Memory of other processes that does not come from a pool.

use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUipcMem_flags};

use super::IpcMemoryHandle;
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, RangeError, Result};
use crate::memory::{Block, DeviceBuffer, DeviceRepr, Memory, Reclaim, Source, bytes_of};
use crate::stream::Stream;
use crate::tracking::{Access, Tracker};

impl IpcMemoryHandle {
    /// `cuIpcOpenMemHandle()`—Opens an allocation of another process, of which the buffer has `len`
    /// elements from the byte `offset` on. Its owning stream is `stream`.
    ///
    /// Dropping the buffer waits for its uses in this process, and closes the memory
    /// (`cuIpcCloseMemHandle`). It frees nothing.
    ///
    /// PyTorch describes a tensor by the handle of a larger allocation, and the offset of the
    /// tensor in it. Its handles have two more bytes in front of the 64 of CUDA.
    ///
    /// # Errors
    ///
    /// - [`Error::Unsupported`] if the buffer would have 0 bytes.
    /// - [`Error::OutOfRange`] if the address is not aligned for `T`.
    /// - `CUDA_ERROR_INVALID_CONTEXT` or `CUDA_ERROR_INVALID_VALUE` if the handle is one of this
    ///   process, or if its process has ended.
    ///
    /// # Safety
    ///
    /// - The handle is one of `cuIpcGetMemHandle`. Its allocation has at least `offset` bytes and
    ///   then `len` elements of `T`, all of which have been written.
    /// - The exporting process does not free the memory before this process has closed it, unless
    ///   it ends.
    /// - Accesses of this process to the memory do not overlap with those of other processes,
    ///   unless all of them read. Events that both processes use, or waits of the host, order them.
    ///   If this process has the memory open twice, the same applies to the two buffers.
    #[doc(alias = "cuIpcOpenMemHandle")]
    #[doc(alias = "cudaIpcOpenMemHandle")]
    pub unsafe fn open<T: DeviceRepr>(
        &self,
        stream: &Stream,
        offset: usize,
        len: usize,
    ) -> Result<DeviceBuffer<T>> {
        stream.expect_direct("IpcMemoryHandle::open")?;
        let bytes = bytes_of::<T>(len)?;
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "opening memory of another process as a buffer of 0 bytes; open at least one \
                       element",
            });
        }
        // SAFETY: the handle must be one of `cuIpcGetMemHandle` ← the caller guarantees it.
        let opened = unsafe { Opened::new(stream.context(), *self) }?;
        let address = opened.base.wrapping_add(offset as CUdeviceptr);
        if !address.is_multiple_of(align_of::<T>() as CUdeviceptr) {
            opened.close()?;
            return Err(Error::from(RangeError::NotMultiple {
                what: "the offset of the elements in bytes",
                given: offset,
                of: align_of::<T>(),
            }));
        }
        let source = Source::Other(Arc::new(opened));
        // SAFETY: the memory must be usable, from `source`, and freed by no other code ← it was
        // opened just now, the caller guarantees its size, and `source` closes it.
        let memory = unsafe { Memory::of_source(stream, address, bytes, source) };
        Ok(DeviceBuffer::of_memory(memory, len))
    }
}

/// An allocation that is open in a context.
struct Opened {
    base: CUdeviceptr,
    context: Context,
}

impl Opened {
    /// # Safety
    ///
    /// The handle is one of `cuIpcGetMemHandle`.
    unsafe fn new(context: &Context, handle: IpcMemoryHandle) -> Result<Self> {
        let _current = context.enter()?;
        let _relaxed = context.driver().relaxed();
        let mut base = 0;
        let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.0;
        // SAFETY: the pointer must be writable and the handle valid ← the pointer is to a local
        // variable, and the caller guarantees the handle.
        unsafe {
            call!(
                context.driver(),
                cuIpcOpenMemHandle_v2(&raw mut base, handle.raw(), flags)
            )
        }?;
        Ok(Self {
            base,
            context: context.clone(),
        })
    }

    /// `cuIpcCloseMemHandle()`—Closes the memory, whose uses are complete.
    #[doc(alias = "cuIpcCloseMemHandle")]
    #[doc(alias = "cudaIpcCloseMemHandle")]
    fn close(&self) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        let _relaxed = self.context.driver().relaxed();
        // SAFETY: the memory must be open and must not be used afterwards ← `new` has opened it,
        // and the callers have waited for all uses.
        unsafe { call!(self.context.driver(), cuIpcCloseMemHandle(self.base)) }
    }
}

/// The host waits for all uses and then closes the memory.
impl Reclaim for Opened {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        if let Err(error) = block.tracker.synchronize(Access::WRITE) {
            // A use may still be running, so the memory stays open. It ends with its context.
            Tracker::keep_context_while_used_elsewhere(&block.tracker);
            return Err(error);
        }
        self.close()
    }

    /// Other code closes the memory; `Opened` does not when it is dropped.
    fn disown(self: Arc<Self>, _: &Block) {}
}
