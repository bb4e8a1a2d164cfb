//! Reserved ranges of device addresses.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cuda_sys::CUdeviceptr;

use super::{Mapping, PhysicalMemory};
use crate::driver::{Driver, call};
use crate::error::{AllocationKind, DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::resolve_of;

/// A range of device addresses that the driver gives to no other allocation. It has no memory until
/// [`PhysicalMemory`] is mapped to parts of it. Cloning it returns another handle to the same
/// range.
///
/// The range is released after its last handle and its last [`Mapping`] are dropped.
///
/// ```
/// use cuda_driver::memory::{PhysicalKind, PhysicalMemory, Reservation};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// let kind = PhysicalKind::of_device(context.device());
/// let (one, other) = (PhysicalMemory::new(&kind, 1)?, PhysicalMemory::new(&kind, 1)?);
/// let bytes = one.bytes();
/// let addresses = Reservation::new(&driver, 2 * bytes, 0)?;
///
/// // Two allocations behind each other.
/// let mappings = [addresses.map(0, &one)?, addresses.map(bytes, &other)?];
/// assert_eq!(mappings[0].as_raw() + bytes as u64, mappings[1].as_raw());
/// // The range ends there.
/// assert!(addresses.map(2 * bytes, &one).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Reservation(Arc<Handle<RawReservation>>);

struct RawReservation;

impl Destroy for RawReservation {
    /// The address and the number of bytes.
    type Raw = (CUdeviceptr, usize);

    unsafe fn destroy(driver: &Driver, (address, bytes): Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the range must be reserved and have no mappings ← the caller owns it, and each
        // mapping keeps it. (If unmapping failed, the driver refuses this call.)
        unsafe { call!(driver, cuMemAddressFree(address, bytes)) }
    }
}

impl Reservation {
    /// `cuMemAddressReserve(bytes, alignment)`—Reserves `bytes` bytes of device addresses that
    /// begin at a multiple of `alignment`, a power of two or 0 for that of the driver.
    ///
    /// # Errors
    ///
    /// - [`Error::OutOfMemory`] if no range of this size is free.
    /// - `CUDA_ERROR_INVALID_VALUE` if `bytes` is 0 or not a multiple of the
    ///   [granularity](super::PhysicalKind::granularity), or `alignment` is not a power of two.
    #[doc(alias = "cuMemAddressReserve")]
    pub fn new(driver: &Driver, bytes: usize, alignment: usize) -> Result<Self> {
        let driver = &driver.without_context();
        let mut address = 0;
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe {
            call!(
                driver,
                cuMemAddressReserve(&raw mut address, bytes, alignment, 0, 0)
            )
        }
        .map_err(|error| Error::of_allocation(error, bytes, AllocationKind::Addresses))?;
        // SAFETY: no other code may release the range ← it was reserved just now.
        let handle = unsafe { Handle::new(driver, (address, bytes)) };
        Ok(Self(Arc::new(handle)))
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_raw(&self) -> CUdeviceptr {
        self.0.raw().0
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.raw().1
    }

    /// `cuMemMap(self + offset, memory)`—Maps all bytes of `memory`, from byte `offset` of the
    /// range on. No device has access yet: see [`Mapping::set_access`].
    ///
    /// # Errors
    ///
    /// - [`Error::StillInUse`] if the memory is already mapped. Two mappings would be two buffers
    ///   of the same bytes, whose uses are not ordered.
    /// - [`Error::OutOfRange`] if the range is too short, or `offset` is not a multiple of the
    ///   granularity.
    /// - [`Error::OtherContext`] if the memory belongs to another driver.
    /// - `CUDA_ERROR_INVALID_VALUE` if other memory is mapped there.
    #[doc(alias = "cuMemMap")]
    pub fn map(&self, offset: usize, memory: &Arc<PhysicalMemory>) -> Result<Mapping> {
        let driver = self.0.driver();
        driver.expect_handles_of(memory.kind().driver(), "the physical memory")?;
        memory.check_offset(offset)?;
        let range = Range {
            start: offset,
            end: offset.saturating_add(memory.bytes()),
        };
        resolve_of("bytes in the reservation", range, self.bytes())?;
        Mapping::new(self, offset, memory)
    }

    pub(super) fn driver(&self) -> &Driver {
        self.0.driver()
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Reservation({:#x}, {} bytes)",
            self.as_raw(),
            self.bytes()
        )
    }
}
