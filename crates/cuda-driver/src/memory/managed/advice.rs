//! Placement of managed memory: prefetches, advice, and queries of both.

use std::ffi::c_int;

use cuda_sys::{CUdevice, CUmem_advise, CUmem_range_attribute, CUmemLocation, CUmemLocationType};

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::Result;
use crate::memory::access::{location, location_of};
use crate::memory::{DeviceRepr, DeviceSlice};
use crate::stream::Stream;

/// The value of `CU_DEVICE_CPU`.
pub(super) const CPU: CUdevice = -1;

/// A place where memory can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryLocation {
    /// Host memory.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_HOST")]
    Host,
    /// The memory of one NUMA node of the host. If the host has no NUMA nodes, its memory is node
    /// 0.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_HOST_NUMA")]
    HostNuma(u32),
    /// The memory of a device.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_DEVICE")]
    Device(Device),
}

/// A location in the form of the driver: as an ordinal, which every driver accepts, or as a struct,
/// which drivers accept from CUDA 12.2 on.
#[derive(Clone, Copy)]
enum Place {
    Ordinal(CUdevice),
    Location(CUmemLocation),
}

/// Advice on how managed memory will be used. Advice changes the speed, never the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The memory is mostly read and rarely written. Each device may have its own copy of a page.
    ReadMostly,
    /// The memory should be at this location.
    PreferredLocation(MemoryLocation),
    /// The memory is accessed from this location. The driver maps it there as far as possible, so
    /// that an access causes no page fault.
    AccessedBy(MemoryLocation),
}

impl MemoryLocation {
    fn place(&self, driver: &Driver) -> Result<Place> {
        Ok(match self {
            Self::Host => Place::Ordinal(CPU),
            Self::HostNuma(_) => Place::Location(self.raw(driver)?),
            Self::Device(device) => {
                driver.expect_handles_of(device.driver(), "the device")?;
                Place::Ordinal(device.as_raw())
            }
        })
    }

    /// Returns the ordinal that names the location, or `None` if only a struct does.
    pub(super) fn ordinal(&self) -> Option<CUdevice> {
        match self {
            Self::Host => Some(CPU),
            Self::HostNuma(_) => None,
            Self::Device(device) => Some(device.as_raw()),
        }
    }

    /// Returns the location as a struct.
    pub(in crate::memory) fn raw(&self, driver: &Driver) -> Result<CUmemLocation> {
        type T = CUmemLocationType;
        Ok(match self {
            Self::Host => location(T::CU_MEM_LOCATION_TYPE_HOST, 0),
            // A number that does not fit names no node. The driver refuses -1.
            Self::HostNuma(node) => location(
                T::CU_MEM_LOCATION_TYPE_HOST_NUMA,
                i32::try_from(*node).unwrap_or(-1),
            ),
            Self::Device(device) => {
                driver.expect_handles_of(device.driver(), "the device")?;
                location_of(device)
            }
        })
    }

    /// Returns the location with this ordinal, or `None` if the ordinal does not name a location.
    fn of_ordinal(driver: &Driver, ordinal: c_int) -> Result<Option<Self>> {
        match u32::try_from(ordinal) {
            Ok(ordinal) => Ok(Some(Self::Device(driver.device(ordinal)?))),
            Err(_) if ordinal == CPU => Ok(Some(Self::Host)),
            Err(_) => Ok(None),
        }
    }
}

/// Methods for managed memory. For other memory the driver reports `CUDA_ERROR_INVALID_VALUE`.
/// Advice applies to whole pages.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuMemPrefetchAsync(location)`—Queues a move of the pages to `location` on `stream`.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if `stream` belongs to another context
    /// or `location` to another driver, `CUDA_ERROR_INVALID_DEVICE` for a device without concurrent
    /// managed access, or [`Error::Driver`](crate::Error::Driver) with
    /// `CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER` for a NUMA node if the driver is older than CUDA
    /// 12.2.
    #[doc(alias = "cuMemPrefetchAsync")]
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: &MemoryLocation, stream: &Stream) -> Result<()> {
        let to = location.place(stream.driver())?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let (address, bytes) = (self.as_raw(), self.bytes());
        self.memory
            .use_on(stream, "DeviceSlice::prefetch", self.access, || match to {
                // SAFETY: the range and the stream must be alive ← the range is that of the view,
                // whose memory is freed only after this use, and the stream is borrowed.
                Place::Ordinal(to) => unsafe {
                    call!(
                        stream.driver(),
                        cuMemPrefetchAsync(address, bytes, to, stream.as_raw())
                    )
                },
                // SAFETY: as above.
                Place::Location(to) => unsafe {
                    call!(
                        stream.driver(),
                        cuMemPrefetchAsync_v2(address, bytes, to, 0, stream.as_raw())
                    )
                },
            })
    }

    /// `cuMemAdvise(advice)`—Advises the driver how the memory will be used.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the location belongs to another
    /// driver.
    #[doc(alias = "cuMemAdvise")]
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise(&self, advice: &Advice) -> Result<()> {
        type A = CUmem_advise;
        match advice {
            Advice::ReadMostly => {
                self.set_advice(A::CU_MEM_ADVISE_SET_READ_MOSTLY, &MemoryLocation::Host)
            }
            Advice::PreferredLocation(at) => {
                self.set_advice(A::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, at)
            }
            Advice::AccessedBy(from) => self.set_advice(A::CU_MEM_ADVISE_SET_ACCESSED_BY, from),
        }
    }

    /// `cuMemAdvise(UNSET)`—Withdraws advice. For [`Advice::PreferredLocation`] the location is
    /// ignored.
    ///
    /// # Errors
    ///
    /// Fails as [`advise`](Self::advise) does.
    pub fn unadvise(&self, advice: &Advice) -> Result<()> {
        type A = CUmem_advise;
        match advice {
            Advice::ReadMostly => {
                self.set_advice(A::CU_MEM_ADVISE_UNSET_READ_MOSTLY, &MemoryLocation::Host)
            }
            Advice::PreferredLocation(at) => {
                self.set_advice(A::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, at)
            }
            Advice::AccessedBy(from) => self.set_advice(A::CU_MEM_ADVISE_UNSET_ACCESSED_BY, from),
        }
    }

    fn set_advice(&self, advice: CUmem_advise, location: &MemoryLocation) -> Result<()> {
        let context = self.memory.owning_stream().context();
        let (driver, place) = (context.driver(), location.place(context.driver())?);
        let (address, bytes) = (self.as_raw(), self.bytes());
        if bytes == 0 {
            return Ok(());
        }
        let _current = context.enter()?;
        match place {
            // SAFETY: the range must be alive ← it is the range of the view.
            Place::Ordinal(at) => unsafe { call!(driver, cuMemAdvise(address, bytes, advice, at)) },
            // SAFETY: as above.
            Place::Location(at) => unsafe {
                call!(driver, cuMemAdvise_v2(address, bytes, advice, at))
            },
        }?;
        Ok(())
    }

    /// `cuMemRangeGetAttribute(READ_MOSTLY)`—Returns `true` if [`Advice::ReadMostly`] applies to
    /// all of the range.
    #[doc(alias = "cuMemRangeGetAttribute")]
    #[doc(alias = "cudaMemRangeGetAttribute")]
    pub fn is_read_mostly(&self) -> Result<bool> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
        Ok(self.ask::<1>(attribute)? == [1])
    }

    /// `cuMemRangeGetAttribute(PREFERRED_LOCATION)`—Returns the preferred location, if all of the
    /// range has the same one.
    pub fn preferred_location(&self) -> Result<Option<MemoryLocation>> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
        let [ordinal] = self.ask(attribute)?;
        MemoryLocation::of_ordinal(self.memory.owning_stream().driver(), ordinal)
    }

    /// `cuMemRangeGetAttribute(LAST_PREFETCH_LOCATION)`—Returns the location of the last prefetch,
    /// if it is the same for all of the range. The prefetch may still be running.
    pub fn last_prefetch_location(&self) -> Result<Option<MemoryLocation>> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
        let [ordinal] = self.ask(attribute)?;
        MemoryLocation::of_ordinal(self.memory.owning_stream().driver(), ordinal)
    }

    /// `cuMemRangeGetAttribute(ACCESSED_BY)`—Returns the locations, at most 64, for which
    /// [`Advice::AccessedBy`] applies to all of the range.
    pub fn accessed_by(&self) -> Result<Vec<MemoryLocation>> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
        let driver = self.memory.owning_stream().driver();
        let ordinals = self.ask::<64>(attribute)?;
        ordinals
            .into_iter()
            .filter_map(|ordinal| MemoryLocation::of_ordinal(driver, ordinal).transpose())
            .collect()
    }

    fn ask<const N: usize>(&self, attribute: CUmem_range_attribute) -> Result<[c_int; N]> {
        // The value of `CU_DEVICE_INVALID`, which means no location.
        let mut values = [-2; N];
        let context = self.memory.owning_stream().context();
        if self.bytes() == 0 {
            return Ok(values);
        }
        let _current = context.enter()?;
        let size = size_of_val(&values);
        // SAFETY: the pointer must be writable for `size` bytes and the range must be alive ← the
        // pointer is to a local variable of that size, and the range is that of the view.
        unsafe {
            call!(
                context.driver(),
                cuMemRangeGetAttribute(
                    values.as_mut_ptr().cast(),
                    size,
                    attribute,
                    self.as_raw(),
                    self.bytes()
                )
            )
        }?;
        Ok(values)
    }
}
