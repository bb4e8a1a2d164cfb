//! Memory of the program that is page-locked by registering it with the driver.
//!
//! In C the program must not free memory that is still registered. Here the owner of the memory is
//! inside a [`RegisteredBuffer`], so the memory cannot be freed before it is unregistered, even if
//! the `RegisteredBuffer` is forgotten. A guard that borrows the memory would not prevent that.

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::slice;

use cuda_sys::CUdeviceptr;

use super::PageLocked;
use super::locked::{Lockable, Locked, sealed};
use crate::context::Context;
use crate::deferred::must_not_wait;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::{DeviceRepr, bytes_of};
use crate::types::SendPtr;

bitflags::bitflags! {
    /// Options of a registration. Unnamed bits are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RegisterFlags: u32 {
        /// All contexts treat the memory as page-locked, not only the context that registered it.
        const PORTABLE = 1;
        /// Kernels can access the memory at its
        /// [`device_address`](RegisteredBuffer::device_address).
        const DEVICE_MAP = 2;
        /// The memory belongs to a device and is contiguous. Only
        /// [`from_raw_parts`](RegisteredBuffer::from_raw_parts) accepts this flag.
        const IO_MEMORY = 4;
        /// The device only reads the memory. Not every device supports this.
        const READ_ONLY = 8;
        const _ = !0;
    }
}

impl RegisterFlags {
    /// The memory is page-locked for the context that registers it.
    #[doc(alias = "cudaHostRegisterDefault")]
    pub const DEFAULT: Self = Self::empty();
}

/// A `Vec` that is page-locked. It dereferences to a slice, and the device copies from and to it at
/// full speed.
///
/// [`into_vec`](Self::into_vec) returns the `Vec`. If the memory cannot be unregistered, it is
/// never freed.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::{RegisterFlags, RegisteredBuffer};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let words: Vec<u32> = (0..1000).collect();
/// let registered = RegisteredBuffer::from_vec(&context, words, RegisterFlags::DEFAULT)?;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
/// buffer.copy_from_pinned(&registered)?;
/// let words = registered.into_vec()?;
/// assert_eq!(buffer.to_vec()?, words);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RegisteredBuffer<T: DeviceRepr> {
    locked: Locked<Registration>,
    start: SendPtr<T>,
    len: usize,
    /// The capacity of the `Vec`, or `None` for memory that other code owns.
    capacity: Option<usize>,
}

/// A registration of bytes. It can be ended on any thread, without a current context.
struct Registration;

impl Destroy for Registration {
    type Raw = SendPtr<c_void>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the memory must be registered and no longer used by the device ← the handle owns
        // the registration, and `destroy` is the last use of the handle.
        unsafe { call!(driver, cuMemHostUnregister(raw.0)) }
    }
}

impl Lockable for Registration {
    fn start(raw: Self::Raw) -> *mut c_void {
        raw.0
    }
}

impl Registration {
    /// `cuMemHostRegister_v2(bytes, flags)`—Registers the bytes. Returns `None` if `bytes` is 0.
    ///
    /// # Safety
    ///
    /// The bytes are allocated until the registration ends, and have the properties that `flags`
    /// claim.
    unsafe fn new(
        context: &Context,
        start: *mut c_void,
        bytes: usize,
        flags: RegisterFlags,
    ) -> Result<Option<Handle<Self>>> {
        if bytes == 0 {
            return Ok(None);
        }
        let driver = context.driver();
        let _current = context.enter()?;
        // SAFETY: the bytes must be allocated and have the properties that `flags` claim ← the
        // caller guarantees both.
        unsafe { call!(driver, cuMemHostRegister_v2(start, bytes, flags.bits())) }
            .map_err(|error| Error::of_page_locking(error, bytes))?;
        // SAFETY: no other code may unregister the memory ← it was registered just now.
        Ok(Some(unsafe { Handle::new(driver, SendPtr(start)) }))
    }
}

impl<T: DeviceRepr> RegisteredBuffer<T> {
    /// `cuMemHostRegister(flags)`—Page-locks the elements of `vec` in `context`.
    ///
    /// # Errors
    ///
    /// The error is a [`RegisterError`], which returns the `Vec`. Its
    /// [`error`](RegisterError::error) is `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED` if other code
    /// has registered the memory, and [`Error::UnsafeFlags`] for flags that a `Vec` cannot have.
    #[doc(alias = "cuMemHostRegister")]
    #[doc(alias = "cudaHostRegister")]
    pub fn from_vec(
        context: &Context,
        vec: Vec<T>,
        flags: RegisterFlags,
    ) -> Result<Self, RegisterError<T>> {
        let safe = RegisterFlags::PORTABLE | RegisterFlags::DEVICE_MAP | RegisterFlags::READ_ONLY;
        if !safe.contains(flags) {
            let error = Error::UnsafeFlags {
                call: cuda_sys::calls::cuMemHostRegister_v2,
                bits: flags.difference(safe).bits(),
            };
            return Err(RegisterError { error, vec });
        }
        let mut vec = ManuallyDrop::new(vec);
        let (start, len) = (vec.as_mut_ptr(), vec.len());
        // SAFETY: the bytes must be allocated until the registration ends, and have the properties
        // that `flags` claim ← the `Vec` is freed only after it is unregistered; the permitted
        // flags claim nothing about the memory, only how the device may use it.
        match unsafe { Registration::new(context, start.cast(), len * size_of::<T>(), flags) } {
            Ok(handle) => Ok(Self {
                locked: Locked::new(context, handle),
                start: SendPtr(start),
                len,
                capacity: Some(vec.capacity()),
            }),
            Err(error) => Err(RegisterError {
                error,
                vec: ManuallyDrop::into_inner(vec),
            }),
        }
    }

    /// `cuMemHostRegister(flags)`—Page-locks `len` elements of memory that other code owns.
    /// Dropping the buffer unregisters the memory but does not free it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED` if other code has registered the memory, or
    /// [`Error::SizeOverflow`] if the size of `len` elements does not fit in a `usize`.
    ///
    /// # Safety
    ///
    /// * `start` is aligned and points to `len` initialized elements. No other code uses them while
    ///   this value is alive.
    /// * The elements stay allocated until this value has been dropped, and for ever if it is never
    ///   dropped or if [`close`](Self::close) fails.
    /// * The value is not dropped inside a host function. The driver cannot be called there, so the
    ///   memory would not be unregistered in time.
    /// * With [`RegisterFlags::IO_MEMORY`], the elements are contiguous memory of a device.
    pub unsafe fn from_raw_parts(
        context: &Context,
        start: *mut T,
        len: usize,
        flags: RegisterFlags,
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        // SAFETY: the bytes must be allocated until the registration ends, and have the properties
        // that `flags` claim ← the caller guarantees both.
        let handle = unsafe { Registration::new(context, start.cast(), bytes, flags) }?;
        Ok(Self {
            locked: Locked::new(context, handle),
            start: SendPtr(start),
            len,
            capacity: None,
        })
    }

    /// Returns the context in which the memory was registered.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.locked.context()
    }

    /// `cuMemHostGetDevicePointer()`—Returns the address at which kernels access the memory, or 0
    /// for a length of 0.
    ///
    /// The crate does not order uses of this address with accesses of the host.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the memory is not mapped for kernels.
    pub fn device_address(&self) -> Result<CUdeviceptr> {
        self.locked.device_address()
    }

    /// `cuMemHostUnregister()`—Unregisters the memory and returns the `Vec`. The `Vec` is empty if
    /// other code owns the memory.
    ///
    /// # Errors
    ///
    /// The error of an earlier copy, if that copy failed and may still be using the memory. After
    /// any error the elements are never freed.
    #[doc(alias = "cuMemHostUnregister")]
    #[doc(alias = "cudaHostUnregister")]
    pub fn into_vec(mut self) -> Result<Vec<T>> {
        self.unlock()?;
        Ok(self.take().unwrap_or_default())
    }

    /// `cuMemHostUnregister()`—Unregisters the memory and frees the `Vec`, as dropping the buffer
    /// does, and returns the error if that fails.
    ///
    /// # Errors
    ///
    /// Fails as [`into_vec`](Self::into_vec) does.
    pub fn close(self) -> Result<()> {
        self.into_vec().map(drop)
    }

    /// Unregisters the memory. If that fails the memory stays allocated, because the driver would
    /// treat a later allocation at the same address as page-locked.
    fn unlock(&mut self) -> Result<(), DriverError> {
        let result = self.locked.unlock();
        if result.is_err() {
            self.capacity = None;
        }
        result
    }

    /// Returns the `Vec` on the first call. The driver and the device must no longer use the
    /// memory.
    fn take(&mut self) -> Option<Vec<T>> {
        let capacity = self.capacity.take()?;
        // SAFETY: the parts must come from a `Vec` that no other code has ← `from_vec` took the
        // `Vec` apart, and taking the capacity ensures that it is put together only once.
        Some(unsafe { Vec::from_raw_parts(self.start.0, self.len, capacity) })
    }
}

impl<T: DeviceRepr> Drop for RegisteredBuffer<T> {
    fn drop(&mut self) {
        if must_not_wait() && self.capacity.is_some() {
            let moved = Self {
                locked: self.locked.take(),
                start: self.start,
                len: self.len,
                capacity: self.capacity.take(),
            };
            let driver = self.context().driver().clone();
            return driver.defer(move || drop(moved));
        }
        // A drop cannot report an error. `close` does.
        let _ = self.unlock();
        drop(self.take());
    }
}

impl<T: DeviceRepr> Deref for RegisteredBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialized elements must be at the address and must not be written while
        // the slice lives ← they are the elements of the `Vec`, or the caller of `from_raw_parts`
        // guaranteed it; a transfer that writes them owns `self` or borrows it mutably.
        unsafe { slice::from_raw_parts(self.start.0, self.len) }
    }
}

impl<T: DeviceRepr> DerefMut for RegisteredBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; and no other code may use the elements while the slice lives ← `self`
        // is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start.0, self.len) }
    }
}

impl<T: DeviceRepr> sealed::Lock for RegisteredBuffer<T> {
    fn start(&self) -> *mut c_void {
        self.start.0.cast()
    }

    fn poison(&self, error: DriverError, _: sealed::Token) {
        self.locked.poison(error);
    }

    fn abandon(&mut self, error: DriverError, _: sealed::Token) {
        self.locked.poison(error);
        // The call returns `error` again.
        let _ = self.unlock();
        self.len = 0;
        self.capacity = None;
    }
}

// SAFETY: the elements must be page-locked from `start` on and keep their address ← they are
// registered, and the owner holds their address, not the elements themselves.
unsafe impl<T: DeviceRepr> PageLocked<T> for RegisteredBuffer<T> {
    fn context(&self) -> &Context {
        self.locked.context()
    }
}

impl<T: DeviceRepr> fmt::Debug for RegisteredBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RegisteredBuffer({:p}, {} x {})",
            self.start.0,
            self.len,
            size_of::<T>()
        )
    }
}

/// The error of a failed registration, with the `Vec` that was not registered.
pub struct RegisterError<T> {
    error: Error,
    vec: Vec<T>,
}

impl<T> RegisterError<T> {
    /// Returns the reason for the failure.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the `Vec`, unchanged.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.vec
    }
}

impl<T> From<RegisterError<T>> for Error {
    fn from(error: RegisterError<T>) -> Self {
        error.error
    }
}

impl<T> fmt::Display for RegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Debug for RegisterError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T> std::error::Error for RegisterError<T> {}
