//! The owner of pitched memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use cuda_sys::CUdeviceptr;

use super::{PitchedSlice, PitchedSliceMut, Rows};
use crate::driver::call;
use crate::error::{Error, Result};
use crate::memory::{DeviceRepr, Memory, Source, bytes_of};
use crate::observer::Work;
use crate::stream::Stream;
use crate::tracking::Access;
use crate::types::Extent;
use crate::types::WorkKind;

/// Rows of elements of `T` in device memory. Each row starts at an address at which the device
/// reads and writes fast. The memory is freed when the buffer is dropped.
///
/// Row `y` of plane `z` starts `(z * height + y) * pitch` bytes after the start. Streams work as
/// for a [`DeviceBuffer`](crate::DeviceBuffer), except that dropping the buffer waits for the
/// owning stream. An extent may have no elements. The buffer then has no memory, and creating it
/// and copying it do not call the driver.
///
/// ```
/// use cuda_driver::memory::PitchedBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // Two rows of three elements.
/// let image = PitchedBuffer::from_host(&stream, (3, 2), &[1_u32, 2, 3, 4, 5, 6])?;
/// assert!(image.pitch() >= 3 * size_of::<u32>());
/// let column = image.region(1..2, .., ..)?;
/// assert_eq!(column.to_vec()?, [2, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PitchedBuffer<T> {
    pub(crate) memory: Memory,
    extent: Extent,
    pitch: usize,
    elements: PhantomData<T>,
}

impl<T: DeviceRepr> PitchedBuffer<T> {
    /// `cuMemAllocPitch()`—Allocates the elements. The contents are undefined.
    ///
    /// # Errors
    ///
    /// * [`Error::OutOfMemory`] with the number of bytes requested, not counting the padding of
    ///   rows.
    /// * [`Error::SizeOverflow`] if the size does not fit in a `usize`.
    /// * [`Error::Misaligned`] if rows do not start at addresses that are aligned for `T` (they
    ///   start at multiples of 256 bytes or more).
    ///
    /// # Safety
    ///
    /// No element may be read before it has been written.
    #[doc(alias = "cuMemAllocPitch")]
    #[doc(alias = "cudaMallocPitch")]
    #[track_caller]
    pub unsafe fn uninit(stream: &Stream, extent: impl Into<Extent>) -> Result<Self> {
        stream.expect_direct("an allocation of pitched memory")?;
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
        // The driver accepts the sizes 4, 8 and 16: the largest access that kernels make.
        let element = match size_of::<T>() {
            size if size.is_multiple_of(16) => 16,
            size if size.is_multiple_of(8) => 8,
            _ => 4,
        };
        let (mut address, mut pitch) = (0, 0);
        let (width, height) = (extent.width * size_of::<T>(), extent.height * extent.depth);
        let current = stream.context().enter()?;
        // SAFETY: the pointers must be writable ← they point to local variables.
        unsafe {
            call!(
                stream.driver(),
                cuMemAllocPitch_v2(&raw mut address, &raw mut pitch, width, height, element)
            )
        }
        .map_err(|error| stream.context().allocation_error(error, bytes))?;
        drop(current);
        let all = pitch.saturating_mul(height);
        // SAFETY: the memory must come from `cuMemAllocPitch`, and no other code may free it ← it
        // was allocated just now.
        let memory = unsafe { Memory::of_new(stream, address, all, Source::Plain) };
        // The rows must fit in a `usize`. `memory` already owns the allocation, so an error frees
        // it.
        bytes_of::<u8>(all)?;
        if !pitch.is_multiple_of(align_of::<T>()) {
            return Err(Error::Misaligned {
                address: address + pitch as CUdeviceptr,
                align: align_of::<T>(),
            });
        }
        Ok(of_memory(memory, pitch))
    }

    /// Returns the size of all rows in bytes, with the padding between them.
    pub(crate) fn span_bytes(&self) -> usize {
        self.pitch * self.extent.height * self.extent.depth
    }

    /// `cuMemAllocPitch()`, `cuMemsetD8Async(0)`—Allocates the elements and queues a fill with zero
    /// bits.
    ///
    /// # Errors
    ///
    /// Fails as [`uninit`](Self::uninit) does.
    #[track_caller]
    pub fn zeroed(stream: &Stream, extent: impl Into<Extent>) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← they are filled below, on the
        // same stream.
        let buffer = unsafe { Self::uninit(stream, extent) }?;
        let bytes = buffer.pitch * buffer.extent.height * buffer.extent.depth;
        if buffer.memory.address != 0 {
            buffer
                .memory
                .use_on_owning_stream("PitchedBuffer::zeroed", Access::WRITE, || {
                    stream.observed(Work::of_kind(WorkKind::Fill, bytes), || {
                        // SAFETY: the range must be allocated ← it is the whole allocation.
                        unsafe {
                            call!(
                                stream.driver(),
                                cuMemsetD8Async(buffer.memory.address, 0, bytes, stream.as_raw())
                            )
                        }
                    })
                })?;
        }
        Ok(buffer)
    }

    /// Allocates a buffer and copies `source` into it. The rows of `source` are contiguous.
    ///
    /// # Errors
    ///
    /// Fails as [`uninit`](Self::uninit) and [`PitchedSliceMut::copy_from_host`] do.
    #[track_caller]
    pub fn from_host(stream: &Stream, extent: impl Into<Extent>, source: &[T]) -> Result<Self> {
        // SAFETY: the elements must be written before they are read ← they are filled below.
        let mut buffer = unsafe { Self::uninit(stream, extent) }?;
        buffer.as_mut_slice().copy_from_host(source)?;
        Ok(buffer)
    }

    /// Returns the number of elements in each dimension.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Returns the distance in bytes between the starts of consecutive rows.
    #[must_use]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Returns the device address, or 0 if the buffer has no elements.
    ///
    /// The crate does not track uses of the raw address. The caller must order them with the
    /// tracked uses.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.memory.address
    }

    /// Returns the owning stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.memory.owning_stream()
    }

    /// Returns a read-only view of all elements.
    #[must_use]
    pub fn as_slice(&self) -> PitchedSlice<'_, T> {
        PitchedSlice::new(&self.memory, self.rows(), self.extent.width)
    }

    /// Returns a writable view of all elements.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> PitchedSliceMut<'_, T> {
        PitchedSliceMut::new(&self.memory, self.rows(), self.extent.width)
    }

    /// Returns a read-only view of a box of elements.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the number of elements, rows or planes.
    pub fn region(
        &self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<PitchedSlice<'_, T>> {
        self.as_slice().region(x, y, z)
    }

    /// Returns a writable view of a box of elements.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the number of elements, rows or planes.
    pub fn region_mut(
        &mut self,
        x: impl RangeBounds<usize>,
        y: impl RangeBounds<usize>,
        z: impl RangeBounds<usize>,
    ) -> Result<PitchedSliceMut<'_, T>> {
        self.as_mut_slice().into_region(x, y, z)
    }

    /// Copies all elements to a new `Vec`, with contiguous rows.
    ///
    /// # Errors
    ///
    /// Fails as [`PitchedSlice::copy_to_host`] does.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// `cuMemFree()`—Waits for all uses and frees the memory, as dropping the buffer does, and
    /// returns the error if that fails.
    pub fn close(self) -> Result<()> {
        Ok(self.memory.close()?)
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

impl<T> fmt::Debug for PitchedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extent {
            width,
            height,
            depth,
        } = self.extent;
        let address = self.memory.address;
        write!(
            f,
            "PitchedBuffer({address:#x}, {width} x {height} x {depth} x {}, pitch {})",
            size_of::<T>(),
            self.pitch
        )
    }
}
