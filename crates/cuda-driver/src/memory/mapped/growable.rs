//! Device memory that grows in place.
//!
//! In C, a buffer that becomes too small is copied to a larger one, or the program maps pages by
//! hand. Here [`GrowableBuffer`] maps pages behind the pages that it has.

use std::fmt;
use std::mem;
use std::ops::{Deref, RangeBounds};
use std::panic::Location;
use std::sync::Arc;

use super::mapping::Pages;
use super::{Mapping, PhysicalKind, PhysicalMemory, Reservation};
use crate::device::Device;
use crate::error::{Error, RangeError, Result};
use crate::memory::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Memory, MemoryAccess, MemoryLocation,
    Source, bytes_of,
};
use crate::reports;
use crate::stream::Stream;
use crate::tracking::Access;

/// A buffer that grows up to a maximum length without being copied. Its address never changes.
///
/// The buffer reserves addresses for the maximum length, and has memory for its current length,
/// rounded up to the [granularity](PhysicalKind::granularity). Growing maps more memory behind
/// what is mapped. It neither waits for the device nor disturbs kernels that use the buffer. So a
/// cache whose size is not known in advance, such as that of keys and values in inference, needs no
/// second copy of itself to grow.
///
/// It dereferences to the [`DeviceBuffer`] of its current elements, and can be an argument of
/// kernels. Dropping it waits for its uses and unmaps the memory, or leaves both to the last
/// [graph](crate::Graph) that uses it. Requires [`Device::has_virtual_memory`].
///
/// ```
/// use cuda_driver::memory::GrowableBuffer;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// // At most 1 GiB. No memory is used yet.
/// let mut cache = GrowableBuffer::<f32>::new(&stream, 1 << 28)?;
/// cache.grow_to(1000)?;
/// let address = cache.as_raw();
/// cache.as_mut_slice().fill(1.0)?;
///
/// cache.grow_to(1_000_000)?;
/// assert_eq!(cache.as_raw(), address);
/// assert_eq!(cache.slice(998..1002)?.to_vec()?, [1.0, 1.0, 0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GrowableBuffer<T> {
    /// The elements. The source of its memory is set when it is dropped.
    buffer: DeviceBuffer<T>,
    /// The mapped memory in the order of addresses, without gaps. The first part is at the start of
    /// the reservation.
    pages: Vec<Mapping>,
    /// The number of bytes in `pages`.
    mapped: usize,
    max_len: usize,
    kind: PhysicalKind,
    granularity: usize,
    /// The devices that have access; the first one is that of the owning stream.
    devices: Vec<Device>,
    reservation: Reservation,
    /// The place that created the buffer, for reports of memory.
    location: &'static Location<'static>,
}

impl<T: DeviceRepr> GrowableBuffer<T> {
    /// `cuMemAddressReserve()`—Creates a buffer with a length of 0 that can grow to `max_len`
    /// elements of memory of the stream's device. `stream` becomes the owning stream.
    ///
    /// # Errors
    ///
    /// - [`Error::SizeOverflow`] if the size of `max_len` elements does not fit in a `usize`.
    /// - [`Error::OutOfMemory`] if no range of addresses of this size is free.
    /// - `CUDA_ERROR_NOT_SUPPORTED` if the device has no virtual memory.
    #[track_caller]
    pub fn new(stream: &Stream, max_len: usize) -> Result<Self> {
        let kind = PhysicalKind::of_device(stream.context().device());
        Self::new_of(&kind, stream, max_len)
    }

    /// `cuMemAddressReserve()`—Creates a buffer as [`new`](Self::new) does, of another kind of
    /// memory, such as memory of the host.
    ///
    /// # Errors
    ///
    /// Fails as [`new`](Self::new) does, and with [`Error::OtherContext`] if the memory belongs to
    /// another driver.
    #[track_caller]
    pub fn new_of(kind: &PhysicalKind, stream: &Stream, max_len: usize) -> Result<Self> {
        let device = stream.context().device();
        stream
            .driver()
            .expect_handles_of(kind.driver(), "the physical memory")?;
        let granularity = kind.granularity()?;
        let bytes = bytes_of::<T>(max_len)?
            .max(1)
            .checked_next_multiple_of(granularity)
            .ok_or(Error::SizeOverflow {
                len: max_len,
                size: size_of::<T>(),
            })?;
        let reservation = Reservation::new(device.driver(), bytes, granularity)?;
        let source = Source::Mapped(Arc::new(Pages(Vec::new())));
        // SAFETY: the bytes must be usable memory ← there are none. `Drop` sets the source before
        // the memory is released, and `set_bytes` is called only for mapped memory.
        let memory = unsafe { Memory::of_source(stream, reservation.as_raw(), 0, source) };
        Ok(Self {
            buffer: DeviceBuffer::of_memory(memory, 0),
            pages: Vec::new(),
            mapped: 0,
            max_len,
            kind: kind.clone(),
            granularity,
            devices: vec![device.clone()],
            reservation,
            location: Location::caller(),
        })
    }

    /// Returns the number of elements to which the buffer can grow.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Returns the number of elements for which memory is mapped. Growing to this length allocates
    /// no memory.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.mapped
            .checked_div(size_of::<T>())
            .map_or(self.max_len, |capacity| capacity.min(self.max_len))
    }

    /// `cuMemCreate()`, `cuMemMap()`, `cuMemSetAccess()`, `cuMemsetD8Async(0)`—Grows the buffer to
    /// `len` elements and queues a fill of the new ones with zero bits, on the owning stream. Does
    /// nothing if the buffer is already that long.
    ///
    /// The call does not wait for the device. Memory is allocated in one piece for all elements
    /// that have none, so growing by large steps takes fewer calls.
    ///
    /// # Errors
    ///
    /// - [`Error::OutOfRange`] if `len` is greater than [`max_len`](Self::max_len).
    /// - [`Error::OutOfMemory`] with the number of bytes requested.
    ///
    /// The buffer keeps its length after an error.
    pub fn grow_to(&mut self, len: usize) -> Result<()> {
        let old = self.len();
        if len <= old {
            return Ok(());
        }
        let owner = self.buffer.stream();
        owner.expect_direct("GrowableBuffer::grow_to")?;
        // SAFETY: the new elements must be written before they are read ← they are filled below, on
        // the owning stream; if that fails, they are no longer a part of the buffer.
        unsafe { self.grow_uninit_to(len) }?;
        let filled = self.slice_mut(old..).and_then(|mut added| added.set_zero());
        if filled.is_err() {
            self.buffer.set_len(old);
        }
        filled
    }

    /// `cuMemCreate()`, `cuMemMap()`, `cuMemSetAccess()`—Grows the buffer to `len` elements. The
    /// contents of the new ones are undefined. Does nothing if the buffer is already that long.
    ///
    /// # Errors
    ///
    /// Fails as [`grow_to`](Self::grow_to) does.
    ///
    /// # Safety
    ///
    /// No new element may be read before it has been written, as for [`DeviceBuffer::uninit`].
    pub unsafe fn grow_uninit_to(&mut self, len: usize) -> Result<()> {
        if len <= self.len() {
            return Ok(());
        }
        if len > self.max_len {
            return Err(Error::from(RangeError::TooMany {
                what: "requested elements of the growable buffer",
                given: len,
                most: self.max_len,
            }));
        }
        let missing = bytes_of::<T>(len)?.saturating_sub(self.mapped);
        if missing > 0 {
            let context = self.buffer.stream().context();
            let memory = PhysicalMemory::new(&self.kind, missing).map_err(|error| {
                match self.kind.location() {
                    MemoryLocation::Device(device) if device == context.device() => {
                        context.with_totals(error)
                    }
                    _ => error,
                }
            })?;
            let mut page = self.reservation.map(self.mapped, &memory)?;
            let wanted: Vec<_> = self
                .devices
                .iter()
                .map(|device| MemoryAccess::ReadWrite.to(device))
                .collect();
            page.grant(&wanted)?;
            self.mapped += page.bytes();
            self.pages.push(page);
            self.buffer.memory.set_bytes(self.mapped, self.location);
        }
        self.buffer.set_len(len);
        Ok(())
    }

    /// `cuMemUnmap()`, `cuMemRelease()`—Shrinks the buffer to `len` elements, after waiting for all
    /// its uses. Releases each piece of memory that [`grow_to`](Self::grow_to) allocated and of
    /// which no element is left. Does nothing if the buffer is not longer.
    ///
    /// # Errors
    ///
    /// [`Error::StillInUse`] if a [graph](crate::Graph) uses the buffer, because its launches could
    /// access the memory later. The buffer keeps its length then, and if the wait fails. If
    /// releasing memory fails, the buffer is shorter, and can no longer grow beyond the start of
    /// that memory.
    pub fn shrink_to(&mut self, len: usize) -> Result<()> {
        if len >= self.len() {
            return Ok(());
        }
        let tracker = &self.buffer.memory.tracker;
        // The exclusive borrow keeps graphs from leasing the memory from here on.
        if tracker.needs_replay_lock() && tracker.has_leases() {
            return Err(Error::StillInUse {
                what: "the growable buffer",
                by: "graphs",
            });
        }
        let begun = reports::begin();
        tracker.synchronize(Access::WRITE)?;
        self.buffer.set_len(len);
        let kept = bytes_of::<T>(len)?;
        while let Some(page) = self.pages.pop_if(|page| self.mapped - page.bytes() >= kept) {
            self.mapped -= page.bytes();
            self.buffer.memory.set_bytes(self.mapped, self.location);
            if let Err(error) = page.close() {
                // The addresses stay in use.
                self.max_len = self.capacity();
                return Err(error);
            }
        }
        let memory = &self.buffer.memory;
        memory.report_violations(begun, Access::WRITE, None)
    }

    /// `cuMemSetAccess(READWRITE)`—Gives `device` read and write access to the memory of the
    /// buffer, now and after it has grown. The device of the owning stream has access from the
    /// start.
    ///
    /// # Errors
    ///
    /// Fails as [`Mapping::set_access`] does.
    pub fn allow(&mut self, device: &Device) -> Result<()> {
        self.reservation
            .driver()
            .expect_handles_of(device.driver(), "the device")?;
        if self.devices.contains(device) {
            return Ok(());
        }
        for page in &mut self.pages {
            page.set_access(device, MemoryAccess::ReadWrite)?;
        }
        self.devices.push(device.clone());
        Ok(())
    }

    /// Returns the kind of the memory.
    #[must_use]
    pub fn kind(&self) -> &PhysicalKind {
        &self.kind
    }

    /// Returns the number of bytes by which the mapped memory grows at least.
    #[must_use]
    pub fn granularity(&self) -> usize {
        self.granularity
    }

    /// Returns a writable view of all elements.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        self.buffer.as_mut_slice()
    }

    /// Returns a writable view of the elements in `range`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] with the range and the length.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        self.buffer.slice_mut(range)
    }

    /// `cuMemUnmap()`, `cuMemRelease()`, `cuMemAddressFree()`—Releases the buffer as dropping it
    /// does, and returns the error if that fails.
    pub fn close(mut self) -> Result<()> {
        let nothing = Memory::nothing(self.buffer.stream());
        self.set_source();
        Ok(mem::replace(&mut self.buffer.memory, nothing).close()?)
    }
}

impl<T> GrowableBuffer<T> {
    /// Gives the mappings to the memory, which unmaps them after all uses.
    fn set_source(&mut self) {
        let pages = mem::take(&mut self.pages);
        let source = if pages.is_empty() {
            // There is no memory to wait for.
            Source::Nothing
        } else {
            Source::Mapped(Arc::new(Pages(pages)))
        };
        self.buffer.memory.set_source(source);
    }
}

impl<T> Drop for GrowableBuffer<T> {
    fn drop(&mut self) {
        self.set_source();
    }
}

/// Read access only: with `DerefMut`, a buffer of other memory could take the place of this one.
impl<T: DeviceRepr> Deref for GrowableBuffer<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

impl<'a, T: DeviceRepr> From<&'a GrowableBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a GrowableBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: DeviceRepr> From<&'a mut GrowableBuffer<T>> for DeviceSliceMut<'a, T> {
    fn from(buffer: &'a mut GrowableBuffer<T>) -> Self {
        buffer.as_mut_slice()
    }
}

impl<T> fmt::Debug for GrowableBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GrowableBuffer({:?}, at most {})",
            self.buffer, self.max_len
        )
    }
}
