//! Views of device memory, with the borrow rules of Rust slices.
//!
//! C passes an address and a size. A view carries both, cannot outlive its buffer, and knows the
//! record of uses that orders its copies with work on other streams.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::{DeviceBuffer, DeviceRepr, Memory, resolve};
use crate::context::Context;
use crate::error::Result;
use crate::tracking::Access;

/// A read-only view of elements of a [`DeviceBuffer`](crate::DeviceBuffer). It is to the buffer as
/// `&[T]` is to `Vec<T>`.
///
/// ```
/// use cuda_driver::DeviceBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let words: Vec<u32> = (0..100).collect();
/// let buffer = DeviceBuffer::from_host(&stream, &words)?;
/// let part = buffer.slice(10..20)?;
/// assert_eq!(part.to_vec()?, words[10..20]);
/// let (lower, upper) = part.split_at(4)?;
/// assert_eq!((lower.len(), upper.to_vec()?), (4, words[14..20].to_vec()));
/// let error = buffer.slice(90..101).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the range 90..101 is out of bounds: there are 100 elements"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct DeviceSlice<'a, T> {
    pub(crate) memory: &'a Memory,
    pub(super) address: CUdeviceptr,
    pub(super) len: usize,
    /// How uses of the view are recorded.
    pub(crate) access: Access,
    pub(super) elements: PhantomData<&'a [T]>,
}

/// A writable view of elements of a [`DeviceBuffer`](crate::DeviceBuffer). It is to the buffer as
/// `&mut [T]` is to `Vec<T>`.
///
/// ```
/// use cuda_driver::DeviceBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 6)?;
/// let (mut lower, mut upper) = buffer.as_mut_slice().split_at_mut(3)?;
/// lower.fill(1)?;
/// upper.copy_from_host(&[2, 3, 4])?;
/// assert_eq!(buffer.to_vec()?, [1, 1, 1, 2, 3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DeviceSliceMut<'a, T> {
    pub(crate) memory: &'a Memory,
    pub(super) address: CUdeviceptr,
    pub(super) len: usize,
    /// How uses of the view are recorded.
    pub(crate) access: Access,
    pub(super) elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: DeviceRepr> DeviceSlice<'a, T> {
    pub(crate) fn new(memory: &'a Memory, address: CUdeviceptr, len: usize) -> Self {
        Self {
            memory,
            address,
            len,
            access: Access::READ,
            elements: PhantomData,
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the view has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of the elements in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // This cannot overflow: the elements lie in one allocation.
        self.len * size_of::<T>()
    }

    /// Returns the number of bytes that a kernel may access through this argument.
    pub(crate) fn span_bytes(&self) -> usize {
        self.bytes()
    }

    /// Returns the device address of the first element.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// Returns the context of the memory.
    pub(crate) fn context(&self) -> &'a Context {
        self.memory.owning_stream().context()
    }

    /// Returns a view of the elements in `range`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) with the range and the length.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (start, len) = resolve(range, self.len)?;
        Ok(Self {
            address: offset::<T>(self.address, start),
            len,
            ..*self
        })
    }

    /// Returns a view of at most `len` elements from `start` on. `start` must be within the view.
    pub(super) fn piece(&self, start: usize, len: usize) -> Self {
        Self {
            address: offset::<T>(self.address, start),
            len: len.min(self.len - start),
            ..*self
        }
    }

    /// Splits the view in front of element `middle`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if `middle` is greater than the length.
    pub fn split_at(&self, middle: usize) -> Result<(Self, Self)> {
        Ok((self.slice(..middle)?, self.slice(middle..)?))
    }
}

impl<'a, T: DeviceRepr> DeviceSliceMut<'a, T> {
    pub(crate) fn new(memory: &'a Memory, address: CUdeviceptr, len: usize) -> Self {
        Self {
            memory,
            address,
            len,
            access: Access::WRITE,
            elements: PhantomData,
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if the view has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes that a kernel may access through this argument.
    pub(crate) fn span_bytes(&self) -> usize {
        self.bytes()
    }

    /// Returns the device address of the first element.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// Returns the size of the elements in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // This cannot overflow: the elements lie in one allocation.
        self.len * size_of::<T>()
    }

    /// Returns a read-only view of the same elements.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        let access = if self.access == Access::WRITE {
            Access::READ
        } else {
            Access::READ.of_part()
        };
        DeviceSlice {
            access,
            ..DeviceSlice::new(self.memory, self.address, self.len)
        }
    }

    /// Returns a writable view of the same elements with a shorter lifetime.
    #[must_use]
    pub fn reborrow(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut { ..*self }
    }

    /// Returns a read-only view of the elements in `range`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) with the range and the length.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// Returns a writable view of the elements in `range`, for as long as this view is borrowed.
    /// [`into_slice`](Self::into_slice) returns one that lives as long as this view.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) with the range and the length.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.reborrow().into_slice(range)
    }

    /// Returns a view of the elements in `range`, in place of this one.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) with the range and the length.
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (start, len) = resolve(range, self.len)?;
        Ok(Self {
            address: offset::<T>(self.address, start),
            len,
            ..self
        })
    }

    /// Returns a view of at most `len` elements from `start` on. `start` must be within the view.
    /// The caller may give other pieces of the view to other code, so uses of this one are recorded
    /// as uses of a part.
    pub(super) fn piece(&self, start: usize, len: usize) -> Self {
        Self {
            address: offset::<T>(self.address, start),
            len: len.min(self.len - start),
            access: self.access.of_part(),
            ..*self
        }
    }

    /// Splits the view in front of element `middle` into two writable views.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if `middle` is greater than the length.
    pub fn split_at_mut(self, middle: usize) -> Result<(Self, Self)> {
        let (_, rest) = resolve(middle.., self.len)?;
        let (address, access) = (offset::<T>(self.address, middle), self.access.of_part());
        let lower = Self {
            len: middle,
            access,
            ..self
        };
        Ok((
            lower,
            Self {
                address,
                len: rest,
                access,
                ..self
            },
        ))
    }

    /// `cuMemcpyDtoDAsync()`—Queues a copy from other memory of the same context, on the owning
    /// stream of this view's buffer.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both views have the same
    /// length, or [`Error::OtherContext`](crate::Error::OtherContext) if the source belongs to
    /// another context.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    #[doc(alias = "cudaMemcpyAsync")]
    pub fn copy_from<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> Result<()> {
        self.copy_from_on(source, self.memory.owning_stream())
    }
}

/// Returns the address of element `index` of a view that has at least `index` elements.
fn offset<T>(address: CUdeviceptr, index: usize) -> CUdeviceptr {
    // This cannot overflow: the size of the view fits in an address (`bytes_of`), and `index` is at
    // most its length.
    address + (index * size_of::<T>()) as CUdeviceptr
}

impl<'a, T: DeviceRepr> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: DeviceRepr> From<&DeviceSlice<'a, T>> for DeviceSlice<'a, T> {
    fn from(view: &DeviceSlice<'a, T>) -> Self {
        *view
    }
}

impl<'a, T: DeviceRepr> From<&'a DeviceSliceMut<'_, T>> for DeviceSlice<'a, T> {
    fn from(view: &'a DeviceSliceMut<'_, T>) -> Self {
        view.as_slice()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut DeviceBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_mut_slice()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut DeviceSliceMut<'_, T>> for DeviceSliceMut<'a, T> {
    fn from(view: &'a mut DeviceSliceMut<'_, T>) -> Self {
        view.reborrow()
    }
}

impl<T> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceSlice({:#x}, {} x {})",
            self.address,
            self.len,
            size_of::<T>()
        )
    }
}

impl<T> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceSliceMut({:#x}, {} x {})",
            self.address,
            self.len,
            size_of::<T>()
        )
    }
}
