//! Views of device memory, with the borrow rules of slices.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, Memory, expect_len, resolve};
use crate::driver::call;
use crate::error::Result;
use crate::order::{Access, Scope};
use crate::planted::Fault;

/// Elements of a [`DeviceBuffer`](crate::DeviceBuffer), to read: what `&[T]` is to `Vec<T>`.
#[derive(Clone, Copy)]
pub struct DeviceSlice<'a, T: DeviceRepr> {
    pub(crate) memory: &'a Memory,
    pub(super) address: CUdeviceptr,
    pub(super) len: usize,
    /// How its uses are noted.
    pub(crate) access: Access,
    pub(super) elements: PhantomData<&'a [T]>,
}

/// Elements of a [`DeviceBuffer`](crate::DeviceBuffer), to write: what `&mut [T]` is to `Vec<T>`.
pub struct DeviceSliceMut<'a, T: DeviceRepr> {
    pub(crate) memory: &'a Memory,
    pub(super) address: CUdeviceptr,
    pub(super) len: usize,
    /// How its uses are noted.
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

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of its elements.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // No overflow: the view is of memory.
        self.len * size_of::<T>()
    }

    /// The bytes that a kernel which gets it may use.
    pub(crate) fn reach(&self) -> usize {
        self.bytes()
    }

    /// The address on the device.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// The elements of `range`; `None` if it is out of bounds.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Option<Self> {
        let (start, len) = resolve(range, self.len)?;
        Some(Self {
            address: offset::<T>(self.address, start),
            len,
            ..*self
        })
    }

    /// At most `len` elements from `start` on, which is within the view.
    pub(super) fn piece(&self, start: usize, len: usize) -> Self {
        Self {
            address: offset::<T>(self.address, start),
            len: len.min(self.len - start),
            ..*self
        }
    }

    /// The elements before and from `middle`; `None` if that is out of bounds.
    #[must_use]
    pub fn split_at(&self, middle: usize) -> Option<(Self, Self)> {
        Some((self.slice(..middle)?, self.slice(middle..)?))
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

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes that a kernel which gets it may use.
    pub(crate) fn reach(&self) -> usize {
        self.bytes()
    }

    /// The address on the device.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// The bytes of its elements.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // No overflow: the view is of memory.
        self.len * size_of::<T>()
    }

    /// The same elements, to read.
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

    /// The same elements for a shorter time, to write.
    #[must_use]
    pub fn reborrow(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut { ..*self }
    }

    /// The elements of `range`; `None` if it is out of bounds.
    #[must_use]
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Option<Self> {
        let (start, len) = resolve(range, self.len)?;
        Some(Self {
            address: offset::<T>(self.address, start),
            len,
            ..self
        })
    }

    /// At most `len` elements from `start` on, which is within the view. Others may have other
    /// pieces.
    pub(super) fn piece(&self, start: usize, len: usize) -> Self {
        Self {
            address: offset::<T>(self.address, start),
            len: len.min(self.len - start),
            access: self.access.of_part(),
            ..*self
        }
    }

    /// The elements before and from `middle`, both to write; `None` if that is out of bounds.
    #[must_use]
    pub fn split_at_mut(self, middle: usize) -> Option<(Self, Self)> {
        let (_, rest) = resolve(middle.., self.len)?;
        let (address, access) = (offset::<T>(self.address, middle), self.access.of_part());
        let lower = Self {
            len: middle,
            access,
            ..self
        };
        Some((
            lower,
            Self {
                address,
                len: rest,
                access,
                ..self
            },
        ))
    }

    /// `cuMemcpyDtoDAsync()`—Queues a copy from other memory of the same context, on this buffer's
    /// home stream.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless both are of one length,
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the source is of another context, or
    /// what the calls answer.
    #[doc(alias = "cuMemcpyDtoDAsync")]
    pub fn copy_from(&mut self, source: &DeviceSlice<'_, T>) -> Result<()> {
        expect_len(source.len, self.len)?;
        let home = self.memory.home();
        if self.is_empty() || size_of::<T>() == 0 {
            return Ok(());
        }
        let mut scope = Scope::new(home);
        // The source may be one that is used inside the gate, where nothing is waited for.
        self.memory.tracker.settle_before(&scope, self.access)?;
        source.memory.tracker.before(&scope, source.access)?;
        self.memory.use_at_home(self.access, || {
            // SAFETY: both sides must hold the bytes ← the lengths are equal, and both views are
            // within their allocations, whose frees wait for this use. They cannot overlap: one is
            // borrowed mutably.
            unsafe {
                call!(
                    home.driver(),
                    cuMemcpyDtoDAsync_v2(
                        self.address,
                        source.address,
                        self.len * size_of::<T>(),
                        home.as_raw()
                    )
                )
            }
        })?;
        if !Fault::CopySourceLost.is_planted() {
            source.memory.tracker.after(&mut scope, source.access);
        }
        Ok(())
    }
}

/// The address of element `index` of a view that has at least as many.
fn offset<T>(address: CUdeviceptr, index: usize) -> CUdeviceptr {
    // No overflow: the view's bytes fit in an address (`bytes_of`), and `index` is at most its
    // length.
    address + (index * size_of::<T>()) as CUdeviceptr
}

impl<T: DeviceRepr> fmt::Debug for DeviceSlice<'_, T> {
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

impl<T: DeviceRepr> fmt::Debug for DeviceSliceMut<'_, T> {
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
