//! Physical memory at an address.

use std::fmt;
use std::mem;
use std::sync::Arc;

use cuda_sys::{CUdeviceptr, CUmemAccessDesc};

use super::physical::Claim;
use super::{PhysicalMemory, Reservation};
use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::{
    Block, DeviceBuffer, DeviceRepr, Memory, MemoryAccess, Reclaim, Source, location_of,
};
use crate::stream::Stream;
use crate::tracking::{Access, Tracker};

/// [`PhysicalMemory`] that is mapped to a part of a [`Reservation`]. It keeps both. Dropping it
/// unmaps the memory.
///
/// Each device has access only after it was [granted](Self::set_access). A mapping becomes a
/// [`DeviceBuffer`], which unmaps the memory after all uses.
///
/// ```
/// use cuda_driver::memory::{PhysicalKind, PhysicalMemory, Reservation};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let memory = PhysicalMemory::new(&PhysicalKind::of_device(context.device()), 1)?;
/// let addresses = Reservation::new(&driver, memory.bytes(), 0)?;
/// let mapping = addresses.map(0, &memory)?;
/// assert_eq!(mapping.as_raw(), addresses.as_raw());
///
/// // The buffer gives the device of the stream access.
/// let buffer = mapping.zeroed::<u32>(&stream)?;
/// assert_eq!(buffer.len() * 4, memory.bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a mapping unmaps the memory"]
pub struct Mapping {
    /// The fields are dropped in this order: the memory is unmapped first.
    handle: Handle<RawMapping>,
    memory: Claim,
    _reservation: Reservation,
}

struct RawMapping;

impl Destroy for RawMapping {
    /// The address and the number of bytes.
    type Raw = (CUdeviceptr, usize);

    unsafe fn destroy(driver: &Driver, (address, bytes): Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the range must be one mapping that is no longer used ← the caller owns it, and a
        // buffer gives up its mappings after all uses.
        unsafe { call!(driver, cuMemUnmap(address, bytes)) }
    }
}

impl Mapping {
    /// Maps the memory. The caller has checked the range.
    pub(super) fn new(
        reservation: &Reservation,
        offset: usize,
        memory: &Arc<PhysicalMemory>,
    ) -> Result<Self> {
        let memory = memory.claim()?;
        let driver = reservation.driver();
        let address = reservation.as_raw() + offset as CUdeviceptr;
        let bytes = memory.0.bytes();
        // SAFETY: the range must be reserved and the handle alive ← both are borrowed, and the
        // caller has checked that the range is within the reservation.
        unsafe { call!(driver, cuMemMap(address, bytes, 0, memory.0.as_raw(), 0)) }?;
        Ok(Self {
            // SAFETY: no other code may unmap the range ← it was mapped just now.
            handle: unsafe { Handle::new(driver, (address, bytes)) },
            memory,
            _reservation: reservation.clone(),
        })
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.handle.raw().0
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.handle.raw().1
    }

    /// Returns the physical memory.
    #[must_use]
    pub fn physical_memory(&self) -> &Arc<PhysicalMemory> {
        &self.memory.0
    }

    /// `cuMemSetAccess()`—Sets the access of `device` to this mapping. Peer access between contexts
    /// does not matter for mapped memory.
    ///
    /// # Errors
    ///
    /// * [`Error::OtherContext`](crate::Error::OtherContext) if `device` belongs to another driver.
    /// * `CUDA_ERROR_INVALID_DEVICE` if `device` cannot access memory at this location.
    /// * `CUDA_ERROR_NOT_SUPPORTED` for [`MemoryAccess::Read`] if the driver does not support it.
    #[doc(alias = "cuMemSetAccess")]
    pub fn set_access(&mut self, device: &Device, access: MemoryAccess) -> Result<()> {
        let driver = self.handle.driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        self.grant(&[access.to(device)])
    }

    /// Sets the access of several devices of this driver.
    pub(super) fn grant(&mut self, wanted: &[CUmemAccessDesc]) -> Result<()> {
        let (address, bytes) = self.handle.raw();
        // SAFETY: the pointer must be valid for the number of descriptions, and the range must be
        // mapped ← both are those of the slice, and `self` is the mapping of the range.
        Ok(unsafe {
            call!(
                self.handle.driver(),
                cuMemSetAccess(address, bytes, wanted.as_ptr(), wanted.len())
            )
        }?)
    }

    /// `cuMemGetAccess()`—Returns the access of `device` to this mapping.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `device` belongs to another driver.
    #[doc(alias = "cuMemGetAccess")]
    pub fn access(&self, device: &Device) -> Result<MemoryAccess> {
        let driver = self.handle.driver();
        driver.expect_handles_of(device.driver(), "the device")?;
        access_of(device, self.as_raw())
    }

    /// Returns a buffer of as many elements as fit, filled with zero bits. See
    /// [`into_buffer`](Self::into_buffer).
    ///
    /// # Errors
    ///
    /// Fails as [`into_buffer`](Self::into_buffer) does.
    pub fn zeroed<T: DeviceRepr>(self, stream: &Stream) -> Result<DeviceBuffer<T>> {
        stream.expect_direct("Mapping::zeroed")?;
        // SAFETY: the elements must have been written ← they are filled below, on the stream that
        // owns them.
        let mut buffer = unsafe { self.into_buffer(stream) }?;
        buffer.set_zero()?;
        Ok(buffer)
    }

    /// Returns a buffer of as many elements as fit, whose owning stream is `stream`. The device of
    /// the stream gets read and write access. Dropping the buffer waits for its uses and unmaps the
    /// memory.
    ///
    /// # Errors
    ///
    /// Fails as [`set_access`](Self::set_access) does. The memory is then unmapped.
    ///
    /// # Safety
    ///
    /// All elements have been written: the contents of new [`PhysicalMemory`] are undefined.
    pub unsafe fn into_buffer<T: DeviceRepr>(mut self, stream: &Stream) -> Result<DeviceBuffer<T>> {
        self.set_access(stream.context().device(), MemoryAccess::ReadWrite)?;
        let (address, bytes) = self.handle.raw();
        let len = bytes.checked_div(size_of::<T>()).unwrap_or(0);
        let source = Source::Mapped(Arc::new(Pages(vec![self])));
        // SAFETY: the memory must be usable, from `source`, and freed by no other code ← the device
        // has access, and the mapping is in `source`.
        let memory = unsafe { Memory::of_new(stream, address, bytes, source) };
        Ok(DeviceBuffer::of_memory(memory, len))
    }

    /// `cuMemUnmap()`—Unmaps the memory, as dropping the mapping does, and returns the error if
    /// that fails. The addresses then stay in use.
    #[doc(alias = "cuMemUnmap")]
    pub fn close(self) -> Result<()> {
        Ok(self.end()?)
    }

    fn end(self) -> Result<(), DriverError> {
        let Self {
            handle,
            memory,
            _reservation,
        } = self;
        let ended = handle.close();
        drop((memory, _reservation));
        ended
    }
}

/// `cuMemGetAccess()`—Returns the access of `device` to the mapping at `address`.
pub(in crate::memory) fn access_of(device: &Device, address: CUdeviceptr) -> Result<MemoryAccess> {
    let location = location_of(device);
    let mut bits = 0;
    // SAFETY: the pointers must be valid ← they point to local variables.
    unsafe {
        call!(
            device.driver(),
            cuMemGetAccess(&raw mut bits, &raw const location, address)
        )
    }?;
    Ok(MemoryAccess::of_bits(bits))
}

/// The mappings of a buffer. They are unmapped after all its uses.
pub(super) struct Pages(pub(super) Vec<Mapping>);

impl Pages {
    /// Unmaps all pages, whose uses are complete. Returns the first error.
    fn unmap(self: Arc<Self>) -> Result<(), DriverError> {
        let pages = Arc::into_inner(self).map_or_else(Vec::new, |pages| pages.0);
        let mut result = Ok(());
        for page in pages {
            result = result.and(page.end());
        }
        result
    }

    /// Unmaps the pages on a worker thread when the whole context is idle, because the uses could
    /// not be waited for. Other memory ends with its context, but mapped memory belongs to none.
    ///
    /// The pages are leaked if another context may use them, or if the context cannot be waited for
    /// either.
    fn unmap_when_idle(self: Arc<Self>, tracker: Arc<Tracker>) {
        let driver = tracker.owning_stream().driver().clone();
        driver.defer_wait(move || {
            if tracker.is_used_elsewhere() {
                return mem::forget(self);
            }
            let context = tracker.owning_stream().context().clone();
            let same = context.clone();
            context.when_quiet(move || match same.synchronize_quiet() {
                // An error cannot be reported to a caller.
                Ok(()) => drop(self.unmap()),
                Err(_) => mem::forget(self),
            });
        });
    }
}

impl Reclaim for Pages {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        if let Err(error) = block.tracker.synchronize(Access::WRITE) {
            self.unmap_when_idle(block.tracker);
            return Err(error);
        }
        block.report_free();
        self.unmap()
    }

    fn disown(self: Arc<Self>, _: &Block) {
        // Other code owns the addresses now, and may use them at any time. So they are never
        // unmapped.
        mem::forget(self);
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({:#x}, {:?})", self.as_raw(), self.memory.0)
    }
}
