//! Copies of boxes between the device and the host, and within the device.

use super::rows::{Side, queue};
use super::{PitchedSlice, PitchedSliceMut};
use crate::error::Result;
use crate::memory::host_copy::{from_pinned, to_pinned};
use crate::memory::pinned::expect_locked_for;
use crate::memory::{DeviceRepr, PageLocked, expect_len, staging};
use crate::reports;
use crate::stream::Stream;

/// Copies to the host.
impl<T: DeviceRepr> PitchedSlice<'_, T> {
    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`, `cuStreamSynchronize()`—Copies the elements to
    /// `destination`, with contiguous rows. Returns when the copy has completed. The copy works as
    /// [`DeviceSlice::copy_to_host`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_host`] does.
    ///
    /// [`DeviceSlice::copy_to_host`]: crate::DeviceSlice::copy_to_host
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cudaMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    #[doc(alias = "cudaMemcpy3D")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        expect_len(self.extent().len::<T>()?, destination.len())?;
        // SAFETY: the destination must be writable for all elements ← it has the same length, and
        // is borrowed mutably.
        unsafe { self.download(self.memory.owning_stream(), destination.as_mut_ptr()) }
    }

    /// Copies all elements to a new `Vec`, with contiguous rows.
    ///
    /// # Errors
    ///
    /// Fails as [`copy_to_host`](Self::copy_to_host) does.
    pub fn to_vec(self) -> Result<Vec<T>> {
        let (owner, begun) = (self.memory.owning_stream(), reports::begin());
        let elements = self.read_all()?;
        self.memory
            .report_violations(begun, self.access, Some(owner))?;
        Ok(elements)
    }

    /// Does the work of [`to_vec`](Self::to_vec) without a report of violations.
    pub(crate) fn read_all(&self) -> Result<Vec<T>> {
        let len = self.extent().len::<T>()?;
        let mut elements = Vec::with_capacity(len);
        // SAFETY: the destination must be writable for all elements ← the capacity is at least the
        // length.
        unsafe { self.fetch(self.memory.owning_stream(), elements.as_mut_ptr()) }?;
        // SAFETY: the elements must be initialized ← the copy has written all of them, and every
        // bit pattern is a valid `T`.
        unsafe { elements.set_len(len) };
        Ok(elements)
    }

    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`, `cuStreamSynchronize()`—Copies the elements to
    /// page-locked memory, with contiguous rows and without an intermediate copy. Returns when the
    /// copy has completed.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSlice::copy_to_pinned`](crate::DeviceSlice::copy_to_pinned) does.
    pub fn copy_to_pinned(&self, destination: &mut impl PageLocked<T>) -> Result<()> {
        expect_len(self.extent().len::<T>()?, destination.len())?;
        let owner = self.memory.owning_stream();
        expect_locked_for(owner.context(), destination.context(), "the destination")?;
        if self.rows.bytes() == 0 {
            return Ok(());
        }
        let rows = self.rows;
        to_pinned(self.memory, self.access, destination, |to| {
            // SAFETY: both sides must hold the rows until the copy has completed, and must not
            // overlap ← the lengths are equal and the view is within its allocation; `to_pinned`
            // waits for the copy, and never frees the destination if the wait fails.
            unsafe { queue(owner, Side::Host(to), Side::Device(rows), &rows) }
        })
    }

    /// Copies the elements to `destination` on `stream`, which belongs to the context of the
    /// memory.
    ///
    /// # Safety
    ///
    /// `destination` has room for the elements, and no other code uses it during the call.
    pub(in crate::memory) unsafe fn download(
        &self,
        stream: &Stream,
        destination: *mut T,
    ) -> Result<()> {
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
        // SAFETY: both sides must hold the bytes, and no other code may use the destination ← the
        // view is within its allocation, and the caller guarantees both for the destination.
        unsafe {
            staging::download_rows(
                stream,
                (self.memory, self.access),
                &self.rows,
                destination.cast(),
            )
        }
    }
}

/// Copies from the host, and from other views.
impl<T: DeviceRepr> PitchedSliceMut<'_, T> {
    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Copies `source`, whose rows are contiguous, over
    /// the elements. Returns when `source` may be reused. The copy works as
    /// [`DeviceSliceMut::copy_from_host`] does.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_host`] does.
    ///
    /// [`DeviceSliceMut::copy_from_host`]: crate::DeviceSliceMut::copy_from_host
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cudaMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    #[doc(alias = "cudaMemcpy3D")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.upload(self.memory.owning_stream(), source)
    }

    /// Copies `source` over the elements on `stream`, which belongs to the context of the memory.
    pub(in crate::memory) fn upload(&mut self, stream: &Stream, source: &[T]) -> Result<()> {
        expect_len(source.len(), self.extent().len::<T>()?)?;
        // SAFETY: both sides must hold the bytes, and no code may write the source during the call
        // ← the lengths are equal and the view is within its allocation; the source is borrowed.
        unsafe {
            staging::upload_rows(
                stream,
                (self.memory, self.access),
                &self.rows,
                source.as_ptr().cast(),
            )
        }
    }

    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`, `cuStreamSynchronize()`—Copies page-locked
    /// memory, whose rows are contiguous, over the elements, without an intermediate copy. Returns
    /// when the device has read `source`.
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceSliceMut::copy_from_pinned`](crate::DeviceSliceMut::copy_from_pinned) does.
    pub fn copy_from_pinned(&mut self, source: &impl PageLocked<T>) -> Result<()> {
        expect_len(source.len(), self.extent().len::<T>()?)?;
        let owner = self.memory.owning_stream();
        expect_locked_for(owner.context(), source.context(), "the source")?;
        if self.rows.bytes() == 0 {
            return Ok(());
        }
        let rows = self.rows;
        from_pinned(self.memory, self.access, source, |from| {
            // SAFETY: both sides must hold the rows until the copy has completed, and must not
            // overlap ← the lengths are equal and the view is within its allocation; `from_pinned`
            // waits for the copy, and never frees the source if the wait fails.
            unsafe { queue(owner, Side::Device(rows), Side::Host(from), &rows) }
        })
    }

    /// `cuMemcpy3DAsync()` or `cuMemcpy2DAsync()`—Queues a copy from other memory of the same
    /// context, on the owning stream of this view's buffer.
    ///
    /// # Errors
    ///
    /// [`Error::ExtentMismatch`](crate::Error::ExtentMismatch) unless both views have the same
    /// extent, or [`Error::OtherContext`](crate::Error::OtherContext) if the source belongs to
    /// another context.
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cudaMemcpy2DAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    #[doc(alias = "cudaMemcpy3DAsync")]
    pub fn copy_from(&mut self, source: &PitchedSlice<'_, T>) -> Result<()> {
        self.copy_from_on(source, self.memory.owning_stream())
    }
}
