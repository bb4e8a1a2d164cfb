//! Page-locked memory that has not been written.
//!
//! In C all memory may be uninitialized. Here it has its own type, which gives no access to
//! the elements before all of them have been written.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

use cuda_sys::CUdeviceptr;

use super::locked::Locked;
use super::{PinnedBuffer, PinnedFlags};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{DeviceRepr, DeviceSlice, bytes_of, expect_len};
use crate::staging_pool::PinnedBlock;

/// An array of `len` elements of `T` in page-locked host memory, with undefined contents. It does
/// not dereference to a slice.
///
/// It becomes a [`PinnedBuffer`] by a copy that writes all elements, or by
/// [`assume_init`](Self::assume_init) after the program has written them. That saves the time for
/// writing zeros first.
///
/// ```
/// use cuda_driver::{DeviceBuffer, PinnedBuffer};
/// use cuda_driver::memory::PinnedFlags;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let results = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3])?;
/// let pinned = PinnedBuffer::uninit(&context, 3, PinnedFlags::DEFAULT)?;
/// let pinned: PinnedBuffer<u32> = pinned.init_from_device(&results.as_slice())?;
/// assert_eq!(*pinned, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UninitPinned<T> {
    locked: Locked<PinnedBlock>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: DeviceRepr> UninitPinned<T> {
    pub(super) fn allocate(context: &Context, len: usize, flags: PinnedFlags) -> Result<Self> {
        let handle = match bytes_of::<T>(len)? {
            0 => None,
            bytes => Some(PinnedBlock::allocate(context, bytes, flags)?),
        };
        Self::of_locked(Locked::new(context, handle), len)
    }

    /// Creates a buffer of memory that has room for `len` elements. It may be empty only if they
    /// have no bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if the memory is not aligned for `T`.
    pub(super) fn of_locked(locked: Locked<PinnedBlock>, len: usize) -> Result<Self> {
        match locked.start() {
            Some(start) if !start.cast::<T>().is_aligned() => Err(Error::Misaligned {
                address: start.addr() as u64,
                align: align_of::<T>(),
            }),
            _ => Ok(Self {
                locked,
                len,
                elements: PhantomData,
            }),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the context in which the memory was allocated.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.locked.context()
    }

    /// `cuMemHostGetDevicePointer()`—Returns the address at which kernels access the memory, as
    /// [`PinnedBuffer::device_address`] does.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the memory is not mapped for kernels.
    pub fn device_address(&self) -> Result<CUdeviceptr> {
        self.locked.device_address()
    }

    /// Returns the address of the first element, for raw calls that write the memory. It is
    /// dangling if the buffer has no elements.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        let none = NonNull::<T>::dangling().as_ptr();
        self.locked.start().map_or(none, <*mut c_void>::cast)
    }

    /// Returns the elements for writing.
    pub fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<T>] {
        let (start, len) = (self.as_mut_ptr(), self.len);
        // SAFETY: `len` elements must be at the address, and no other code may use them while the
        // slice lives ← the memory has room for them and is aligned; it need not be initialized;
        // `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(start.cast(), len) }
    }

    /// Copies `source` to the memory.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] unless both have the same length; the memory is then freed.
    pub fn init_from(mut self, source: &[T]) -> Result<PinnedBuffer<T>> {
        expect_len(source.len(), self.len)?;
        let to = self.as_mut_ptr();
        // SAFETY: both ranges must hold the elements, and must not overlap ← the lengths are equal,
        // and `self` owns the destination.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), to, source.len()) };
        // SAFETY: all elements must be initialized ← they were copied just now.
        Ok(unsafe { self.assume_init() })
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies device memory to this memory, without
    /// an intermediate copy. Returns when the copy has completed.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_pinned`] does. The memory is freed then, unless the copy may
    /// still be running.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn init_from_device(self, source: &DeviceSlice<'_, T>) -> Result<PinnedBuffer<T>> {
        expect_len(source.len(), self.len)?;
        // `copy_to_locked` does not access the elements on the host, and the device writes all of
        // them. If it fails, the buffer is dropped.
        let mut buffer = PinnedBuffer::of_parts(self.locked, self.len);
        source.copy_to_locked(&mut buffer)?;
        Ok(buffer)
    }

    /// Declares that all elements have been written.
    ///
    /// # Safety
    ///
    /// All elements have been written, and no copy or kernel that writes them is still running.
    #[must_use]
    pub unsafe fn assume_init(self) -> PinnedBuffer<T> {
        PinnedBuffer::of_parts(self.locked, self.len)
    }

    /// `cuMemFreeHost()`—Frees the memory, as dropping it does, and returns the error if that
    /// fails.
    #[doc(alias = "cuMemFreeHost")]
    pub fn close(mut self) -> Result<()> {
        Ok(self.locked.unlock()?)
    }
}

impl<T> fmt::Debug for UninitPinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UninitPinned({} x {})", self.len, size_of::<T>())
    }
}
