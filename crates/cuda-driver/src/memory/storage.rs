//! Untyped device memory with several owners, for tensor libraries.
//!
//! In C a tensor is an address and a reference count of the library. Here the count decides whether
//! the memory can be borrowed exclusively.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::{DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, SharedSlice, len_of_cast};
use crate::error::{Error, Result};
use crate::stream::Stream;

/// Device memory of any number of owners, without an element type. A clone shares the memory, which
/// is freed after the last owner was dropped.
///
/// Views have an element type, and refer to a range of bytes. A read-only view needs any handle; a
/// writable view needs the only one, or the `unsafe` [`alias_mut`](Self::alias_mut).
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::Storage;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut storage = Storage::from(DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0])?);
/// storage.view_mut::<f32>(4..8)?.fill(5.0)?;
/// let shared = storage.clone();
/// assert_eq!(shared.view::<f32>(..)?.to_vec()?, [1.0, 5.0, 3.0]);
/// // There is another handle.
/// assert!(storage.view_mut::<f32>(..).is_err());
/// drop(shared);
/// assert!(storage.view_mut::<f32>(..).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Storage(Arc<DeviceBuffer<u8>>);

impl Storage {
    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Returns the device address, or 0 if the buffer has 0 bytes. See [`DeviceBuffer::as_raw`].
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.0.as_raw()
    }

    /// Returns the owning stream of the memory.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.0.stream()
    }

    /// Returns whether this is the only handle of the memory, counting the views that
    /// [`share`](Self::share) returns. If other threads can clone this handle, the result can be
    /// out of date when the method returns.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns a read-only view of a range of bytes as elements of `T`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for the range, and the errors of [`DeviceSlice::cast`].
    pub fn view<T: DeviceRepr>(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<DeviceSlice<'_, T>> {
        self.0.slice(range)?.cast()
    }

    /// Returns a writable view of a range of bytes as elements of `T`.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if this is not the only handle, and the errors of
    /// [`view`](Self::view).
    pub fn view_mut<T: DeviceRepr>(
        &mut self,
        range: impl RangeBounds<usize>,
    ) -> Result<DeviceSliceMut<'_, T>> {
        self.expect_unique()?.slice_mut(range)?.cast()
    }

    /// Returns a view of a range of bytes that keeps the memory alive.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for the range.
    pub fn share(&self, range: impl RangeBounds<usize>) -> Result<SharedSlice<u8>> {
        SharedSlice::from(Arc::clone(&self.0)).slice(range)
    }

    /// Returns a writable view of a range of bytes as elements of `T`, whatever other handles
    /// exist. See [`DeviceBuffer::alias_mut`].
    ///
    /// # Errors
    ///
    /// Fails as [`DeviceBuffer::alias_mut`] and [`view`](Self::view) do.
    ///
    /// # Safety
    ///
    /// The requirements of [`DeviceBuffer::alias_mut`] apply.
    pub unsafe fn alias_mut<T: DeviceRepr>(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<DeviceSliceMut<'_, T>> {
        // SAFETY: the contract of `alias_mut` must hold ← the caller upholds it.
        let whole = unsafe { self.0.alias_mut() }?;
        whole.into_slice(range)?.cast()
    }

    /// Prepares the memory for [`alias_mut`](Self::alias_mut): see [`DeviceBuffer::allow_aliases`].
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if this is not the only handle.
    pub fn allow_aliases(&mut self) -> Result<()> {
        self.expect_unique()?.allow_aliases()
    }

    /// Returns the memory as a buffer of elements of `T`.
    ///
    /// # Errors
    ///
    /// Returns the storage if this is not the only handle, or if the memory does not consist of
    /// whole, aligned elements of `T`.
    pub fn into_buffer<T: DeviceRepr>(self) -> Result<DeviceBuffer<T>, Self> {
        match len_of_cast::<T>(self.as_raw(), self.bytes()) {
            Ok(len) => match Arc::try_unwrap(self.0) {
                Ok(buffer) => Ok(DeviceBuffer::of_memory(buffer.memory, len)),
                Err(shared) => Err(Self(shared)),
            },
            Err(_) => Err(self),
        }
    }

    fn expect_unique(&mut self) -> Result<&mut DeviceBuffer<u8>> {
        Arc::get_mut(&mut self.0).ok_or(Error::StillInUse {
            what: "the storage",
            by: "other handles",
        })
    }
}

impl<T: DeviceRepr> From<DeviceBuffer<T>> for Storage {
    fn from(buffer: DeviceBuffer<T>) -> Self {
        let bytes = buffer.span_bytes();
        Self(Arc::new(DeviceBuffer::of_memory(buffer.memory, bytes)))
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({:#x}, {} bytes)", self.as_raw(), self.bytes())
    }
}
