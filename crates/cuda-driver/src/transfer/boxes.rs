//! Copies of boxes between page-locked memory and pitched memory or arrays, in a scope or with a
//! token to wait for.

use super::{CopyScope, Transfer, TransferError, expect_locked, start};
use crate::error::Result;
use crate::memory::pitched::{Rows, Side, queue};
use crate::memory::{DeviceRepr, Memory, PageLocked, PitchedSlice, PitchedSliceMut, expect_len};
use crate::stream::Stream;
use crate::texture::{ArraySlice, ArraySliceMut, Texel};
use crate::tracking::Access;

/// Queues a copy between a box of `memory` and page-locked memory. Returns whether there was
/// anything to copy.
///
/// # Safety
///
/// The box is within `memory`, and `access` is that of the view. The host memory has at least as
/// many bytes as the box. Until the copy is complete, it stays allocated, and no conflicting access
/// to it is made.
unsafe fn queue_box(
    stream: &Stream,
    (memory, access): (&Memory, Access),
    (to, from): (Side, Side),
    extent: &Rows,
) -> Result<bool> {
    if extent.bytes() == 0 {
        return Ok(false);
    }
    let call = "an asynchronous copy of a box of page-locked memory";
    memory.use_on(stream, call, access, || {
        // SAFETY: both sides must hold the rows until the copy is complete ← the free of the memory
        // waits for this use, and the caller guarantees the rest.
        unsafe { queue(stream, to, from, extent) }
    })?;
    Ok(true)
}

/// Copies of boxes.
impl<'scope> CopyScope<'scope, '_> {
    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Queues a copy of a box of device memory to
    /// page-locked memory, with contiguous rows.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_to_host`](Self::copy_to_host) does.
    pub fn copy_box_to_host<T: DeviceRepr, P: PageLocked<T>>(
        &'scope self,
        source: PitchedSlice<'_, T>,
        destination: &'scope mut P,
    ) -> Result<()> {
        expect_locked(self.stream(), destination.context())?;
        expect_len(source.extent().len::<T>()?, destination.len())?;
        let sides = (Side::Host(destination.start()), Side::Device(source.rows));
        let memory = (source.memory, source.access);
        // SAFETY: the box must be within the memory, and the host memory must have room that
        // nothing else accesses ← the view is within its memory; the lengths are equal, and the
        // destination is borrowed for the whole scope, which ends after the copy.
        let is_queued = unsafe { queue_box(self.stream(), memory, sides, &source.rows) }?;
        self.note(memory, is_queued);
        Ok(())
    }

    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Queues a copy of page-locked memory, with
    /// contiguous rows, to a box of device memory.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_from_host`](Self::copy_from_host) does.
    pub fn copy_box_from_host<T: DeviceRepr, P: PageLocked<T>>(
        &'scope self,
        destination: PitchedSliceMut<'_, T>,
        source: &'scope P,
    ) -> Result<()> {
        expect_locked(self.stream(), source.context())?;
        expect_len(source.len(), destination.extent().len::<T>()?)?;
        let rows = destination.rows;
        let sides = (Side::Device(rows), Side::Host(source.start()));
        let memory = (destination.memory, destination.access);
        // SAFETY: as above: the source is borrowed for the whole scope.
        let is_queued = unsafe { queue_box(self.stream(), memory, sides, &rows) }?;
        self.note(memory, is_queued);
        Ok(())
    }

    /// `cuMemcpy3DAsync()`—Queues a copy of a box of an array to page-locked memory, with
    /// contiguous rows.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_to_host`](Self::copy_to_host) does.
    pub fn copy_array_to_host<T: Texel, P: PageLocked<T>>(
        &'scope self,
        source: ArraySlice<'_, T>,
        destination: &'scope mut P,
    ) -> Result<()> {
        expect_locked(self.stream(), destination.context())?;
        expect_len(source.extent().len::<T>()?, destination.len())?;
        let sides = (Side::Host(destination.start()), Side::Array(source.place));
        let memory = (source.memory, source.access);
        // SAFETY: as for a box of device memory: the destination is borrowed for the whole scope.
        let is_queued = unsafe { queue_box(self.stream(), memory, sides, &source.place.extent()) }?;
        self.note(memory, is_queued);
        Ok(())
    }

    /// `cuMemcpy3DAsync()`—Queues a copy of page-locked memory, with contiguous rows, to a box of
    /// an array.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_from_host`](Self::copy_from_host) does.
    pub fn copy_array_from_host<T: Texel, P: PageLocked<T>>(
        &'scope self,
        destination: ArraySliceMut<'_, T>,
        source: &'scope P,
    ) -> Result<()> {
        expect_locked(self.stream(), source.context())?;
        expect_len(source.len(), destination.extent().len::<T>()?)?;
        let place = destination.place;
        let sides = (Side::Array(place), Side::Host(source.start()));
        let memory = (destination.memory, destination.access);
        // SAFETY: as for a box of device memory: the source is borrowed for the whole scope.
        let is_queued = unsafe { queue_box(self.stream(), memory, sides, &place.extent()) }?;
        self.note(memory, is_queued);
        Ok(())
    }
}

/// Asynchronous copies to page-locked memory.
impl<T: DeviceRepr> PitchedSlice<'_, T> {
    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Queues a copy of the elements to page-locked
    /// memory, with contiguous rows, on `stream`. The copy is ordered with other uses of the
    /// buffer.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_pinned_async`](crate::DeviceSlice::copy_to_pinned_async)
    /// does.
    pub fn copy_to_pinned_async<P: PageLocked<T> + 'static>(
        &self,
        destination: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        start(
            destination,
            (self.memory, self.access),
            stream,
            |destination| {
                expect_len(self.extent().len::<T>()?, destination.len())?;
                let sides = (Side::Host(destination.start()), Side::Device(self.rows));
                // SAFETY: the box must be within the memory, and the host memory must have room that
                // nothing else accesses ← the view is within its memory; the lengths are equal, and the
                // transfer owns the host memory until the copy is complete.
                unsafe { queue_box(stream, (self.memory, self.access), sides, &self.rows) }
            },
        )
    }
}

/// Asynchronous copies from page-locked memory.
impl<T: DeviceRepr> PitchedSliceMut<'_, T> {
    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Queues a copy of page-locked memory, with
    /// contiguous rows, to the elements on `stream`. The copy is ordered with other uses of the
    /// buffer.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_pinned_async`] does.
    ///
    /// [`DeviceSliceMut::copy_from_pinned_async`]: crate::DeviceSliceMut::copy_from_pinned_async
    pub fn copy_from_pinned_async<P: PageLocked<T> + 'static>(
        &mut self,
        source: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        start(source, (self.memory, self.access), stream, |source| {
            expect_len(source.len(), self.extent().len::<T>()?)?;
            let sides = (Side::Device(self.rows), Side::Host(source.start()));
            // SAFETY: as for the other direction.
            unsafe { queue_box(stream, (self.memory, self.access), sides, &self.rows) }
        })
    }
}

/// Asynchronous copies to page-locked memory.
impl<T: Texel> ArraySlice<'_, T> {
    /// `cuMemcpy3DAsync()`—Queues a copy of the elements to page-locked memory, with contiguous
    /// rows, on `stream`. The copy is ordered with other uses of the array.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_pinned_async`](crate::DeviceSlice::copy_to_pinned_async)
    /// does.
    pub fn copy_to_pinned_async<P: PageLocked<T> + 'static>(
        &self,
        destination: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        start(
            destination,
            (self.memory, self.access),
            stream,
            |destination| {
                expect_len(self.extent().len::<T>()?, destination.len())?;
                let (memory, place) = ((self.memory, self.access), self.place);
                let sides = (Side::Host(destination.start()), Side::Array(place));
                // SAFETY: as for pitched memory.
                unsafe { queue_box(stream, memory, sides, &place.extent()) }
            },
        )
    }
}

/// Asynchronous copies from page-locked memory.
impl<T: Texel> ArraySliceMut<'_, T> {
    /// `cuMemcpy3DAsync()`—Queues a copy of page-locked memory, with contiguous rows, to the
    /// elements on `stream`. The copy is ordered with other uses of the array.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_pinned_async`] does.
    ///
    /// [`DeviceSliceMut::copy_from_pinned_async`]: crate::DeviceSliceMut::copy_from_pinned_async
    pub fn copy_from_pinned_async<P: PageLocked<T> + 'static>(
        &mut self,
        source: P,
        stream: &Stream,
    ) -> Result<Transfer<P>, TransferError<P>> {
        start(source, (self.memory, self.access), stream, |source| {
            expect_len(source.len(), self.extent().len::<T>()?)?;
            let (memory, place) = ((self.memory, self.access), self.place);
            let sides = (Side::Array(place), Side::Host(source.start()));
            // SAFETY: as for pitched memory.
            unsafe { queue_box(stream, memory, sides, &place.extent()) }
        })
    }
}
