//! Buffers that other processes use.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, RangeBounds};

use cuda_sys::{CUipcMemHandle, CUmemPoolPtrExportData};

use super::{IpcMemoryHandle, MemoryHandle, PoolPointer};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, Source};
use crate::memory_ledger::MemoryKind;

/// A buffer whose memory other processes can use.
///
/// The process uses it like any [`DeviceBuffer`]. **Dropping it does not free the memory**, because
/// CUDA requires that every other process has closed the memory before it is freed, which this
/// process cannot know. [`reclaim`](Self::reclaim) returns the buffer to the process; without it,
/// the memory stays allocated, with its stream and its context, until the process ends.
///
/// Nothing orders the uses of different processes: see
/// [`Event::ipc_handle`](crate::Event::ipc_handle).
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::{MemoryHandle, MemoryPool};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let pool = MemoryPool::exportable(context.device())?;
/// // The pool is sent once, as a file descriptor; each buffer as 64 bytes and its length.
/// let descriptor = pool.export()?;
/// let buffer = DeviceBuffer::from_host_in(&pool, &stream, &[1_u32, 2, 3])?.export()?;
/// let MemoryHandle::Pool(pointer) = buffer.handle() else { unreachable!() };
/// println!("send {descriptor:?}, then {:?} and {}", pointer.to_bytes(), buffer.len());
///
/// // The data must be there before the other process reads it.
/// stream.synchronize()?;
/// // … the other process has used and closed the memory …
///
/// // SAFETY: no other process has the memory open.
/// let buffer = unsafe { buffer.reclaim() };
/// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping an exported buffer leaks its memory until the process ends"]
pub struct ExportedBuffer<T> {
    /// Never dropped here: other processes may use the memory.
    buffer: ManuallyDrop<DeviceBuffer<T>>,
    handle: MemoryHandle,
}

/// Other processes.
impl<T: DeviceRepr> DeviceBuffer<T> {
    /// `cuMemPoolExportPointer()`, `cuIpcGetMemHandle()`—Makes the memory available to other
    /// processes. It must come from an [exportable pool](crate::memory::MemoryPool::exportable)
    /// that was [exported](crate::memory::MemoryPool::export) before, or be
    /// [`Unpooled`](crate::memory::Unpooled).
    ///
    /// For an unpooled allocation, other processes get access to the whole block of 2 MiB that
    /// contains it.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the memory comes from another source, if the pool was not exported
    /// before, or if the buffer is empty. `CUDA_ERROR_INVALID_VALUE` if the pool is not exportable.
    /// After any error the buffer is freed.
    #[doc(alias = "cuMemPoolExportPointer")]
    #[doc(alias = "cudaMemPoolExportPointer")]
    #[doc(alias = "cuIpcGetMemHandle")]
    #[doc(alias = "cudaIpcGetMemHandle")]
    pub fn export(self) -> Result<ExportedBuffer<T>> {
        let handle = handle_of(&self.memory)?;
        Ok(ExportedBuffer {
            buffer: ManuallyDrop::new(self),
            handle,
        })
    }
}

fn handle_of(memory: &Memory) -> Result<MemoryHandle> {
    let stream = memory.owning_stream();
    let (driver, address) = (stream.driver(), memory.address);
    let is_pooled = match &memory.source {
        Source::Ordered => true,
        // Driver 580 fails with `CUDA_ERROR_INVALID_VALUE`.
        Source::Other(owner) if owner.awaits_export() => {
            return Err(Error::Unsupported {
                what: "exporting memory of a `MemoryPool` before the pool; call \
                       `MemoryPool::export` first",
            });
        }
        Source::Other(owner) => owner.origin().0 == MemoryKind::Pool,
        _ => false,
    };
    if is_pooled {
        let mut raw = CUmemPoolPtrExportData { reserved: [0; 64] };
        // SAFETY: the pointer must be writable and the memory allocated ← the pointer is to a local
        // variable, and the memory is borrowed.
        unsafe { call!(driver, cuMemPoolExportPointer(&raw mut raw, address)) }?;
        Ok(MemoryHandle::Pool(PoolPointer::of_raw(raw)))
    } else if matches!(memory.source, Source::Plain) {
        let _current = stream.context().enter()?;
        let mut raw = CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: the pointer must be writable and the memory allocated ← the pointer is to a local
        // variable, and the memory is borrowed.
        unsafe { call!(driver, cuIpcGetMemHandle(&raw mut raw, address)) }?;
        Ok(MemoryHandle::Ipc(IpcMemoryHandle::of_raw(raw)))
    } else {
        Err(Error::Unsupported {
            what: "exporting memory that is neither of a `MemoryPool` nor `Unpooled`; \
                   allocate the buffer with one of them (`DeviceBuffer::zeroed_in`)",
        })
    }
}

impl<T: DeviceRepr> ExportedBuffer<T> {
    /// Returns the handle by which another process opens the memory.
    #[must_use]
    pub fn handle(&self) -> &MemoryHandle {
        &self.handle
    }

    /// Returns a writable view of all elements.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// Returns a writable view of the elements in `range`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the length.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.buffer.slice_mut(range)
    }

    /// Returns the buffer as memory of this process only, which is freed when it is dropped.
    ///
    /// # Safety
    ///
    /// - Every process that opened the memory has closed it: its buffer was dropped, and the stream
    ///   on which it was freed has been waited for. A process that has ended has closed all memory.
    /// - No process opens the memory from now on.
    #[must_use = "dropping the buffer frees the memory"]
    pub unsafe fn reclaim(self) -> DeviceBuffer<T> {
        ManuallyDrop::into_inner(self.buffer)
    }
}

/// Read access only: with `DerefMut`, `mem::swap` could exchange the buffer for one that other
/// processes do not use, and drop this one.
impl<T: DeviceRepr> Deref for ExportedBuffer<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

impl<'a, T: DeviceRepr> From<&'a ExportedBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a ExportedBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut ExportedBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut ExportedBuffer<T>) -> Self {
        buffer.as_mut_slice()
    }
}

impl<T> fmt::Debug for ExportedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExportedBuffer({:?})", *self.buffer)
    }
}
