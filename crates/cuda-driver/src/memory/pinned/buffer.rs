//! Page-locked memory that the driver allocates.
//!
//! C leaves it to the program to free the memory only after the transfers that use it. A
//! [`PinnedBuffer`] owns the memory, and a transfer that may still be running prevents the free.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use cuda_sys::CUdeviceptr;

use super::locked::{Locked, sealed};
use super::{PageLocked, UninitPinned};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::memory::{DeviceRepr, PinnedCachingPool};
use crate::staging_pool::PinnedBlock;

bitflags::bitflags! {
    /// Options of an allocation of page-locked memory. Unnamed bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PinnedFlags: u32 {
        /// All contexts treat the memory as page-locked, not only the context that allocated it.
        /// (With unified addressing they always do.)
        const PORTABLE = 1;
        /// Kernels can access the memory at its [`device_address`](PinnedBuffer::device_address).
        /// (With unified addressing they always can.)
        const DEVICE_MAP = 2;
        /// Host writes bypass the caches and are fast. Host reads are very slow.
        const WRITE_COMBINED = 4;
        const _ = !0;
    }
}

impl PinnedFlags {
    /// The memory is page-locked for the context that allocates it, and the host caches it.
    #[doc(alias = "cudaHostAllocDefault")]
    pub const DEFAULT: Self = Self::empty();
}

/// An array of `len` elements of `T` in page-locked host memory. It dereferences to a slice, and
/// the device copies from and to it at full speed.
///
/// Page-locking is slow (half a millisecond for 1 MiB on an H200 machine), so create a buffer once
/// and reuse it.
///
/// In a [borrowed](Context::borrow_raw) context the buffer uses registered memory of the program's
/// own allocator, because the buffer must be able to outlive a context that other code destroys.
/// [`PinnedFlags::WRITE_COMBINED`] is an error there.
///
/// A buffer may have a length of 0. It then has no memory, and creating it does not call the
/// driver.
///
/// ```
/// use cuda_driver::{DeviceBuffer, PinnedBuffer};
/// use cuda_driver::memory::PinnedFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut pinned = PinnedBuffer::from_host(&context, &[1_u32, 2, 3], PinnedFlags::DEFAULT)?;
/// pinned[1] = 20;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
/// buffer.copy_from_pinned(&pinned)?;
/// assert_eq!(buffer.to_vec()?, [1, 20, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PinnedBuffer<T> {
    locked: Locked<PinnedBlock>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T> PinnedBuffer<T> {
    /// `cuMemHostAlloc(flags)`—Allocates `len` elements of zero bits in `context`.
    ///
    /// # Errors
    ///
    /// * [`Error::OutOfMemory`] with the number of bytes requested.
    /// * [`Error::SizeOverflow`] if that number does not fit in a `usize`.
    /// * [`Error::Misaligned`] if `T` needs a stricter alignment than the memory has (it starts at
    ///   a page).
    /// * [`Error::UnsafeFlags`] for flags that memory in a borrowed context cannot have.
    #[doc(alias = "cuMemHostAlloc")]
    #[doc(alias = "cudaHostAlloc")]
    #[doc(alias = "cuMemAllocHost")]
    #[doc(alias = "cudaMallocHost")]
    pub fn zeroed(context: &Context, len: usize, flags: PinnedFlags) -> Result<Self>
    where
        T: DeviceRepr,
    {
        Self::filled(context, len, flags, |start, bytes| {
            // SAFETY: `bytes` bytes must be writable at `start` ← they were allocated just now, and
            // no other code has the address.
            unsafe { start.write_bytes(0, bytes) }
        })
    }

    /// `cuMemHostAlloc(flags)`—Allocates a buffer in `context` and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) does.
    pub fn from_host(context: &Context, source: &[T], flags: PinnedFlags) -> Result<Self>
    where
        T: DeviceRepr,
    {
        Self::filled(context, source.len(), flags, |start, bytes| {
            let from = source.as_ptr().cast::<u8>();
            // SAFETY: both ranges must hold `bytes` bytes and must not overlap ← `bytes` is the
            // size of the source, and the destination was allocated just now.
            unsafe { ptr::copy_nonoverlapping(from, start, bytes) }
        })
    }

    /// Returns the context in which the memory was allocated.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.locked.context()
    }

    /// `cuMemHostGetFlags()`—Returns the flags of the allocation as the driver reports them. They
    /// are empty for a length of 0.
    #[doc(alias = "cuMemHostGetFlags")]
    pub fn flags(&self) -> Result<PinnedFlags> {
        let mut bits = 0;
        if let Some(start) = self.locked.start() {
            let _current = self.context().enter()?;
            // SAFETY: `bits` must be writable and `start` must be page-locked memory ← `bits` is a
            // local variable, and `self` owns the memory.
            unsafe {
                call!(
                    self.context().driver(),
                    cuMemHostGetFlags(&raw mut bits, start)
                )
            }?;
        }
        Ok(PinnedFlags::from_bits_retain(bits))
    }

    /// `cuMemHostGetDevicePointer()`—Returns the address at which kernels access the memory, or 0
    /// for a length of 0.
    ///
    /// The crate does not order uses of this address with accesses of the host.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the memory is not mapped for kernels.
    #[doc(alias = "cuMemHostGetDevicePointer")]
    pub fn device_address(&self) -> Result<CUdeviceptr> {
        self.locked.device_address()
    }

    /// `cuMemFreeHost()`—Frees the memory, as dropping the buffer does, and returns the error if
    /// that fails.
    ///
    /// # Errors
    ///
    /// The error of an earlier copy, if that copy failed and may still be reading the memory. The
    /// memory is then not freed.
    #[doc(alias = "cuMemFreeHost")]
    #[doc(alias = "cudaFreeHost")]
    pub fn close(mut self) -> Result<()> {
        Ok(self.locked.unlock()?)
    }

    /// Never frees the memory. It stays allocated until its context is destroyed.
    #[cfg(feature = "dlpack")]
    pub(crate) fn leak(mut self) {
        self.locked.leak();
    }
}

/// Constructors with a pool, and without a value.
impl<T: DeviceRepr> PinnedBuffer<T> {
    /// Takes `len` elements from a pool and fills them with zero bits.
    ///
    /// # Errors
    ///
    /// Fails as [`PinnedCachingPool::take`] does.
    pub fn zeroed_in(pool: &PinnedCachingPool, len: usize) -> Result<Self> {
        let mut buffer = pool.take(len)?;
        bytemuck::fill_zeroes(&mut buffer);
        Ok(buffer)
    }

    /// Takes a buffer from a pool and copies `source` into it.
    ///
    /// # Errors
    ///
    /// Fails as [`PinnedCachingPool::take`] does.
    pub fn from_host_in(pool: &PinnedCachingPool, source: &[T]) -> Result<Self> {
        let mut buffer = pool.take(source.len())?;
        buffer.copy_from_slice(source);
        Ok(buffer)
    }

    /// `cuMemHostAlloc(flags)`—Allocates `len` elements in `context`. The contents are undefined,
    /// so the result does not dereference to a slice: see [`UninitPinned`].
    ///
    /// # Errors
    ///
    /// Fails as [`zeroed`](Self::zeroed) does.
    #[doc(alias = "cuMemHostAlloc")]
    #[doc(alias = "cudaHostAlloc")]
    pub fn uninit(context: &Context, len: usize, flags: PinnedFlags) -> Result<UninitPinned<T>> {
        UninitPinned::allocate(context, len, flags)
    }
}

impl<T: DeviceRepr> PinnedBuffer<T> {
    /// Allocates the memory and calls `fill` with its address and size. `fill` must write every
    /// byte. It is not called if the size is 0.
    fn filled(
        context: &Context,
        len: usize,
        flags: PinnedFlags,
        fill: impl FnOnce(*mut u8, usize),
    ) -> Result<Self> {
        let mut memory = UninitPinned::allocate(context, len, flags)?;
        let bytes = memory.as_uninit_mut();
        if !bytes.is_empty() && size_of::<T>() > 0 {
            fill(bytes.as_mut_ptr().cast(), size_of_val(bytes));
        }
        // SAFETY: all elements must be initialized ← `fill` writes every byte.
        Ok(unsafe { memory.assume_init() })
    }

    /// Creates a buffer of `len` elements, all of which are initialized. The memory is aligned for
    /// `T`, and empty only if the elements have no bytes.
    pub(super) fn of_parts(locked: Locked<PinnedBlock>, len: usize) -> Self {
        Self {
            locked,
            len,
            elements: PhantomData,
        }
    }

    /// Creates a buffer from memory of a pool.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if the memory is not aligned for `T`.
    ///
    /// # Safety
    ///
    /// The memory has room for `len` elements, and all of them are initialized. It may be empty
    /// only if the elements have a size of 0 bytes in total.
    pub(crate) unsafe fn of_locked(locked: Locked<PinnedBlock>, len: usize) -> Result<Self> {
        match locked.start() {
            Some(start) if !start.cast::<T>().is_aligned() => Err(Error::Misaligned {
                address: start.addr() as u64,
                align: align_of::<T>(),
            }),
            _ => Ok(Self::of_parts(locked, len)),
        }
    }
}

impl<T> PinnedBuffer<T> {
    /// Returns the address of the first element. It is dangling if the buffer has no memory.
    pub(super) fn first_ptr(&self) -> *mut T {
        let none = NonNull::<T>::dangling().as_ptr();
        self.locked.start().map_or(none, <*mut c_void>::cast)
    }
}

impl<T: DeviceRepr> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialized elements must be at the address and must not be written while
        // the slice lives ← the constructor checked the alignment and initialized every element,
        // and every bit pattern is a valid `T`; a transfer that writes the buffer owns it or
        // borrows it mutably.
        unsafe { slice::from_raw_parts(self.first_ptr(), self.len) }
    }
}

impl<T: DeviceRepr> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; and no other code may use the elements while the slice lives ← `self`
        // is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.first_ptr(), self.len) }
    }
}

impl<T: DeviceRepr> sealed::Lock for PinnedBuffer<T> {
    fn start(&self) -> *mut c_void {
        self.first_ptr().cast()
    }

    fn poison(&self, error: DriverError, _: sealed::Token) {
        self.locked.poison(error);
    }

    fn abandon(&mut self, error: DriverError, _: sealed::Token) {
        self.len = 0;
        self.locked.poison(error);
        // The call returns `error` again.
        let _ = self.locked.unlock();
    }
}

// SAFETY: the elements must be page-locked from `start` on and keep their address ← the driver has
// page-locked the memory, and the owner holds its address, not the memory itself.
unsafe impl<T: DeviceRepr> PageLocked<T> for PinnedBuffer<T> {
    fn context(&self) -> &Context {
        self.locked.context()
    }
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PinnedBuffer({:p}, {} x {})",
            self.first_ptr(),
            self.len,
            size_of::<T>()
        )
    }
}
