//! The owner of device memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use cuda_sys::CUdeviceptr;

use super::{DeviceRepr, DeviceSlice, DeviceSliceMut, bytes_of};
use crate::driver::call;
use crate::error::{DriverError, Error, Result};
use crate::order::{Access, Scope, Tracker};
use crate::planted::Fault;
use crate::stream::Stream;

/// `len` elements of `T` on the device, freed when it goes.
///
/// A buffer has a home stream, the one it was made on. Copies and frees run there. Kernels on any stream of the
/// same context may take it as an argument, as `&buffer` if they only read it and as `&mut buffer` if they write
/// it; uses on different streams are ordered by events where the stream changes, at no cost where it does not.
/// Dropping it frees the memory behind all uses, without waiting.
///
/// A length of 0 is fine, and calls nothing.
pub struct DeviceBuffer<T: DeviceRepr> {
    pub(crate) memory: Memory,
    len: usize,
    elements: PhantomData<T>,
}

/// An allocation with the order of its uses.
pub(crate) struct Memory {
    pub(crate) address: CUdeviceptr,
    bytes: usize,
    pub(crate) tracker: Tracker,
}

impl<T: DeviceRepr> DeviceBuffer<T> {
    /// `cuMemAllocAsync()`—`len` elements with whatever was in that memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] with the bytes asked for, [`Error::SizeOverflow`] if they do not fit in an address.
    ///
    /// # Safety
    ///
    /// Nothing reads an element before something has written it. (Any bits are a `T`; but what another process or
    /// an earlier buffer left there must not leak out.)
    #[doc(alias = "cuMemAllocAsync")]
    pub unsafe fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        let memory = Memory::allocate(stream, bytes_of::<T>(len)?)?;
        Ok(Self {
            memory,
            len,
            elements: PhantomData,
        })
    }

    /// `cuMemAllocAsync()`, `cuMemsetD8Async(0)`—`len` elements of zero bits.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit).
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let buffer = unsafe { Self::uninit(stream, len) }?;
        let Memory { address, bytes, .. } = buffer.memory;
        if bytes > 0 {
            // SAFETY: the range must be allocated ← it is the whole of the allocation.
            unsafe {
                call!(
                    stream.driver(),
                    cuMemsetD8Async(address, 0, bytes, stream.as_raw())
                )
            }?;
        }
        Ok(buffer)
    }

    /// A copy of `source`.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit) and [`copy_from_host`](Self::copy_from_host).
    pub fn from_host(stream: &Stream, source: &[T]) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below.
        let mut buffer = unsafe { Self::uninit(stream, source.len()) }?;
        buffer.copy_from_host(source)?;
        Ok(buffer)
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

    /// The address on the device; 0 for a length of 0.
    ///
    /// What is done with it is not ordered with the uses that this crate sees.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.memory.address
    }

    /// The home stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.memory.home()
    }

    /// All elements, to read.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(&self.memory, self.memory.address, self.len)
    }

    /// All elements, to write.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(&self.memory, self.memory.address, self.len)
    }

    /// The elements of `range`, to read; `None` if it is out of bounds.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Option<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }

    /// The elements of `range`, to write; `None` if it is out of bounds.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<DeviceSliceMut<'_, T>> {
        self.as_mut_slice().into_slice(range)
    }

    /// `cuMemcpyHtoDAsync()`, `cuStreamSynchronize()`—Overwrites the buffer; returns when `source` is free again.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] unless both are of one length, or what the calls answer.
    #[doc(alias = "cuMemcpyHtoD")]
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        self.as_mut_slice().copy_from_host(source)
    }

    /// `cuMemcpyDtoHAsync()`, `cuStreamSynchronize()`—Copies the buffer; returns when `destination` is filled.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] unless both are of one length, or what the calls answer.
    #[doc(alias = "cuMemcpyDtoH")]
    pub fn copy_to_host(&self, destination: &mut [T]) -> Result<()> {
        self.as_slice().copy_to_host(destination)
    }

    /// A copy of the buffer on the host.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// `cuMemFreeAsync()`—Frees the memory behind all uses, and answers what the driver says.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    #[doc(alias = "cuMemFreeAsync")]
    pub fn close(self) -> Result<()> {
        self.memory.close()
    }
}

impl<T: DeviceRepr> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceBuffer({:#x}, {} x {})",
            self.memory.address,
            self.len,
            size_of::<T>()
        )
    }
}

impl Memory {
    fn allocate(home: &Stream, bytes: usize) -> Result<Self> {
        let mut address = 0;
        if bytes > 0 {
            let driver = home.driver();
            let status = if home.context().limits().pools {
                // SAFETY: pointer and stream must be valid ← a local, and borrowed.
                unsafe {
                    call!(
                        driver,
                        cuMemAllocAsync(&raw mut address, bytes, home.as_raw())
                    )
                }
            } else {
                let _current = home.context().enter()?;
                // SAFETY: the pointer must be writable ← it is to a local.
                unsafe { call!(driver, cuMemAlloc_v2(&raw mut address, bytes)) }
            };
            status.map_err(|error| Error::of_allocation(error, bytes))?;
        }
        Ok(Self {
            address,
            bytes,
            tracker: Tracker::new(home),
        })
    }

    pub(crate) fn home(&self) -> &Stream {
        self.tracker.home()
    }

    /// Queues something on the home stream that uses this memory: waits for what matters, then notes the use.
    pub(crate) fn use_at_home(
        &self,
        access: Access,
        queue: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<()> {
        let mut scope = Scope::new(self.home());
        self.tracker.before(&scope, access)?;
        queue()?;
        self.tracker.after(&mut scope, access);
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        let result = self.free();
        // So that the drop has nothing left to do.
        self.bytes = 0;
        Ok(result?)
    }

    /// Frees the memory behind all uses.
    fn free(&mut self) -> Result<(), DriverError> {
        if self.bytes == 0 {
            return Ok(());
        }
        // If the home stream cannot be made to wait, the memory is not freed: a use may still be under way.
        self.tracker.before_free()?;
        let other = if Fault::FreedOnOtherStream.is_planted() {
            self.home().context().default_stream().ok()
        } else {
            None
        };
        let home = other.as_ref().unwrap_or(self.home());
        if home.context().limits().pools {
            // SAFETY: the memory must be allocated and no longer used ← it is owned, and the stream has just been
            // made to wait for every use on another stream.
            unsafe { call!(home.driver(), cuMemFreeAsync(self.address, home.as_raw())) }
        } else {
            home.state().synchronize()?;
            // SAFETY: as above, and the host has waited for the stream.
            unsafe { call!(home.driver(), cuMemFree_v2(self.address)) }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A drop has nobody to tell; `close` does. What fails here leaks in the driver, and nothing else.
        let _ = self.free();
    }
}

/// A range of a slice of `len` elements as (start, length); `None` if it is out of bounds.
pub(crate) fn resolve(range: impl RangeBounds<usize>, len: usize) -> Option<(usize, usize)> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.checked_add(1)?,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    (start <= end && end <= len).then(|| (start, end - start))
}
