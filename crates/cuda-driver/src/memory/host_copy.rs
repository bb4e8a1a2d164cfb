//! Copies between the device and the host that have finished with the host's memory when they
//! return.
//!
//! Where C leaves it to the kind of memory whether a call waits, and what it may still touch, here
//! all pageable memory goes through page-locked blocks of the context (`staging`), and only memory
//! that is known to be page-locked is copied from and to directly.

use std::ffi::c_void;
use std::mem;

use super::pinned::sealed::TOKEN;
use super::pinned::{PageLocked, expect_locked_for};
use super::{DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, expect_len, staging};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::order::Access;

impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the elements; returns when
    /// `destination` is filled.
    ///
    /// The device copies to page-locked blocks of the context, and this thread from there; above
    /// 512 KiB others help, and both happen at once. On an error `destination` may hold a part.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both are of one length,
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if no block can be page-locked, or what
    /// the calls answer.
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        expect_len(self.len(), destination.len())?;
        // SAFETY: so many elements must be writable there ← the destination is as long, and
        // borrowed.
        unsafe { self.download(destination.as_mut_ptr()) }
    }

    /// A copy of the elements on the host.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if no block can be page-locked, or what
    /// the calls answer.
    pub fn to_vec(self) -> Result<Vec<T>> {
        let mut elements = Vec::with_capacity(self.len());
        // SAFETY: so many elements must be writable there ← the capacity is the length.
        unsafe { self.download(elements.as_mut_ptr()) }?;
        // SAFETY: the elements must be initialised ← the copy has filled them all, and any bits are
        // a `T`.
        unsafe { elements.set_len(self.len()) };
        Ok(elements)
    }

    /// # Safety
    ///
    /// `destination` has room for the elements, and nobody else uses it meanwhile.
    unsafe fn download(&self, destination: *mut T) -> Result<()> {
        let bytes = self.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both sides must have `bytes`, the destination be ours alone ← the view is within
        // its allocation, and the caller says so of the destination.
        unsafe {
            staging::download(
                self.memory,
                self.access,
                staging::Place::Linear(self.as_raw()),
                destination.cast(),
                bytes,
            )
        }
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the elements to page-locked memory,
    /// directly; returns when `destination` is filled.
    ///
    /// If the driver fails, so that the copy may still be under way, the memory of `destination` is
    /// never freed, and it is left with no elements.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both are of one length,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the destination is of another driver
    /// or of another context that is [borrowed](crate::Context::borrow_raw), or what the calls
    /// answer.
    pub fn copy_to_pinned(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        expect_len(self.len(), destination.len())?;
        let home = self.memory.home();
        expect_locked_for(home.context(), destination.context(), "the destination")?;
        let bytes = self.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        let device = self.as_raw();
        to_pinned(self.memory, self.access, destination, |to| {
            // SAFETY: both sides must hold `bytes` until the copy is done ← the lengths are equal,
            // the view is within its allocation; `to_pinned` waits, and keeps the destination if
            // that fails.
            unsafe {
                call!(
                    home.driver(),
                    cuMemcpyDtoHAsync_v2(to, device, bytes, home.as_raw())
                )
            }
        })
    }
}

impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemcpyHtoDAsync()`—Overwrites the elements; returns when `source` is free again.
    ///
    /// This thread copies to page-locked blocks of the context, and the device from there; above 1
    /// MiB others help, and both happen at once. The device need not have come to the copy when
    /// this returns: a fault of earlier work is told by a later call. Where many copies are queued
    /// already, this waits for the first of them.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both are of one length,
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if no block can be page-locked, or what
    /// the calls answer.
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        expect_len(source.len(), self.len())?;
        let bytes = size_of_val(source);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both sides must have `bytes`, and nobody write the source ← the lengths are
        // equal, the view is within its allocation; the source is borrowed.
        unsafe {
            staging::upload(
                self.memory,
                self.access,
                staging::Place::Linear(self.as_raw()),
                source.as_ptr().cast(),
                bytes,
            )
        }
    }

    /// `cuMemcpyHtoDAsync()`, `cuStreamSynchronize()`—Overwrites the elements from page-locked
    /// memory, directly; returns when the device has read `source`.
    ///
    /// If the driver fails, so that the copy may still be under way, the memory of `source` is
    /// never freed.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both are of one length,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the source is of another driver or of
    /// another context that is [borrowed](crate::Context::borrow_raw), or what the calls answer.
    pub fn copy_from_pinned(&mut self, source: &impl PageLocked<T>) -> Result<()> {
        expect_len(source.len(), self.len())?;
        let home = self.memory.home();
        expect_locked_for(home.context(), source.context(), "the source")?;
        let bytes = size_of_val::<[T]>(source);
        if bytes == 0 {
            return Ok(());
        }
        let device = self.as_raw();
        from_pinned(self.memory, self.access, source, |from| {
            // SAFETY: both sides must hold `bytes` until the copy is done ← the lengths are equal,
            // the view is within its allocation; `from_pinned` waits, and keeps the source if that
            // fails.
            unsafe {
                call!(
                    home.driver(),
                    cuMemcpyHtoDAsync_v2(device, from, bytes, home.as_raw())
                )
            }
        })
    }
}

/// Has `queue` queue a copy to the start of `destination` on the home stream of `memory`, and waits
/// for it. If that fails the destination is left with no elements.
pub(super) fn to_pinned<T: DeviceRepr>(
    memory: &Memory,
    access: Access,
    destination: &mut impl PageLocked<T>,
    queue: impl FnOnce(*mut c_void) -> Result<(), DriverError>,
) -> Result<()> {
    let start = destination.start();
    let mut failed = None;
    let queued = memory.use_at_home(access, || {
        queue(start).inspect_err(|error| failed = Some(*error))
    });
    let result = queued.and_then(|()| {
        let done = memory.home().state().synchronize(memory.home().context());
        Ok(done.inspect_err(|error| failed = Some(*error))?)
    });
    if let Some(error) = failed {
        keep_other(destination.context(), memory.home().context());
        destination.abandon(error, TOKEN);
    }
    result
}

/// Has `queue` queue a copy from the start of `source` on the home stream of `memory`, and waits
/// for it. If that fails the source is never freed.
pub(super) fn from_pinned<T: DeviceRepr>(
    memory: &Memory,
    access: Access,
    source: &impl PageLocked<T>,
    queue: impl FnOnce(*mut c_void) -> Result<(), DriverError>,
) -> Result<()> {
    let give_up = |error: &DriverError| {
        keep_other(source.context(), memory.home().context());
        source.suspect(*error, TOKEN);
    };
    memory.use_at_home(access, || queue(source.start()).inspect_err(give_up))?;
    let done = memory.home().state().synchronize(memory.home().context());
    Ok(done.inspect_err(give_up)?)
}

/// Keeps the context of page-locked memory for ever, if a copy in another context failed and may
/// still be using the memory: the memory ends with its context.
fn keep_other(memory: &Context, copy: &Context) {
    if memory != copy {
        mem::forget(memory.clone());
    }
}
