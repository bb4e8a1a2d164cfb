//! Memory of the program's, page-locked by registering it.
//!
//! The owner of the memory is inside: what is registered cannot be freed before it is unregistered,
//! not even when this owner is forgotten. A guard that borrows could be.

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::slice;

use cuda_sys::CUdeviceptr;

use super::PageLocked;
use super::locked::{Lockable, Locked, sealed};
use crate::context::Context;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::{DeviceRepr, bytes_of};
use crate::pending;
use crate::stream::SendPtr;

bitflags::bitflags! {
    /// How memory is registered. Bits that are not named here are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RegisterFlags: u32 {
        /// Every context takes it as page-locked, not only the one it was registered in.
        const PORTABLE = 1;
        /// Kernels can use it, at its [`device_address`](RegisteredBuffer::device_address).
        const DEVICE_MAP = 2;
        /// It is a device's memory that lies in one piece; only for
        /// [`from_raw_parts`](RegisteredBuffer::from_raw_parts).
        const IO_MEMORY = 4;
        /// The device only reads it. Not every device has this.
        const READ_ONLY = 8;
        const _ = !0;
    }
}

/// A `Vec` that the driver has page-locked: a slice that the device copies from and to at full
/// speed.
///
/// [`into_vec`](Self::into_vec) gives it back. Where the memory cannot be unregistered, it is never
/// freed.
pub struct RegisteredBuffer<T: DeviceRepr> {
    locked: Locked<Registration>,
    start: SendPtr<T>,
    len: usize,
    /// The capacity of the `Vec`; `None` for memory that is somebody else's.
    capacity: Option<usize>,
}

/// Registered bytes. Unregistered without a current context, on any thread.
struct Registration;

impl Destroy for Registration {
    type Raw = SendPtr<c_void>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the memory must be registered and no longer used by the device ← the handle owns
        // the registration, and this is its end.
        unsafe { call!(driver, cuMemHostUnregister(raw.0)) }
    }
}

impl Lockable for Registration {
    fn start(raw: Self::Raw) -> *mut c_void {
        raw.0
    }
}

impl Registration {
    /// `cuMemHostRegister_v2(bytes, flags)`; `None` if there are no bytes.
    ///
    /// # Safety
    ///
    /// The bytes are allocated until the registration ends, and are what `flags` say.
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
        // SAFETY: the bytes must be allocated, and be what the flags say ← the caller says so.
        unsafe { call!(driver, cuMemHostRegister_v2(start, bytes, flags.bits())) }
            .map_err(|error| Error::of_allocation(error, bytes))?;
        // SAFETY: nobody else must unregister it ← it was registered just now.
        Ok(Some(unsafe { Handle::new(driver, SendPtr(start)) }))
    }
}

impl<T: DeviceRepr> RegisteredBuffer<T> {
    /// `cuMemHostRegister(flags)`—Page-locks the elements of `vec` in `context`.
    ///
    /// # Errors
    ///
    /// [`RegisterError`], which has the `Vec`: `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED` if other
    /// code has registered that memory, [`Error::UnsafeFlags`] for flags that a `Vec` cannot have,
    /// or what else the call answers.
    #[doc(alias = "cuMemHostRegister")]
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
        // SAFETY: the bytes must be allocated until the registration ends ← the `Vec` is freed only
        // behind it; the flags say nothing of the memory but how the device may use it.
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

    /// `cuMemHostRegister(flags)`—Page-locks `len` elements of memory that is somebody else's. It
    /// is unregistered when this goes, and not freed.
    ///
    /// # Errors
    ///
    /// What the call answers.
    ///
    /// # Safety
    ///
    /// From `start` on, which is aligned, lie `len` initialised elements, that nobody else uses as
    /// long as this value lives. They are allocated until it has been dropped, and for ever if it
    /// is not, or if [`close`](Self::close) fails. It is not dropped inside a host function, where
    /// the driver cannot be called, and not later as the memory may go. With
    /// [`RegisterFlags::IO_MEMORY`] they are memory of a device and lie there in one piece.
    pub unsafe fn from_raw_parts(
        context: &Context,
        start: *mut T,
        len: usize,
        flags: RegisterFlags,
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        // SAFETY: the bytes must be allocated until the registration ends, and what `flags` say ←
        // the caller says so.
        let handle = unsafe { Registration::new(context, start.cast(), bytes, flags) }?;
        Ok(Self {
            locked: Locked::new(context, handle),
            start: SendPtr(start),
            len,
            capacity: None,
        })
    }

    /// The context in which the memory was registered.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.locked.context()
    }

    /// `cuMemHostGetDevicePointer()`—The address at which kernels find the memory; 0 for a length
    /// of 0.
    ///
    /// What is done with it is not ordered with what the host does.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if it was not mapped, or what else the call answers.
    pub fn device_address(&self) -> Result<CUdeviceptr> {
        self.locked.device_address()
    }

    /// `cuMemHostUnregister()`—Unregisters the memory and gives the `Vec` back; an empty one if the
    /// memory is somebody else's.
    ///
    /// # Errors
    ///
    /// What the call answers, or the error of a copy that failed so that it may still be using the
    /// memory: then the elements are never freed.
    #[doc(alias = "cuMemHostUnregister")]
    pub fn into_vec(mut self) -> Result<Vec<T>> {
        self.unlock()?;
        Ok(self.take().unwrap_or_default())
    }

    /// `cuMemHostUnregister()`—Unregisters the memory, frees the `Vec`, and answers what the driver
    /// says.
    ///
    /// # Errors
    ///
    /// As [`into_vec`](Self::into_vec).
    pub fn close(self) -> Result<()> {
        self.into_vec().map(drop)
    }

    /// Unregisters the memory. What cannot be unregistered stays allocated: the driver would take
    /// what is there next for locked memory.
    fn unlock(&mut self) -> Result<(), DriverError> {
        let result = self.locked.unlock();
        if result.is_err() {
            self.capacity = None;
        }
        result
    }

    /// The `Vec`, once: nothing of the driver's may use it any more.
    fn take(&mut self) -> Option<Vec<T>> {
        let capacity = self.capacity.take()?;
        // SAFETY: the parts must be those of a `Vec` that nobody else has ← `from_vec` took it
        // apart, and without the capacity nobody puts it together again.
        Some(unsafe { Vec::from_raw_parts(self.start.0, self.len, capacity) })
    }
}

impl<T: DeviceRepr> Drop for RegisteredBuffer<T> {
    fn drop(&mut self) {
        if pending::must_not_wait() && self.capacity.is_some() {
            let moved = Self {
                locked: self.locked.take(),
                start: self.start,
                len: self.len,
                capacity: self.capacity.take(),
            };
            let driver = self.context().driver().clone();
            return pending::defer(&driver, move || drop(moved));
        }
        // A drop has nobody to tell; `close` does.
        let _ = self.unlock();
        drop(self.take());
    }
}

impl<T: DeviceRepr> Deref for RegisteredBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements must be initialised there, not written while the slice lives ←
        // they are those of the `Vec`, or the caller of `from_raw_parts` said so; transfers that
        // write them own `self` or borrow it mutably.
        unsafe { slice::from_raw_parts(self.start.0, self.len) }
    }
}

impl<T: DeviceRepr> DerefMut for RegisteredBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; and no other may use them while the slice lives ← `self` is borrowed
        // mutably.
        unsafe { slice::from_raw_parts_mut(self.start.0, self.len) }
    }
}

impl<T: DeviceRepr> sealed::Lock for RegisteredBuffer<T> {
    fn start(&self) -> *mut c_void {
        self.start.0.cast()
    }

    fn suspect(&self, error: DriverError, _: sealed::Token) {
        self.locked.suspect(error);
    }

    fn abandon(&mut self, error: DriverError, _: sealed::Token) {
        self.locked.suspect(error);
        // Returns `error` again.
        let _ = self.unlock();
        self.len = 0;
        self.capacity = None;
    }
}

// SAFETY: the elements must be locked from `start` on and stay there ← they are registered; the
// owner holds their address.
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

/// A `Vec` that was not registered, and why.
pub struct RegisterError<T> {
    error: Error,
    vec: Vec<T>,
}

impl<T> RegisterError<T> {
    /// Why.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The `Vec`, as it was.
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
