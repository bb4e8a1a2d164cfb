//! Page-locked memory of the driver's own.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use cuda_sys::CUdeviceptr;

use super::locked::{Locked, sealed};
use super::{PageLocked, PinnedBlock};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::memory::{DeviceRepr, bytes_of};

bitflags::bitflags! {
    /// How page-locked memory is allocated. Bits that are not named here are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PinnedFlags: u32 {
        /// Every context takes it as page-locked, not only the one it was made in. (With unified
        /// addresses all do.)
        const PORTABLE = 1;
        /// Kernels can use it, at its [`device_address`](PinnedBuffer::device_address). (With
        /// unified addresses always.)
        const DEVICE_MAP = 2;
        /// The host writes it fast past its caches, and reads it very slowly.
        const WRITE_COMBINED = 4;
        const _ = !0;
    }
}

/// `len` elements of `T` in page-locked host memory: a slice that the device copies from and to at
/// full speed.
///
/// Locking memory is slow (half a millisecond for a MiB on an H200 machine), so a buffer is made
/// once and used often.
///
/// In a context that is [borrowed](Context::borrow_raw) the memory is the program's own, and
/// registered: it must outlive a context that others end. [`PinnedFlags::WRITE_COMBINED`] is an
/// error there.
///
/// A length of 0 is fine, and calls nothing.
pub struct PinnedBuffer<T: DeviceRepr> {
    locked: Locked<PinnedBlock>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: DeviceRepr> PinnedBuffer<T> {
    /// `cuMemHostAlloc(flags)`—`len` elements of zero bits, in `context`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] with the bytes asked for, [`Error::SizeOverflow`] if they do not fit
    /// in an address, [`Error::Misaligned`] if the driver's memory does not start where a `T` may
    /// (it starts at a page), [`Error::UnsafeFlags`] for flags that memory in a borrowed context
    /// cannot have.
    #[doc(alias = "cuMemHostAlloc")]
    #[doc(alias = "cuMemAllocHost")]
    pub fn zeroed(context: &Context, len: usize, flags: PinnedFlags) -> Result<Self> {
        Self::filled(context, len, flags, |start, bytes| {
            // SAFETY: `bytes` must be writable at `start` ← they were allocated just now, and
            // nobody else has them.
            unsafe { start.write_bytes(0, bytes) }
        })
    }

    /// `cuMemHostAlloc(flags)`—A copy of `source`, in `context`.
    ///
    /// # Errors
    ///
    /// As [`zeroed`](Self::zeroed).
    pub fn from_slice(context: &Context, source: &[T], flags: PinnedFlags) -> Result<Self> {
        Self::filled(context, source.len(), flags, |start, bytes| {
            let from = source.as_ptr().cast::<u8>();
            // SAFETY: both sides must hold `bytes`, apart ← the length is the source's, and the
            // memory is new.
            unsafe { ptr::copy_nonoverlapping(from, start, bytes) }
        })
    }

    /// `fill` gets the bytes, at least one, to write all of them.
    fn filled(
        context: &Context,
        len: usize,
        flags: PinnedFlags,
        fill: impl FnOnce(*mut u8, usize),
    ) -> Result<Self> {
        let bytes = bytes_of::<T>(len)?;
        let handle = if bytes == 0 {
            None
        } else {
            let handle = PinnedBlock::allocate(context, bytes, flags)?;
            let start = handle.raw().start().cast::<T>();
            if !start.is_aligned() {
                return Err(Error::Misaligned {
                    address: start.addr() as u64,
                    align: align_of::<T>(),
                });
            }
            fill(start.cast(), bytes);
            Some(handle)
        };
        Ok(Self {
            locked: Locked::new(context, handle),
            len,
            elements: PhantomData,
        })
    }

    /// Memory that a pool has kept.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if no `T` may start where it does.
    ///
    /// # Safety
    ///
    /// It has room for `len` elements, all initialised; none if there are no bytes in them.
    pub(crate) unsafe fn of_locked(locked: Locked<PinnedBlock>, len: usize) -> Result<Self> {
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

    /// The context in which the memory was allocated.
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
    #[doc(alias = "cuMemHostGetDevicePointer")]
    pub fn device_address(&self) -> Result<CUdeviceptr> {
        self.locked.device_address()
    }

    /// `cuMemHostGetFlags()`—The flags of the allocation as the driver sees them; none for a length
    /// of 0.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuMemHostGetFlags")]
    pub fn flags(&self) -> Result<PinnedFlags> {
        let mut bits = 0;
        if let Some(start) = self.locked.start() {
            let _current = self.context().enter()?;
            // SAFETY: the pointers must be writable, and of pinned memory ← a local, and `self`
            // owns the memory.
            unsafe {
                call!(
                    self.context().driver(),
                    cuMemHostGetFlags(&raw mut bits, start)
                )
            }?;
        }
        Ok(PinnedFlags::from_bits_retain(bits))
    }

    /// `cuMemFreeHost()`—Frees the memory, and answers what the driver says.
    ///
    /// # Errors
    ///
    /// What the call answers; the error of a copy if one failed so that it may still be reading the
    /// memory, which is then not freed.
    #[doc(alias = "cuMemFreeHost")]
    pub fn close(mut self) -> Result<()> {
        Ok(self.locked.unlock()?)
    }

    fn as_ptr(&self) -> *mut T {
        let none = NonNull::<T>::dangling().as_ptr();
        self.locked.start().map_or(none, <*mut c_void>::cast)
    }
}

impl<T: DeviceRepr> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements must be initialised there, not written while the slice lives ←
        // `filled` wrote them all and checked the alignment; any bits are a `T`; transfers that
        // write the buffer own it or borrow it mutably.
        unsafe { slice::from_raw_parts(self.as_ptr(), self.len) }
    }
}

impl<T: DeviceRepr> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; and no other may use them while the slice lives ← `self` is borrowed
        // mutably.
        unsafe { slice::from_raw_parts_mut(self.as_ptr(), self.len) }
    }
}

impl<T: DeviceRepr> sealed::Lock for PinnedBuffer<T> {
    fn start(&self) -> *mut c_void {
        self.as_ptr().cast()
    }

    fn suspect(&self, error: DriverError, _: sealed::Token) {
        self.locked.suspect(error);
    }

    fn abandon(&mut self, error: DriverError, _: sealed::Token) {
        self.len = 0;
        self.locked.suspect(error);
        // Returns `error` again.
        let _ = self.locked.unlock();
    }
}

// SAFETY: the elements must be locked from `start` on and stay there ← the driver allocated them
// so; the owner holds their address.
unsafe impl<T: DeviceRepr> PageLocked<T> for PinnedBuffer<T> {
    fn context(&self) -> &Context {
        self.locked.context()
    }
}

impl<T: DeviceRepr> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PinnedBuffer({:p}, {} x {})",
            self.as_ptr(),
            self.len,
            size_of::<T>()
        )
    }
}
