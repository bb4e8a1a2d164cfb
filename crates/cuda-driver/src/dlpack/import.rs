//! Tensors with the function that releases them, and their import as buffers.

use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};

use super::Element;
use super::array_interface::stream_argument;
use super::layout::{is_compact, read, span};
use super::raw::{DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor};
use crate::error::{Error, ExchangeError, Result};
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;

/// The version of the structs that this crate creates.
pub(super) const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };

/// A tensor with the function that releases it: a `DLManagedTensorVersioned` that this value owns.
///
/// It is exported from a buffer ([`DeviceBuffer::into_dlpack`]) or received from another library
/// ([`from_raw`](Self::from_raw)). Dropping it releases the tensor.
pub struct DlTensor(NonNull<DLManagedTensorVersioned>);

// SAFETY: the struct may be used from any thread ← DLPack requires that the deleter can be called
// on any thread, and nothing else of the struct changes.
unsafe impl Send for DlTensor {}
// SAFETY: as above.
unsafe impl Sync for DlTensor {}

impl DlTensor {
    /// Takes ownership of a tensor of another library: the pointer in a Python capsule named
    /// `dltensor_versioned`.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] if the major version is not 1. The tensor is released then.
    ///
    /// # Safety
    ///
    /// `raw` is a valid struct with its shape and strides, no other code releases it, and its
    /// deleter may be called on any thread.
    pub unsafe fn from_raw(raw: NonNull<DLManagedTensorVersioned>) -> Result<Self> {
        let this = Self(raw);
        let DLPackVersion { major, minor } = this.raw().version;
        if major != VERSION.major {
            return Err(Error::from(ExchangeError::Version {
                given: (major, minor),
            }));
        }
        Ok(this)
    }

    /// Takes ownership of a tensor of a library that uses DLPack before version 1.0: the pointer in
    /// a Python capsule named `dltensor`. It is not read-only.
    ///
    /// # Safety
    ///
    /// The requirements of [`from_raw`](Self::from_raw) apply.
    #[must_use]
    pub unsafe fn from_raw_unversioned(raw: NonNull<DLManagedTensor>) -> Self {
        // SAFETY: the struct must be valid ← the caller guarantees it.
        let dl_tensor = unsafe { raw.as_ref() }.dl_tensor;
        let owned = Box::new(DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: raw.as_ptr().cast(),
            deleter: Some(delete_unversioned),
            flags: 0,
            dl_tensor,
        });
        Self(NonNull::from(Box::leak(owned)))
    }

    /// Releases ownership and returns the struct, for another library. That library calls the
    /// deleter once.
    #[must_use]
    pub fn into_raw(self) -> NonNull<DLManagedTensorVersioned> {
        let raw = self.0;
        mem::forget(self);
        raw
    }

    /// Returns the tensor as DLPack describes it.
    #[must_use]
    pub fn tensor(&self) -> &DLTensor {
        &self.raw().dl_tensor
    }

    /// Returns whether the memory must not be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.raw().flags & DLManagedTensorVersioned::READ_ONLY != 0
    }

    /// Returns the length of each dimension.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] if a number is negative.
    pub fn shape(&self) -> Result<Vec<usize>> {
        // SAFETY: the shape and the strides must be valid ← as for every value of this type.
        Ok(unsafe { read(self.tensor()) }?.0)
    }

    fn raw(&self) -> &DLManagedTensorVersioned {
        // SAFETY: the struct must be valid and unchanged ← the creator of this value guarantees it,
        // and this value owns it.
        unsafe { self.0.as_ref() }
    }

    /// Imports the tensor as a buffer on `stream`, without a copy. When the result is dropped, a
    /// worker thread releases the tensor after all uses of the memory.
    ///
    /// The producer has to be asked for the tensor with the number of `stream`, which
    /// [`Stream::dlpack_argument`] returns: `x.__dlpack__(stream=…, max_version=(1, 0))`.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] if the elements have another type, if the memory is not device memory or
    /// managed memory of the device of `stream`, or if a stride is negative, and
    /// [`Error::Misaligned`] if the address is not aligned. The tensor is released then.
    ///
    /// # Safety
    ///
    /// - The memory that the tensor describes is valid, the context of `stream` can use it, and all
    ///   of its bytes from the first to the last element have been written.
    /// - The producer has made `stream` wait for its uses.
    /// - While the result exists, other code does not write the memory, nor read what is written
    ///   through the buffer, unless it orders its work with the buffer, as by [`Stream::using`].
    pub unsafe fn into_buffer<T: Element>(self, stream: &Stream) -> Result<Imported<T>> {
        let tensor = *self.tensor();
        let device = tensor.device;
        let ordinal = stream.context().device().ordinal();
        let is_here = i64::from(device.device_id) == i64::from(ordinal);
        if !is_here || ![DLDevice::CUDA, DLDevice::CUDA_MANAGED].contains(&device.device_type) {
            return Err(Error::from(ExchangeError::Device {
                given: (device.device_type, device.device_id),
                ordinal,
            }));
        }
        let name = |of: super::DLDataType| (of.code, of.bits, of.lanes);
        if tensor.dtype != T::DTYPE {
            return Err(Error::from(ExchangeError::Type {
                given: name(tensor.dtype),
                expected: name(T::DTYPE),
            }));
        }
        // SAFETY: the shape and the strides must be valid ← as for every value of this type.
        let (shape, strides) = unsafe { read(&tensor) }?;
        let len = span(&shape, &strides)?;
        let address = (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset);
        if len > 0 && !address.is_multiple_of(align_of::<T>() as u64) {
            return Err(Error::Misaligned {
                address,
                align: align_of::<T>(),
            });
        }
        let is_read_only = self.is_read_only();
        // SAFETY: the memory must be valid and unused by other code while `self` exists, and
        // `stream` ordered behind its uses ← the caller guarantees it; the span covers the
        // elements.
        let buffer = unsafe { DeviceBuffer::from_foreign_deferred(stream, address, len, self) }?;
        Ok(Imported {
            buffer,
            shape,
            strides,
            is_read_only,
        })
    }
}

impl Drop for DlTensor {
    fn drop(&mut self) {
        let deleter = self.raw().deleter;
        if let Some(deleter) = deleter {
            // SAFETY: the struct must not be used afterwards, and no other code may release it ←
            // this value owns it, and is being dropped.
            unsafe { deleter(self.0.as_ptr()) };
        }
    }
}

impl fmt::Debug for DlTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DlTensor({:?})", self.tensor())
    }
}

/// Releases a struct of `from_raw_unversioned`, and the tensor in it.
unsafe extern "C" fn delete_unversioned(raw: *mut DLManagedTensorVersioned) {
    // SAFETY: the struct must come from a `Box` that nothing uses afterwards ←
    // `from_raw_unversioned` has made it, and the deleter is called once.
    let owned = unsafe { Box::from_raw(raw) };
    let inner: *mut DLManagedTensor = owned.manager_ctx.cast();
    // SAFETY: the struct must be valid ← it is released only here.
    if let Some(deleter) = unsafe { (*inner).deleter } {
        // SAFETY: the struct must not be used afterwards ← this is its last use.
        unsafe { deleter(inner) };
    }
}

/// A tensor of another library as a buffer: see [`DlTensor::into_buffer`].
#[derive(Debug)]
pub struct Imported<T: Element> {
    buffer: DeviceBuffer<T>,
    shape: Vec<usize>,
    strides: Vec<usize>,
    is_read_only: bool,
}

impl<T: Element> Imported<T> {
    /// Returns the length of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the distance of neighbours along each dimension, in elements.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Returns whether the tensor is compact and row-major. Otherwise the views also contain
    /// elements that are not part of the tensor.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        is_compact(&self.shape, &self.strides)
    }

    /// Returns whether the memory must not be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns a view of the memory from the first to the last element.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        self.buffer.as_slice()
    }

    /// Returns a writable view of the memory from the first to the last element.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] if the tensor is read-only.
    pub fn as_mut_slice(&mut self) -> Result<DeviceSliceMut<'_, T>> {
        self.expect_writable("a writable view")?;
        Ok(self.buffer.as_mut_slice())
    }

    /// Returns the memory from the first to the last element as a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Exchange`] if the tensor is read-only.
    pub fn into_buffer(self) -> Result<DeviceBuffer<T>> {
        self.expect_writable("a `DeviceBuffer`, which is always writable,")?;
        Ok(self.buffer)
    }

    fn expect_writable(&self, what: &'static str) -> Result<()> {
        if self.is_read_only {
            Err(Error::from(ExchangeError::ReadOnly { what }))
        } else {
            Ok(())
        }
    }
}

/// Exchange of tensors with other libraries.
impl Stream {
    /// Returns the number that names this stream in Python, for `__dlpack__(stream=…)`: 1 for the
    /// legacy stream, 2 for the per-thread stream, and otherwise the handle.
    #[must_use]
    pub fn dlpack_argument(&self) -> i64 {
        stream_argument(self)
    }
}

/// Returns a pointer with this address, which the host does not dereference.
pub(super) fn pointer(address: u64) -> *mut c_void {
    ptr::without_provenance_mut(address as usize)
}
