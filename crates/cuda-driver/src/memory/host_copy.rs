//! Blocking copies between the device and the host. They no longer use the host memory when they
//! return.
//!
//! In C the kind of host memory decides whether a call waits and what it may still access
//! afterwards. Here all pageable memory is copied through page-locked blocks of the context (module
//! `staging`), and only memory that is known to be page-locked is copied directly.

use std::ffi::c_void;
use std::mem;

use super::pinned::sealed::TOKEN;
use super::pinned::{PageLocked, expect_locked_for};
use super::{DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, expect_len, staging};
use crate::context::Context;
use crate::driver::call;
use crate::error::{DriverError, Result};
use crate::observer::Work;
use crate::reports;
use crate::stream::Stream;
use crate::tracking::Access;
use crate::types::WorkKind;

/// Copies to the host.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the elements to `destination`. Returns
    /// when the copy has completed.
    ///
    /// The device copies to page-locked blocks of the context, and this thread copies from the
    /// blocks to `destination`. A large copy is divided into pieces, so that both steps overlap.
    /// Above 512 KiB worker threads help. On an error `destination` may have been overwritten in
    /// part.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both have the same length, or
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if no block can be page-locked.
    /// [`Error::Violation`](crate::Error::Violation) with the violations of
    /// [safe launches](Stream::launch_safe) that used this memory or its stream and that were not
    /// reported. `destination` has the elements then.
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        expect_len(self.len(), destination.len())?;
        let owner = self.memory.owning_stream();
        owner.expect_direct("DeviceSlice::copy_to_host")?;
        // SAFETY: the destination must be writable for all elements ← it has the same length, and
        // is borrowed mutably.
        unsafe { self.download(self.memory.owning_stream(), destination.as_mut_ptr()) }
    }

    /// Copies the elements to a new `Vec`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if no block can be page-locked.
    /// [`Error::Violation`](crate::Error::Violation) with the violations of
    /// [safe launches](Stream::launch_safe) that used this memory or its stream and that were not
    /// reported. The next call returns the elements.
    pub fn to_vec(self) -> Result<Vec<T>> {
        let (owner, begun) = (self.memory.owning_stream(), reports::begin());
        let elements = self.read_all()?;
        self.memory
            .report_violations(begun, self.access, Some(owner))?;
        Ok(elements)
    }

    /// Does the work of [`to_vec`](Self::to_vec) without a report of violations.
    pub(crate) fn read_all(&self) -> Result<Vec<T>> {
        let owner = self.memory.owning_stream();
        owner.expect_direct("DeviceSlice::to_vec")?;
        let mut elements = Vec::with_capacity(self.len());
        // SAFETY: the destination must be writable for all elements ← the capacity is at least the
        // length.
        unsafe { self.fetch(owner, elements.as_mut_ptr()) }?;
        // SAFETY: the elements must be initialized ← the copy has written all of them, and every
        // bit pattern is a valid `T`.
        unsafe { elements.set_len(self.len()) };
        Ok(elements)
    }

    /// Copies the elements to `destination` on `stream`, which belongs to the context of the
    /// memory.
    ///
    /// # Safety
    ///
    /// `destination` has room for the elements, and no other code uses it during the call.
    pub(super) unsafe fn download(&self, stream: &Stream, destination: *mut T) -> Result<()> {
        let begun = reports::begin();
        // SAFETY: the contract of `fetch` must hold ← the caller upholds it.
        unsafe { self.fetch(stream, destination) }?;
        self.memory
            .report_violations(begun, self.access, Some(stream))
    }

    /// Does the work of [`download`](Self::download) without a report of violations.
    ///
    /// # Safety
    ///
    /// The requirements of [`download`](Self::download) apply.
    unsafe fn fetch(&self, stream: &Stream, destination: *mut T) -> Result<()> {
        let bytes = self.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both sides must hold `bytes` bytes, and no other code may use the destination ←
        // the view is within its allocation, and the caller guarantees both for the destination.
        unsafe {
            staging::download(
                stream,
                (self.memory, self.access),
                staging::DeviceSide::Linear(self.as_raw()),
                destination.cast(),
                bytes,
            )
        }
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the elements to page-locked memory,
    /// without an intermediate copy. Returns when the copy has completed.
    ///
    /// If the driver reports an error, the copy may still be running. The memory of `destination`
    /// is then never freed, and `destination` is left with a length of 0.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both have the same length, or
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the destination belongs to another
    /// driver or to another context that is [borrowed](crate::Context::borrow_raw).
    pub fn copy_to_pinned(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        expect_len(self.len(), destination.len())?;
        self.copy_to_locked(destination)
    }

    /// Copies the elements to `destination`, which has room for them. Does not access the elements
    /// of `destination` on the host: they may be uninitialized.
    pub(super) fn copy_to_locked(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        let owner = self.memory.owning_stream();
        expect_locked_for(owner.context(), destination.context(), "the destination")?;
        let bytes = self.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        let device = self.as_raw();
        to_pinned(self.memory, self.access, destination, |to| {
            let _current = owner.bind_for_copy()?;
            owner.observed(Work::of_kind(WorkKind::CopyToHost, bytes), || {
                // SAFETY: both sides must hold `bytes` bytes until the copy has completed ← the
                // lengths are equal and the view is within its allocation; `to_pinned` waits for
                // the copy, and never frees the destination if the wait fails.
                unsafe {
                    call!(
                        owner.driver(),
                        cuMemcpyDtoHAsync_v2(to, device, bytes, owner.as_raw())
                    )
                }
            })
        })
    }
}

/// Copies from the host.
impl<T: DeviceRepr> DeviceSliceMut<'_, T> {
    /// `cuMemcpyHtoDAsync()`—Copies `source` over the elements. Returns when `source` may be
    /// reused.
    ///
    /// This thread copies `source` to page-locked blocks of the context, and the device copies from
    /// the blocks. Above 1 MiB worker threads help, and both steps overlap. The device may not have
    /// started the copy when this method returns, so a fault of this copy, or of earlier work, is
    /// reported by a later call. If many copies are queued already, this method waits for the first
    /// of them.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both have the same length, or
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if no block can be page-locked.
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.upload(self.memory.owning_stream(), source)
    }

    /// Copies `source` over the elements on `stream`, which belongs to the context of the memory.
    pub(super) fn upload(&mut self, stream: &Stream, source: &[T]) -> Result<()> {
        stream.expect_direct("DeviceSliceMut::copy_from_host")?;
        expect_len(source.len(), self.len())?;
        let bytes = size_of_val(source);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both sides must hold `bytes` bytes, and no code may write the source during the
        // call ← the lengths are equal and the view is within its allocation; the source is
        // borrowed.
        unsafe {
            staging::upload(
                stream,
                (self.memory, self.access),
                staging::DeviceSide::Linear(self.as_raw()),
                source.as_ptr().cast(),
                bytes,
            )
        }
    }

    /// `cuMemcpyHtoDAsync()`, `cuStreamSynchronize()`—Copies page-locked memory over the elements,
    /// without an intermediate copy. Returns when the device has read `source`.
    ///
    /// If the driver reports an error, the copy may still be running. The memory of `source` is
    /// then never freed.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both have the same length, or
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the source belongs to another driver
    /// or to another context that is [borrowed](crate::Context::borrow_raw).
    pub fn copy_from_pinned(&mut self, source: &impl PageLocked<T>) -> Result<()> {
        expect_len(source.len(), self.len())?;
        let owner = self.memory.owning_stream();
        expect_locked_for(owner.context(), source.context(), "the source")?;
        let bytes = size_of_val::<[T]>(source);
        if bytes == 0 {
            return Ok(());
        }
        let device = self.as_raw();
        from_pinned(self.memory, self.access, source, |from| {
            let _current = owner.bind_for_copy()?;
            owner.observed(Work::of_kind(WorkKind::CopyToDevice, bytes), || {
                // SAFETY: both sides must hold `bytes` bytes until the copy has completed ← the
                // lengths are equal and the view is within its allocation; `from_pinned` waits for
                // the copy, and never frees the source if the wait fails.
                unsafe {
                    call!(
                        owner.driver(),
                        cuMemcpyHtoDAsync_v2(device, from, bytes, owner.as_raw())
                    )
                }
            })
        })
    }
}

/// Calls `queue` to queue a copy to the start of `destination` on the owning stream of `memory`,
/// and waits for the copy. If either fails, the destination is left with no elements and its memory
/// is never freed.
pub(crate) fn to_pinned<T: DeviceRepr>(
    memory: &Memory,
    access: Access,
    destination: &mut impl PageLocked<T>,
    queue: impl FnOnce(*mut c_void) -> Result<(), DriverError>,
) -> Result<()> {
    let (start, begun) = (destination.start(), reports::begin());
    let mut failed = None;
    let queued = memory.use_on_owning_stream("copy_to_pinned", access, || {
        queue(start).inspect_err(|error| failed = Some(*error))
    });
    let result = queued.and_then(|()| {
        let done = memory
            .owning_stream()
            .state()
            .synchronize(memory.owning_stream().context());
        Ok(done.inspect_err(|error| failed = Some(*error))?)
    });
    if let Some(error) = failed {
        keep_other(destination.context(), memory.owning_stream().context());
        destination.abandon(error, TOKEN);
    }
    result?;
    memory.report_violations(begun, access, Some(memory.owning_stream()))
}

/// Calls `queue` to queue a copy from the start of `source` on the owning stream of `memory`, and
/// waits for the copy. If either fails, the memory of the source is never freed.
pub(crate) fn from_pinned<T: DeviceRepr>(
    memory: &Memory,
    access: Access,
    source: &impl PageLocked<T>,
    queue: impl FnOnce(*mut c_void) -> Result<(), DriverError>,
) -> Result<()> {
    let begun = reports::begin();
    let give_up = |error: &DriverError| {
        keep_other(source.context(), memory.owning_stream().context());
        source.poison(*error, TOKEN);
    };
    memory.use_on_owning_stream("copy_from_pinned", access, || {
        queue(source.start()).inspect_err(give_up)
    })?;
    let done = memory
        .owning_stream()
        .state()
        .synchronize(memory.owning_stream().context());
    done.inspect_err(give_up)?;
    memory.report_violations(begun, access, Some(memory.owning_stream()))
}

/// Keeps the context of page-locked memory alive for ever if a copy in another context failed and
/// may still use the memory. The memory would otherwise end with its context.
fn keep_other(memory: &Context, copy: &Context) {
    if memory != copy {
        mem::forget(memory.clone());
    }
}
