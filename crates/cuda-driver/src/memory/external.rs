//! Memory of other APIs, such as Vulkan (`cuImportExternalMemory`).
//!
//! In C a successful import takes over a file descriptor, and a failed one does not. Here the
//! descriptor is moved in either case. Buffers and arrays keep the imported memory alive, and no
//! two of them overlap in it.

use std::mem;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1 as RawHandle, CUdeviceptr, CUextMemory_st,
    CUexternalMemory, CUexternalMemoryHandleType,
};

use super::ipc::ShareableHandle;
use super::{Block, DeviceBuffer, DeviceRepr, Memory, Reclaim, Source, bytes_of};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, RangeError, Result};
use crate::handle::{Destroy, Handle};
use crate::lock::{Mutex, rank};
use crate::stream::Stream;
use crate::tracking::Access;
use crate::types::SendPtr;

bitflags::bitflags! {
    /// Properties of [`ExternalMemory`]. Unknown bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ExternalMemoryFlags: u32 {
        /// The memory belongs to one resource of the other API (a dedicated allocation).
        #[doc(alias = "CUDA_EXTERNAL_MEMORY_DEDICATED")]
        const DEDICATED = 1;
        const _ = !0;
    }
}

/// Memory that another API, such as Vulkan, has allocated and exported. Cloning it returns another
/// handle to the same memory.
///
/// Buffers are made of it with [`map`](Self::map), and arrays of images with
/// [`map_array`](Self::map_array). Uses of these buffers and arrays are ordered with each other
/// like those of any buffer. Nothing orders them with the uses of the other API except
/// [semaphores](crate::stream::ExternalSemaphore) of that API, or waits of the host.
///
/// The example `vulkan` of the repository computes with Vulkan and CUDA in the same memory.
///
/// ```
/// # #[cfg(unix)]
/// # {
/// use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // On a GPU, another API such as Vulkan exports the file. The software device takes any file.
/// let file = tempfile::tempfile()?;
/// file.set_len(4096)?;
/// let flags = ExternalMemoryFlags::DEDICATED;
/// // SAFETY: the file has 4,096 bytes, which are zeros, and no other code uses it meanwhile.
/// let memory = unsafe { ExternalMemory::import(&context, file.into(), 4096, flags) }?;
/// let mut buffer = memory.map::<u32>(&stream, 0, 1024)?;
/// assert_eq!(buffer.to_vec()?, [0; 1024]);
/// buffer.fill(7)?;
/// # assert_eq!(buffer.to_vec()?, [7; 1024]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "CUexternalMemory")]
#[doc(alias = "cudaExternalMemory_t")]
#[derive(Clone, Debug)]
pub struct ExternalMemory(Arc<Inner>);

struct Inner {
    /// Declared before `context`: the memory has to be dropped before its context. `None` only
    /// while it is being dropped.
    handle: Option<Handle<RawMemory>>,
    raw: SendPtr<CUextMemory_st>,
    context: Context,
    bytes: usize,
    /// The parts that buffers and arrays map.
    parts: Mutex<Vec<Range<usize>>, { rank::EXTERNAL_PARTS }>,
    /// Whether a mapping may remain that no buffer or array owns. Then the memory is never
    /// destroyed, and no entry of `parts` is removed any more.
    is_kept: AtomicBool,
}

struct RawMemory;

impl Destroy for RawMemory {
    type Raw = SendPtr<CUextMemory_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the memory must be alive, and its buffers and arrays freed ← the caller
        // guarantees the former, and each buffer and array keeps its memory.
        unsafe { call!(driver, cuDestroyExternalMemory(raw.0)) }
    }
}

impl ExternalMemory {
    /// `cuImportExternalMemory()`—Imports `bytes` bytes of memory for use in `context`. `handle` is
    /// an opaque handle: a file descriptor on Unix, and an NT handle on Windows.
    ///
    /// # Errors
    ///
    /// - [`Error::Unsupported`] if `bytes` is 0.
    /// - `CUDA_ERROR_INVALID_VALUE` or another error of the driver if the handle is not one of
    ///   memory of this size. The handle is then closed.
    ///
    /// # Safety
    ///
    /// - The handle is one of device memory of an API and a device that CUDA supports: for Vulkan,
    ///   one of `VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT` (on Windows, of
    ///   `…_OPAQUE_WIN32_BIT`) of the same device.
    /// - `bytes` is the size of the allocation. `flags` has
    ///   [`DEDICATED`](ExternalMemoryFlags::DEDICATED) if it is a dedicated allocation, and only
    ///   then.
    /// - Every byte is written, by either API, before a buffer or an array of this memory reads it.
    /// - Accesses by buffers and arrays of this memory do not overlap with accesses of the other
    ///   API, or of another import of the same memory, unless all of them read. Semaphores or waits
    ///   of the host order them.
    /// - The other API does not free the memory before this value, its clones, and all buffers and
    ///   arrays of it were dropped.
    #[doc(alias = "cuImportExternalMemory")]
    #[doc(alias = "cudaImportExternalMemory")]
    pub unsafe fn import(
        context: &Context,
        handle: ShareableHandle,
        bytes: usize,
        flags: ExternalMemoryFlags,
    ) -> Result<Self> {
        let type_ = if cfg!(windows) {
            CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32
        } else {
            CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
        };
        // SAFETY: the handle must be one of memory of this type and size ← the caller guarantees
        // it.
        unsafe { Self::import_as(context, type_, handle, bytes, flags) }
    }

    /// `cuImportExternalMemory()`—Imports `bytes` bytes of memory that a file descriptor of the
    /// Linux type dma-buf refers to. [`DeviceSlice::export_dma_buf`] returns a descriptor, and so
    /// does Vulkan.
    ///
    /// # Errors
    ///
    /// As for [`import`](Self::import). `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_SUPPORTED` if
    /// the driver cannot import descriptors of this type.
    ///
    /// # Safety
    ///
    /// - The descriptor is a dma-buf of memory that the device of `context` can access, and `bytes`
    ///   is its size.
    /// - All other requirements of [`import`](Self::import) are met. An exporting buffer counts as
    ///   the other API.
    ///
    /// [`DeviceSlice::export_dma_buf`]: super::DeviceSlice::export_dma_buf
    #[doc(alias = "cuImportExternalMemory")]
    #[cfg(unix)]
    pub unsafe fn import_dma_buf(
        context: &Context,
        handle: ShareableHandle,
        bytes: usize,
        flags: ExternalMemoryFlags,
    ) -> Result<Self> {
        let type_ = CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD;
        // SAFETY: the handle must be one of memory of this type and size ← the caller guarantees
        // it.
        unsafe { Self::import_as(context, type_, handle, bytes, flags) }
    }

    /// # Safety
    ///
    /// The contract of [`import`](Self::import) holds for a handle of the type `type_`.
    unsafe fn import_as(
        context: &Context,
        type_: CUexternalMemoryHandleType,
        handle: ShareableHandle,
        bytes: usize,
        flags: ExternalMemoryFlags,
    ) -> Result<Self> {
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "importing 0 bytes of external memory; pass the size of the exported memory",
            });
        }
        let desc = CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
            type_,
            handle: raw_handle(&handle),
            size: bytes as u64,
            flags: flags.bits(),
            reserved: [0; 16],
        };
        let _current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointers must be valid and the handle one of memory ← they point to local
        // variables, and the caller guarantees the handle.
        unsafe {
            call!(
                context.driver(),
                cuImportExternalMemory(&raw mut raw, &raw const desc)
            )
        }?;
        if cfg!(unix) {
            // The driver owns the descriptor now.
            mem::forget(handle);
        }
        let raw = SendPtr(raw);
        // SAFETY: the handle must be the only owner ← the memory was imported just now.
        let handle = unsafe { Handle::new(context.driver(), raw) };
        Ok(Self(Arc::new(Inner {
            handle: Some(handle),
            raw,
            context: context.clone(),
            bytes,
            parts: Mutex::new(Vec::new()),
            is_kept: AtomicBool::new(false),
        })))
    }

    /// `cuExternalMemoryGetMappedBuffer()`—Maps `len` elements from the byte `offset` on as a
    /// buffer whose owning stream is `stream`.
    ///
    /// Dropping the buffer waits for its uses, and unmaps it. The other API keeps the memory.
    ///
    /// # Errors
    ///
    /// - [`Error::OtherContext`] if `stream` is of another context.
    /// - [`Error::OutOfRange`] if the memory has less than `len` elements behind `offset`, if
    ///   another buffer or array maps one of the bytes, or if `offset` is not a multiple of the
    ///   alignment of `T`.
    /// - [`Error::Unsupported`] if the buffer would have 0 bytes.
    /// - [`Error::EagerCapture`] if calls on `stream` are being captured.
    #[doc(alias = "cuExternalMemoryGetMappedBuffer")]
    #[doc(alias = "cudaExternalMemoryGetMappedBuffer")]
    #[track_caller]
    pub fn map<T: DeviceRepr>(
        &self,
        stream: &Stream,
        offset: usize,
        len: usize,
    ) -> Result<DeviceBuffer<T>> {
        stream.expect_direct("ExternalMemory::map")?;
        stream.expect_context(&self.0.context, "the external memory")?;
        let bytes = bytes_of::<T>(len)?;
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "mapping external memory as a buffer of 0 bytes; map at least one element",
            });
        }
        if !offset.is_multiple_of(align_of::<T>()) {
            return Err(Error::from(RangeError::NotMultiple {
                what: "the offset of the elements in bytes",
                given: offset,
                of: align_of::<T>(),
            }));
        }
        let part = self.claim(offset, bytes)?;
        let desc = CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
            offset: offset as u64,
            size: bytes as u64,
            flags: 0,
            reserved: [0; 16],
        };
        let _current = stream.context().enter()?;
        let mut address = 0;
        // SAFETY: the pointers must be valid and the memory alive ← they point to local variables,
        // and the memory is borrowed.
        unsafe {
            call!(
                stream.driver(),
                cuExternalMemoryGetMappedBuffer(&raw mut address, self.as_raw(), &raw const desc)
            )
        }?;
        let source = Source::Other(Arc::new(MappedBuffer { address, part }));
        // SAFETY: the memory must be usable, from `source`, and freed by no other code ← it was
        // mapped just now, and `source` unmaps it.
        let memory = unsafe { Memory::of_source(stream, address, bytes, source) };
        Ok(DeviceBuffer::of_memory(memory, len))
    }

    /// Returns the part with `bytes` bytes from `offset` on, unless a buffer or an array maps one
    /// of them.
    pub(crate) fn claim(&self, offset: usize, bytes: usize) -> Result<ExternalPart> {
        let end = offset.checked_add(bytes);
        let Some(end) = end.filter(|&end| end <= self.0.bytes) else {
            let end = offset.saturating_add(bytes);
            return Err(Error::from(RangeError::Range {
                range: (Bound::Included(offset), Bound::Excluded(end)),
                len: self.0.bytes,
                what: "bytes",
            }));
        };
        let mut parts = self.0.parts.lock();
        let overlaps = |part: &&Range<usize>| part.start < end && offset < part.end;
        if let Some(mapped) = parts.iter().find(overlaps) {
            return Err(Error::from(RangeError::Mapped {
                range: offset..end,
                mapped: mapped.clone(),
            }));
        }
        parts.push(offset..end);
        drop(parts);
        Ok(ExternalPart {
            memory: self.clone(),
            range: offset..end,
        })
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Returns the context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// Returns the raw handle.
    #[must_use]
    pub fn as_raw(&self) -> CUexternalMemory {
        self.0.raw.0
    }

    /// `cuDestroyExternalMemory()`—Drops this handle, and gives up the memory if no other handle,
    /// no buffer and no array of it exists.
    ///
    /// # Errors
    ///
    /// The error of the driver, which a drop would swallow.
    #[doc(alias = "cuDestroyExternalMemory")]
    #[doc(alias = "cudaDestroyExternalMemory")]
    pub fn close(self) -> Result<()> {
        match Arc::into_inner(self.0) {
            Some(mut inner) if !inner.is_kept.load(Ordering::Acquire) => inner
                .handle
                .take()
                .map_or(Ok(()), |handle| Ok(handle.close()?)),
            _ => Ok(()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.is_kept.get_mut()
            && let Some(handle) = self.handle.take()
        {
            handle.abandon();
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {} bytes", self.raw.0, self.bytes)
    }
}

/// Returns the handle in the form of C.
fn raw_handle(handle: &ShareableHandle) -> RawHandle {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        RawHandle {
            fd: handle.as_raw_fd(),
        }
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsRawHandle;
        RawHandle {
            win32: cuda_sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1__bindgen_ty_1 {
                handle: handle.as_raw_handle(),
                name: std::ptr::null(),
            },
        }
    }
}

/// A part of external memory that no other buffer or array can map.
pub(crate) struct ExternalPart {
    memory: ExternalMemory,
    range: Range<usize>,
}

impl ExternalPart {
    /// Leaves the part mapped for ever. The memory must not be destroyed while it is mapped.
    pub(crate) fn keep(&self) {
        self.memory.0.is_kept.store(true, Ordering::Release);
    }
}

impl Drop for ExternalPart {
    fn drop(&mut self) {
        let memory = &self.memory.0;
        if memory.is_kept.load(Ordering::Acquire) {
            return;
        }
        let mut parts = memory.parts.lock();
        if let Some(index) = parts.iter().position(|part| *part == self.range) {
            parts.swap_remove(index);
        }
    }
}

/// A part of external memory that is mapped as a buffer.
struct MappedBuffer {
    address: CUdeviceptr,
    part: ExternalPart,
}

/// The host waits for all uses and then unmaps the buffer.
impl Reclaim for MappedBuffer {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        let waited = block.tracker.synchronize(Access::WRITE);
        let unmapped = waited.and_then(|()| self.unmap());
        if unmapped.is_err() {
            // A use may still be running, or the buffer still exists.
            self.part.keep();
        }
        unmapped
    }

    /// Other code unmaps the memory.
    fn disown(self: Arc<Self>, _: &Block) {
        self.part.keep();
    }
}

impl MappedBuffer {
    fn unmap(&self) -> Result<(), DriverError> {
        let context = &self.part.memory.0.context;
        let _current = context.enter()?;
        let _relaxed = context.driver().relaxed();
        // SAFETY: the memory must be mapped and must not be used afterwards ← `map` has mapped it,
        // and `reclaim` has waited for all uses.
        unsafe { call!(context.driver(), cuMemFree_v2(self.address)) }
    }
}
