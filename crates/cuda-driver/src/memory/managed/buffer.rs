//! The owner of managed memory.

use std::fmt;
use std::ops::{Deref, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::slice;

use cuda_sys::CUmemAttach_flags;

use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::allocation::{Memory, Source};
use crate::memory::{DeviceBuffer, DeviceRepr, DeviceSliceMut, MemoryPool, PoolKind, bytes_of};
use crate::reports;
use crate::stream::Stream;
use crate::tracking::Access;

/// An array of `len` elements of `T` that the host and the device access at the same address.
///
/// On the device the buffer is used as the [`DeviceBuffer`] to which it dereferences and which
/// records its uses. The host accesses the elements through [`host`](Self::host) and
/// [`host_mut`](Self::host_mut), which wait for conflicting uses on the device. While the host
/// holds one of their slices, the borrow prevents new conflicting uses.
///
/// Dropping the buffer waits for its uses and frees the memory. Memory of a pool is freed in the
/// order of the owning stream instead.
///
/// ```
/// use cuda_driver::memory::ManagedBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut buffer = ManagedBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// buffer.host_mut()?[1] = 20;
/// buffer.slice_mut(2..)?.fill(7)?;
/// // Waits for the fill.
/// assert_eq!(buffer.host()?, [1, 20, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ManagedBuffer<T> {
    buffer: DeviceBuffer<T>,
    /// Whether the host may access the memory while the device runs any work.
    is_concurrent: bool,
}

/// The streams that may use managed memory. This matters on devices without concurrent managed
/// access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManagedAttachment {
    /// All streams may use the memory.
    Global,
    /// No stream may use the memory; only the host may.
    Host,
    /// Only the stream on which the memory is attached may use it.
    Single,
}

impl ManagedAttachment {
    fn flag(self) -> u32 {
        let flag = match self {
            Self::Global => CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL,
            Self::Host => CUmemAttach_flags::CU_MEM_ATTACH_HOST,
            Self::Single => CUmemAttach_flags::CU_MEM_ATTACH_SINGLE,
        };
        flag.0
    }
}

impl<T: DeviceRepr> ManagedBuffer<T> {
    /// `cuMemAllocManaged(GLOBAL)`, `cuMemsetD8Async(0)`—Allocates `len` elements and queues a fill
    /// with zero bits.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] with the number of bytes requested, [`Error::SizeOverflow`] if that
    /// number does not fit in a `usize`, or `CUDA_ERROR_NOT_SUPPORTED` if the device has no
    /// managed memory.
    #[doc(alias = "cuMemAllocManaged")]
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← they are filled below, on the
        // same stream.
        let mut this = unsafe { Self::uninit(stream, len) }?;
        this.as_mut_slice().set_zero()?;
        Ok(this)
    }

    /// `cuMemAllocManaged(GLOBAL)`—Allocates a buffer and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) and [`DeviceSliceMut::copy_from_host`] do.
    #[track_caller]
    pub fn from_host(stream: &Stream, source: &[T]) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← they are filled below.
        let mut this = unsafe { Self::uninit(stream, source.len()) }?;
        this.as_mut_slice().copy_from_host(source)?;
        Ok(this)
    }

    /// `cuMemAllocFromPoolAsync()`, `cuMemsetD8Async(0)`—Allocates `len` elements from a pool of
    /// managed memory ([`MemoryPool::at`]) and queues a fill with zero bits.
    ///
    /// The allocation and the free are in the order of `stream`, and do not wait. The parameter is
    /// a `MemoryPool`, not an [`Allocator`](crate::memory::Allocator), because only a pool of the
    /// driver can contain managed memory.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the pool has no managed memory, [`Error::OtherContext`] if it is
    /// for another device, and the errors of [`zeroed`](Self::zeroed).
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[doc(alias = "cudaMallocFromPoolAsync")]
    #[track_caller]
    pub fn zeroed_in(pool: &MemoryPool, stream: &Stream, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        pool.expect_device_of(stream)?;
        if pool.kind() != PoolKind::Managed {
            return Err(Error::Unsupported {
                what: "managed memory from a pool without managed memory; create the pool with \
                       `MemoryPool::at` and `PoolKind::Managed`",
            });
        }
        let memory = if bytes == 0 {
            Memory::nothing(stream)
        } else {
            pool.allocate_managed(stream, bytes)?
        };
        let mut this = Self {
            buffer: DeviceBuffer::of_memory(memory, len),
            is_concurrent: stream.context().device().has_concurrent_managed_access()?,
        };
        this.as_mut_slice().set_zero()?;
        Ok(this)
    }

    /// # Safety
    ///
    /// No element may be read before it has been written.
    #[track_caller]
    unsafe fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        stream.expect_direct("an allocation of managed memory")?;
        let context = stream.context();
        let memory = if bytes == 0 {
            Memory::nothing(stream)
        } else {
            let mut address = 0;
            let flags = ManagedAttachment::Global.flag();
            let current = context.enter()?;
            // SAFETY: the pointer must be writable ← it points to a local variable.
            unsafe {
                call!(
                    stream.driver(),
                    cuMemAllocManaged(&raw mut address, bytes, flags)
                )
            }
            .map_err(|error| context.managed_allocation_error(error, bytes))?;
            drop(current);
            // SAFETY: the memory must be managed memory that no other code frees ← it was allocated
            // just now.
            unsafe { Memory::of_new(stream, address, bytes, Source::Managed(None)) }
        };
        Ok(Self {
            buffer: DeviceBuffer::of_memory(memory, len),
            is_concurrent: context.device().has_concurrent_managed_access()?,
        })
    }

    /// Returns a slice for the host to read, after waiting for all uses that write the elements on
    /// the device.
    ///
    /// Kernels may read the elements at the same time.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] in two cases. If the host must not access managed memory while the
    /// device runs any work, use [`with_host`](Self::with_host). If the context is borrowed, other
    /// code can destroy the context and the memory with it: use
    /// [`copy_to_host`](DeviceBuffer::copy_to_host). The method also reports a fault of a kernel
    /// that it waited for.
    pub fn host(&self) -> Result<&[T]> {
        let start = self.wait(Access::READ)?;
        // SAFETY: `len` elements must be readable by the host and must not be written while the
        // slice lives ← `wait` checked that there is memory and waited for the writes; new writes
        // borrow `self` mutably or are unsafe.
        Ok(unsafe { slice::from_raw_parts(start, self.buffer.len()) })
    }

    /// Returns a slice for the host to write, after waiting for all uses of the elements on the
    /// device.
    ///
    /// # Errors
    ///
    /// Fails as [`host`](Self::host) does.
    pub fn host_mut(&mut self) -> Result<&mut [T]> {
        let start = self.wait(Access::WRITE)?;
        // SAFETY: as above; and no other code may use the elements ← `wait` waited for all uses,
        // and `self` is borrowed mutably.
        Ok(unsafe { slice::from_raw_parts_mut(start, self.buffer.len()) })
    }

    /// Calls `f` with the elements, which the host may read and write meanwhile, after waiting for
    /// all uses of the elements on the device. Works on every device that has managed memory.
    ///
    /// Without concurrent managed access, the memory is attached to the host until `f` returns or
    /// panics (`cuStreamAttachMemAsync`), so that the device may run other work meanwhile. With it,
    /// the method does the same as [`host_mut`](Self::host_mut). Without concurrent managed access,
    /// the memory is attached to all streams afterwards, so an earlier [`attach`](Self::attach) no
    /// longer applies.
    ///
    /// ```
    /// use cuda_driver::memory::ManagedBuffer;
    ///
    /// # let machine = cuda_sim::Machine::named("one-gtx1650-exclusive").unwrap();
    /// # let simulator = cuda_sim::Builder::new().machine(machine).build()?;
    /// # let driver = cuda_driver::Driver::new(simulator.library()?)?;
    /// # let context = driver.device(0)?.primary_context()?;
    /// # let stream = context.default_stream()?;
    /// let mut buffer = ManagedBuffer::from_host(&stream, &[1_u32, 2, 3])?;
    /// let sum: u32 = buffer.with_host(|elements| {
    ///     elements[0] = 10;
    ///     elements.iter().sum()
    /// })?;
    /// assert_eq!(sum, 15);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the context is borrowed, and the errors of
    /// `cuStreamAttachMemAsync` and of the wait. If the memory cannot be attached to the device
    /// again after `f`, the error is returned instead of the result, the memory is freed, and the
    /// buffer has no elements.
    pub fn with_host<R>(&mut self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        if self.is_concurrent || self.buffer.as_raw() == 0 {
            return self.host_mut().map(f);
        }
        let start = self.host_address()?;
        let stream = self.buffer.stream().clone();
        self.attach_to(&stream, ManagedAttachment::Host)?;
        let begun = reports::begin();
        // Waits for all uses, and for the attachment, which is one of them.
        let tracker = &self.buffer.memory.tracker;
        let waited = tracker.synchronize(Access::WRITE);
        let waited = waited.and_then(|()| stream.state().synchronize(stream.context()));
        if let Err(error) = waited {
            // The first error is reported.
            let _ = self.attach_to_device(&stream);
            return Err(error.into());
        }
        let memory = &self.buffer.memory;
        if let Err(violations) = memory.report_violations(begun, Access::WRITE, Some(&stream)) {
            self.attach_to_device(&stream)?;
            return Err(violations);
        }
        // SAFETY: `len` elements must be accessible by the host, and no other code may use them
        // while the slice lives ← the memory is attached to the host, all uses have completed, and
        // `self` is borrowed mutably.
        let elements = unsafe { slice::from_raw_parts_mut(start, self.buffer.len()) };
        let result = catch_unwind(AssertUnwindSafe(|| f(elements)));
        let attached = self.attach_to_device(&stream);
        let result = result.unwrap_or_else(|panic| resume_unwind(panic));
        attached.map(|()| result)
    }

    /// Attaches the memory to all streams again. If that fails, kernels must not use the memory, so
    /// it is freed.
    fn attach_to_device(&mut self, stream: &Stream) -> Result<()> {
        self.attach_to(stream, ManagedAttachment::Global)
            .inspect_err(|_| {
                self.buffer = DeviceBuffer::of_memory(Memory::nothing(stream), 0);
            })
    }

    /// Waits for the uses that conflict with `access` and returns the host address of the first
    /// element.
    fn wait(&self, access: Access) -> Result<*mut T> {
        let address = self.buffer.as_raw();
        if address == 0 {
            return Ok(ptr::NonNull::dangling().as_ptr());
        }
        let start = self.host_address()?;
        if !self.is_concurrent {
            return Err(Error::Unsupported {
                what: "host access to managed memory on a device without concurrent managed access; \
                       use `ManagedBuffer::with_host`",
            });
        }
        let begun = reports::begin();
        self.buffer.memory.tracker.synchronize(access)?;
        self.buffer.memory.report_violations(begun, access, None)?;
        Ok(start)
    }

    /// Returns the address of the first element on the host. The memory must not be empty.
    fn host_address(&self) -> Result<*mut T> {
        let address = self.buffer.as_raw();
        if self.buffer.stream().context().is_borrowed() {
            // The memory is freed with its context, which other code may destroy while the host has
            // a slice.
            return Err(Error::Unsupported {
                what: "host access to managed memory of a borrowed context; copy it with `to_vec`",
            });
        }
        let start = ptr::with_exposed_provenance_mut::<T>(address as usize);
        if !start.is_aligned() {
            return Err(Error::Misaligned {
                address,
                align: align_of::<T>(),
            });
        }
        Ok(start)
    }

    /// Returns a writable view of all elements for the device.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// Returns a writable view of the elements in `range` for the device.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the length.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.buffer.slice_mut(range)
    }

    /// `cuStreamAttachMemAsync(attachment)`—Sets which streams may use the memory from this point
    /// of `stream` on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if `stream` and the memory belong to different contexts.
    ///
    /// # Safety
    ///
    /// From then on until the next attachment, only the streams that `attachment` permits use the
    /// memory. Note that copies and fills use the owning stream.
    #[doc(alias = "cuStreamAttachMemAsync")]
    #[doc(alias = "cudaStreamAttachMemAsync")]
    pub unsafe fn attach(&mut self, stream: &Stream, attachment: ManagedAttachment) -> Result<()> {
        self.attach_to(stream, attachment)
    }

    /// Sets which streams may use the memory. The caller guarantees that only these use it.
    fn attach_to(&self, stream: &Stream, attachment: ManagedAttachment) -> Result<()> {
        let memory = &self.buffer.memory;
        if memory.address == 0 {
            return Ok(());
        }
        memory.use_on(stream, "ManagedBuffer::attach", Access::WRITE, || {
            // SAFETY: the memory must be managed and the stream must be alive ← `self` owns the
            // managed memory, and the stream is borrowed. A length of 0 selects the whole
            // allocation.
            unsafe {
                call!(
                    stream.driver(),
                    cuStreamAttachMemAsync(stream.as_raw(), memory.address, 0, attachment.flag())
                )
            }
        })
    }

    /// `cuMemFree()`, `cuMemFreeAsync()`—Frees the memory after all uses, as dropping the buffer
    /// does, and returns the error if that fails.
    pub fn close(self) -> Result<()> {
        self.buffer.close()
    }
}

/// Gives read-only access on the device. `DerefMut` is not implemented: it would permit replacing
/// the inner buffer by one of other memory.
impl<T: DeviceRepr> Deref for ManagedBuffer<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

impl<T> fmt::Debug for ManagedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManagedBuffer({:?})", self.buffer)
    }
}
