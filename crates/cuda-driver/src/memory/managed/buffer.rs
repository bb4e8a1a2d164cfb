//! The owner of managed memory.

use std::fmt;
use std::ops::{Deref, RangeBounds};
use std::ptr;
use std::slice;

use cuda_sys::CUmemAttach_flags;

use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::allocation::{Memory, Source};
use crate::memory::{DeviceBuffer, DeviceRepr, DeviceSliceMut, bytes_of};
use crate::order::{Access, Scope};
use crate::stream::Stream;

/// `len` elements of `T` that host and device find at the same address.
///
/// On the device it is used as the [`DeviceBuffer`] that it dereferences to, and that keeps the
/// order of its uses. The host gets at the elements through [`host`](Self::host) and
/// [`host_mut`](Self::host_mut), which wait for what the device does with them; as long as the host
/// has them, nothing can be queued that is in its way.
///
/// Dropping it waits for its uses and frees the memory.
pub struct ManagedBuffer<T: DeviceRepr> {
    buffer: DeviceBuffer<T>,
    /// Whether the host may touch the memory while the device runs anything.
    is_concurrent: bool,
}

/// Which streams may use managed memory. It matters on devices without concurrent managed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManagedAttachment {
    /// All.
    Global,
    /// None: it is the host's alone.
    Host,
    /// The one that it is attached on.
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
    /// `cuMemAllocManaged(GLOBAL)`, `cuMemsetD8Async(0)`—`len` elements of zero bits.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] with the bytes asked for, [`Error::SizeOverflow`] if they do not fit
    /// in an address, `CUDA_ERROR_NOT_SUPPORTED` if the device has no managed memory.
    #[doc(alias = "cuMemAllocManaged")]
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let mut this = unsafe { Self::uninit(stream, len) }?;
        this.as_mut_slice().set_zero()?;
        Ok(this)
    }

    /// `cuMemAllocManaged(GLOBAL)`—A copy of `source`.
    ///
    /// # Errors
    ///
    /// As [`zeroed`](Self::zeroed) and [`DeviceSliceMut::copy_from_host`].
    pub fn from_host(stream: &Stream, source: &[T]) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below.
        let mut this = unsafe { Self::uninit(stream, source.len()) }?;
        this.as_mut_slice().copy_from_host(source)?;
        Ok(this)
    }

    /// # Safety
    ///
    /// It is written before it is read.
    unsafe fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        let context = stream.context();
        let memory = if bytes == 0 {
            Memory::nothing(stream)
        } else {
            let mut address = 0;
            let flags = ManagedAttachment::Global.flag();
            let current = context.enter()?;
            // SAFETY: the pointer must be writable ← it is to a local.
            unsafe {
                call!(
                    stream.driver(),
                    cuMemAllocManaged(&raw mut address, bytes, flags)
                )
            }
            .map_err(|error| Error::of_allocation(error, bytes))?;
            drop(current);
            // SAFETY: the memory must be of that source and nobody else's ← it was allocated just
            // now.
            unsafe { Memory::of_source(stream, address, bytes, Source::Managed) }
        };
        Ok(Self {
            buffer: DeviceBuffer::of_memory(memory, len),
            is_concurrent: context.device().has_concurrent_managed_access()?,
        })
    }

    /// All elements, for the host to read: waits for what writes them on the device.
    ///
    /// Kernels may read them meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the device forbids the host to touch managed memory while it runs
    /// anything, or the context is borrowed, so that others can destroy it and the memory with it
    /// ([`copy_to_host`](DeviceBuffer::copy_to_host) does it there); a fault of a kernel that was
    /// waited for.
    pub fn host(&self) -> Result<&[T]> {
        let start = self.wait(Access::READ)?;
        // SAFETY: `len` elements must be there for the host, and not be written while the slice
        // lives ← `wait` checked that there is memory and waited for the writes; whatever writes
        // borrows `self` mutably, or is unsafe.
        Ok(unsafe { slice::from_raw_parts(start, self.buffer.len()) })
    }

    /// All elements, for the host to write: waits for all that uses them on the device.
    ///
    /// # Errors
    ///
    /// As [`host`](Self::host).
    pub fn host_mut(&mut self) -> Result<&mut [T]> {
        let start = self.wait(Access::WRITE)?;
        // SAFETY: as above, and nobody else may use them ← `wait` waited for all uses, and `self`
        // is borrowed mutably.
        Ok(unsafe { slice::from_raw_parts_mut(start, self.buffer.len()) })
    }

    /// The first element, for the host.
    fn wait(&self, access: Access) -> Result<*mut T> {
        let address = self.buffer.as_raw();
        if address == 0 {
            return Ok(ptr::NonNull::dangling().as_ptr());
        }
        if self.buffer.stream().context().is_borrowed() {
            // It goes with its context, which others may destroy while the host has a slice of it.
            return Err(Error::Unsupported {
                what: "touching managed memory of a borrowed context on the host",
            });
        }
        if !self.is_concurrent {
            return Err(Error::Unsupported {
                what: "touching managed memory on the host while the device may run",
            });
        }
        let start = ptr::with_exposed_provenance_mut::<T>(address as usize);
        if !start.is_aligned() {
            return Err(Error::Misaligned {
                address,
                align: align_of::<T>(),
            });
        }
        self.buffer.memory.tracker.synchronize(access)?;
        Ok(start)
    }

    /// All elements, to write on the device.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// The elements of `range`, to write on the device; `None` if it is out of bounds.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<DeviceSliceMut<'_, T>> {
        self.buffer.slice_mut(range)
    }

    /// `cuStreamAttachMemAsync(attachment)`—Tells which streams may use the memory from this point
    /// of `stream` on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`] if `stream` is of another context than the memory, or what the call
    /// answers.
    ///
    /// # Safety
    ///
    /// From then on until the next attachment, only streams that it allows use the memory. The home
    /// stream is one that copies and fills use.
    #[doc(alias = "cuStreamAttachMemAsync")]
    pub unsafe fn attach(&mut self, stream: &Stream, attachment: ManagedAttachment) -> Result<()> {
        let memory = &self.buffer.memory;
        if memory.address == 0 {
            return Ok(());
        }
        let mut scope = Scope::new(stream);
        memory.tracker.before(&scope, Access::WRITE)?;
        // SAFETY: the memory must be managed and the stream alive ← it is ours, and borrowed;
        // length 0 is all of it.
        unsafe {
            call!(
                stream.driver(),
                cuStreamAttachMemAsync(stream.as_raw(), memory.address, 0, attachment.flag())
            )
        }?;
        memory.tracker.after(&mut scope, Access::WRITE);
        Ok(())
    }

    /// `cuMemFree()`—Waits for all uses and frees the memory, and answers what the driver says.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn close(self) -> Result<()> {
        self.buffer.close()
    }
}

/// To read on the device. (Not to write: a buffer of other memory must not take its place.)
impl<T: DeviceRepr> Deref for ManagedBuffer<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

impl<T: DeviceRepr> fmt::Debug for ManagedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ManagedBuffer({:#x}, {} x {})",
            self.as_raw(),
            self.len(),
            size_of::<T>()
        )
    }
}
