//! The owner of pitched memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::{Extent, PitchedSlice, PitchedSliceMut, Rows};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::{DeviceRepr, Memory, Source, bytes_of};
use crate::order::Access;
use crate::stream::Stream;

/// Rows of `T` on the device, each beginning where the device reads and writes fast, freed when it
/// goes.
///
/// Row `y` of plane `z` begins `(z * height + y) * pitch` bytes from the start. All that is said of
/// [`DeviceBuffer`](crate::DeviceBuffer) about streams holds here too, but that dropping it waits
/// for the home stream. An extent of no elements is fine, and calls nothing.
pub struct PitchedBuffer<T: DeviceRepr> {
    pub(crate) memory: Memory,
    extent: Extent,
    pitch: usize,
    elements: PhantomData<T>,
}

impl<T: DeviceRepr> PitchedBuffer<T> {
    /// `cuMemAllocPitch()`—Elements with whatever was in that memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] with the bytes asked for, without those that begin rows at good
    /// addresses, [`Error::SizeOverflow`] if they do not fit in an address, [`Error::Misaligned`]
    /// if rows do not begin where a `T` may (they begin at multiples of 256 bytes and more).
    ///
    /// # Safety
    ///
    /// Nothing reads an element before something has written it.
    #[doc(alias = "cuMemAllocPitch")]
    pub unsafe fn uninit(stream: &Stream, extent: impl Into<Extent>) -> Result<Self> {
        let extent = extent.into();
        let len = extent.len::<T>()?;
        let of_memory = |memory, pitch| Self {
            memory,
            extent,
            pitch,
            elements: PhantomData,
        };
        let bytes = len * size_of::<T>();
        if bytes == 0 {
            return Ok(of_memory(
                Memory::nothing(stream),
                extent.width * size_of::<T>(),
            ));
        }
        // The sizes that the driver knows; what kernels read at once.
        let element = match size_of::<T>() {
            size if size.is_multiple_of(16) => 16,
            size if size.is_multiple_of(8) => 8,
            _ => 4,
        };
        let (mut address, mut pitch) = (0, 0);
        let (width, height) = (extent.width * size_of::<T>(), extent.height * extent.depth);
        let current = stream.context().enter()?;
        // SAFETY: the pointers must be writable ← they are to locals.
        unsafe {
            call!(
                stream.driver(),
                cuMemAllocPitch_v2(&raw mut address, &raw mut pitch, width, height, element)
            )
        }
        .map_err(|error| Error::of_allocation(error, bytes))?;
        drop(current);
        let all = pitch.saturating_mul(height);
        // SAFETY: the memory must be of that source and nobody else's ← it was allocated just now.
        let memory = unsafe { Memory::of_source(stream, address, all, Source::Plain) };
        // That the rows fit in an address.
        bytes_of::<u8>(all)?;
        if !pitch.is_multiple_of(align_of::<T>()) {
            return Err(Error::Misaligned {
                address: address + pitch as CUdeviceptr,
                align: align_of::<T>(),
            });
        }
        Ok(of_memory(memory, pitch))
    }

    /// The bytes of all rows, with what lies between them.
    pub(crate) fn reach(&self) -> usize {
        self.pitch * self.extent.height * self.extent.depth
    }

    /// `cuMemAllocPitch()`, `cuMemsetD8Async(0)`—Elements of zero bits.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit).
    pub fn zeroed(stream: &Stream, extent: impl Into<Extent>) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let buffer = unsafe { Self::uninit(stream, extent) }?;
        let bytes = buffer.pitch * buffer.extent.height * buffer.extent.depth;
        if buffer.memory.address != 0 {
            buffer.memory.use_at_home(Access::WRITE, || {
                // SAFETY: the range must be allocated ← it is the whole of the allocation.
                unsafe {
                    call!(
                        stream.driver(),
                        cuMemsetD8Async(buffer.memory.address, 0, bytes, stream.as_raw())
                    )
                }
            })?;
        }
        Ok(buffer)
    }

    /// A copy of `source`, whose rows lie one right behind the other.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit) and [`PitchedSliceMut::copy_from_host`].
    pub fn from_host(stream: &Stream, extent: impl Into<Extent>, source: &[T]) -> Result<Self> {
        // SAFETY: it must be written before it is read ← it is filled below.
        let mut buffer = unsafe { Self::uninit(stream, extent) }?;
        buffer.as_mut_slice().copy_from_host(source)?;
        Ok(buffer)
    }

    /// How many elements it has in each direction.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The bytes from row to row.
    #[must_use]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The address on the device; 0 if there are no elements.
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
    pub fn as_slice(&self) -> PitchedSlice<'_, T> {
        PitchedSlice::new(&self.memory, self.rows(), self.extent.width)
    }

    /// All elements, to write.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> PitchedSliceMut<'_, T> {
        PitchedSliceMut::new(&self.memory, self.rows(), self.extent.width)
    }

    /// A box of the elements, to read; `None` if it is out of bounds.
    #[must_use]
    pub fn region(
        &self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Option<PitchedSlice<'_, T>> {
        self.as_slice().region(x, y, z)
    }

    /// A box of the elements, to write; `None` if it is out of bounds.
    #[must_use]
    pub fn region_mut(
        &mut self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Option<PitchedSliceMut<'_, T>> {
        self.as_mut_slice().into_region(x, y, z)
    }

    /// A copy of the elements on the host, the rows one right behind the other.
    ///
    /// # Errors
    ///
    /// As [`PitchedSlice::copy_to_host`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// `cuMemFree()`—Waits for all uses, frees the memory, and answers what the driver says.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn close(self) -> Result<()> {
        self.memory.close()
    }

    fn rows(&self) -> Rows {
        Rows {
            address: self.memory.address,
            pitch: self.pitch,
            plane: self.extent.height,
            width: self.extent.width * size_of::<T>(),
            height: self.extent.height,
            depth: self.extent.depth,
        }
    }
}

impl<T: DeviceRepr> fmt::Debug for PitchedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PitchedBuffer({:?})", self.as_slice())
    }
}
