//! Copies of boxes: between the device and the host, and on the device.

use super::rows::{Side, queue};
use super::{PitchedSlice, PitchedSliceMut};
use crate::error::Result;
use crate::memory::host_copy::{from_pinned, to_pinned};
use crate::memory::pinned::expect_locked_for;
use crate::memory::{DeviceRepr, PageLocked, expect_len, staging};
use crate::order::Scope;

impl<T: DeviceRepr> PitchedSlice<'_, T> {
    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`, `cuStreamSynchronize()`—Copies the elements, the
    /// rows one right behind the other; returns when `destination` is filled. The way is that of
    /// [`DeviceSlice::copy_to_host`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// [`DeviceSlice::copy_to_host`]: crate::DeviceSlice::copy_to_host
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        expect_len(self.extent().len::<T>()?, destination.len())?;
        // SAFETY: so many elements must be writable there ← the destination is as long, and
        // borrowed.
        unsafe { self.download(destination.as_mut_ptr()) }
    }

    /// A copy of the elements on the host, the rows one right behind the other.
    ///
    /// # Errors
    ///
    /// As [`copy_to_host`](Self::copy_to_host).
    pub fn to_vec(self) -> Result<Vec<T>> {
        let len = self.extent().len::<T>()?;
        let mut elements = Vec::with_capacity(len);
        // SAFETY: so many elements must be writable there ← the capacity is the length.
        unsafe { self.download(elements.as_mut_ptr()) }?;
        // SAFETY: the elements must be initialised ← the copy has filled them all, and any bits are
        // a `T`.
        unsafe { elements.set_len(len) };
        Ok(elements)
    }

    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`, `cuStreamSynchronize()`—Copies the elements to
    /// page-locked memory, directly, the rows one right behind the other; returns when
    /// `destination` is filled.
    ///
    /// # Errors
    ///
    /// As [`DeviceSlice::copy_to_pinned`](crate::DeviceSlice::copy_to_pinned).
    pub fn copy_to_pinned(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        expect_len(self.extent().len::<T>()?, destination.len())?;
        let home = self.memory.home();
        expect_locked_for(home.context(), destination.context(), "the destination")?;
        if self.rows.bytes() == 0 {
            return Ok(());
        }
        let rows = self.rows;
        to_pinned(self.memory, self.access, destination, |to| {
            // SAFETY: both sides must have the rows until the copy is done, apart ← the lengths are
            // equal, the view is within its allocation; `to_pinned` waits, and keeps the
            // destination if that fails.
            unsafe { queue(home, Side::Host(to), Side::Device(rows), &rows) }
        })
    }

    /// # Safety
    ///
    /// `destination` has room for the elements, and nobody else uses it meanwhile.
    unsafe fn download(&self, destination: *mut T) -> Result<()> {
        // SAFETY: both sides must have the bytes, the destination be ours alone ← the view is
        // within its allocation, and the caller says so of the destination.
        unsafe { staging::download_rows(self.memory, self.access, &self.rows, destination.cast()) }
    }
}

impl<T: DeviceRepr> PitchedSliceMut<'_, T> {
    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Overwrites the elements from `source`, whose rows
    /// lie one right behind the other; returns when `source` is free again. The way is that of
    /// [`DeviceSliceMut::copy_from_host`].
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// [`DeviceSliceMut::copy_from_host`]: crate::DeviceSliceMut::copy_from_host
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        expect_len(source.len(), self.extent().len::<T>()?)?;
        // SAFETY: both sides must have the bytes, and nobody write the source ← the lengths are
        // equal, the view is within its allocation; the source is borrowed.
        unsafe {
            staging::upload_rows(self.memory, self.access, &self.rows, source.as_ptr().cast())
        }
    }

    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`, `cuStreamSynchronize()`—Overwrites the elements
    /// from page-locked memory, directly, whose rows lie one right behind the other; returns when
    /// the device has read `source`.
    ///
    /// # Errors
    ///
    /// As [`DeviceSliceMut::copy_from_pinned`](crate::DeviceSliceMut::copy_from_pinned).
    pub fn copy_from_pinned(&mut self, source: &impl PageLocked<T>) -> Result<()> {
        expect_len(source.len(), self.extent().len::<T>()?)?;
        let home = self.memory.home();
        expect_locked_for(home.context(), source.context(), "the source")?;
        if self.rows.bytes() == 0 {
            return Ok(());
        }
        let rows = self.rows;
        from_pinned(self.memory, self.access, source, |from| {
            // SAFETY: both sides must have the rows until the copy is done, apart ← the lengths are
            // equal, the view is within its allocation; `from_pinned` waits, and keeps the source
            // if that fails.
            unsafe { queue(home, Side::Device(rows), Side::Host(from), &rows) }
        })
    }

    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Queues a copy from other memory of the same
    /// context, on this buffer's home stream.
    ///
    /// # Errors
    ///
    /// [`Error::ExtentMismatch`](crate::Error::ExtentMismatch) unless both are of one extent,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the source is of another context, or
    /// what the calls answer.
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    pub fn copy_from(&mut self, source: &PitchedSlice<'_, T>) -> Result<()> {
        self.extent().expect(source.extent())?;
        if self.rows.bytes() == 0 {
            return Ok(());
        }
        let home = self.memory.home();
        let mut scope = Scope::new(home);
        // The source may be one that is used inside the gate, where nothing is waited for.
        self.memory.tracker.settle_before(&scope, self.access)?;
        source.memory.tracker.before(&scope, source.access)?;
        let (to, from) = (Side::Device(self.rows), Side::Device(source.rows));
        self.memory.use_at_home(self.access, || {
            // SAFETY: both sides must have the rows until the copy is done, apart ← the extents are
            // equal, and both views are within their allocations, whose frees wait for this use.
            // They cannot overlap: one is borrowed mutably.
            unsafe { queue(home, to, from, &self.rows) }
        })?;
        source.memory.tracker.after(&mut scope, source.access);
        Ok(())
    }
}
