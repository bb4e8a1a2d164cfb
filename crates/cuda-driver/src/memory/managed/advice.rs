//! Where the pages of managed memory are, should be, and are used from.

use std::ffi::c_int;

use cuda_sys::{CUdevice, CUmem_advise, CUmem_range_attribute};

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::Result;
use crate::memory::{DeviceRepr, DeviceSlice};
use crate::order::Scope;
use crate::stream::Stream;

/// `CU_DEVICE_CPU`
const CPU: CUdevice = -1;

/// A place where memory may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryLocation {
    /// The host.
    Host,
    /// A device.
    Device(Device),
}

/// How managed memory will be used. It changes speed, never results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It is read often and written seldom: each device may have its own copy of a page.
    ReadMostly,
    /// It should be there.
    PreferredLocation(MemoryLocation),
    /// It is used from there: mapped there as far as possible, so that using it faults no page in.
    AccessedBy(MemoryLocation),
}

impl MemoryLocation {
    fn ordinal(&self, driver: &Driver) -> Result<CUdevice> {
        match self {
            Self::Host => Ok(CPU),
            Self::Device(device) => {
                driver.expect_handles_of(device.driver(), "the device")?;
                Ok(device.as_raw())
            }
        }
    }

    /// The place of this ordinal; `None` if it is none.
    fn of_ordinal(driver: &Driver, ordinal: c_int) -> Result<Option<Self>> {
        match u32::try_from(ordinal) {
            Ok(ordinal) => Ok(Some(Self::Device(driver.device(ordinal)?))),
            Err(_) if ordinal == CPU => Ok(Some(Self::Host)),
            Err(_) => Ok(None),
        }
    }
}

/// Of managed memory; for other memory the driver answers `CUDA_ERROR_INVALID_VALUE`. Advice is for
/// whole pages.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuMemPrefetchAsync(location)`—Queues on `stream` that the pages move there.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if stream or location are of another
    /// context or driver, `CUDA_ERROR_INVALID_DEVICE` for a device without concurrent managed
    /// access, or what else the call answers.
    #[doc(alias = "cuMemPrefetchAsync")]
    pub fn prefetch(&self, location: &MemoryLocation, stream: &Stream) -> Result<()> {
        let to = location.ordinal(stream.driver())?;
        let mut scope = Scope::new(stream);
        let tracker = &self.memory.tracker;
        if self.bytes() == 0 {
            return Ok(());
        }
        tracker.before(&scope, self.access)?;
        // SAFETY: range and stream must be alive ← the view's, whose memory is freed behind this
        // use, and borrowed.
        unsafe {
            call!(
                stream.driver(),
                cuMemPrefetchAsync(self.as_raw(), self.bytes(), to, stream.as_raw())
            )
        }?;
        tracker.after(&mut scope, self.access);
        Ok(())
    }

    /// `cuMemAdvise(advice)`—Tells the driver how the memory will be used.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`](crate::Error::OtherContext) if the location is of another driver, or
    /// what the call answers.
    #[doc(alias = "cuMemAdvise")]
    pub fn advise(&self, advice: &Advice) -> Result<()> {
        type A = CUmem_advise;
        match advice {
            Advice::ReadMostly => {
                self.tell(A::CU_MEM_ADVISE_SET_READ_MOSTLY, &MemoryLocation::Host)
            }
            Advice::PreferredLocation(at) => self.tell(A::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, at),
            Advice::AccessedBy(from) => self.tell(A::CU_MEM_ADVISE_SET_ACCESSED_BY, from),
        }
    }

    /// `cuMemAdvise(UNSET)`—Takes advice back. Which location was preferred does not matter.
    ///
    /// # Errors
    ///
    /// As [`advise`](Self::advise).
    pub fn unadvise(&self, advice: &Advice) -> Result<()> {
        type A = CUmem_advise;
        match advice {
            Advice::ReadMostly => {
                self.tell(A::CU_MEM_ADVISE_UNSET_READ_MOSTLY, &MemoryLocation::Host)
            }
            Advice::PreferredLocation(at) => {
                self.tell(A::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, at)
            }
            Advice::AccessedBy(from) => self.tell(A::CU_MEM_ADVISE_UNSET_ACCESSED_BY, from),
        }
    }

    fn tell(&self, advice: CUmem_advise, location: &MemoryLocation) -> Result<()> {
        let context = self.memory.home().context();
        let ordinal = location.ordinal(context.driver())?;
        if self.bytes() == 0 {
            return Ok(());
        }
        let _current = context.enter()?;
        // SAFETY: the range must be alive ← it is the view's.
        Ok(unsafe {
            call!(
                context.driver(),
                cuMemAdvise(self.as_raw(), self.bytes(), advice, ordinal)
            )
        }?)
    }

    /// `cuMemRangeGetAttribute(READ_MOSTLY)`—Whether all of it was advised to be read mostly.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuMemRangeGetAttribute")]
    pub fn is_read_mostly(&self) -> Result<bool> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
        Ok(self.ask::<1>(attribute)? == [1])
    }

    /// `cuMemRangeGetAttribute(PREFERRED_LOCATION)`—The location that all of it should be at, if
    /// there is one.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn preferred_location(&self) -> Result<Option<MemoryLocation>> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
        let [ordinal] = self.ask(attribute)?;
        MemoryLocation::of_ordinal(self.memory.home().driver(), ordinal)
    }

    /// `cuMemRangeGetAttribute(LAST_PREFETCH_LOCATION)`—Where all of it was last told to move, if
    /// to one place. Whether it has arrived is not told.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn last_prefetch_location(&self) -> Result<Option<MemoryLocation>> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
        let [ordinal] = self.ask(attribute)?;
        MemoryLocation::of_ordinal(self.memory.home().driver(), ordinal)
    }

    /// `cuMemRangeGetAttribute(ACCESSED_BY)`—From where all of it was advised to be used: up to 64
    /// places.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn accessed_by(&self) -> Result<Vec<MemoryLocation>> {
        let attribute = CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
        let driver = self.memory.home().driver();
        let ordinals = self.ask::<64>(attribute)?;
        ordinals
            .into_iter()
            .filter_map(|ordinal| MemoryLocation::of_ordinal(driver, ordinal).transpose())
            .collect()
    }

    fn ask<const N: usize>(&self, attribute: CUmem_range_attribute) -> Result<[c_int; N]> {
        // `CU_DEVICE_INVALID`: nowhere.
        let mut answer = [-2; N];
        let context = self.memory.home().context();
        if self.bytes() == 0 {
            return Ok(answer);
        }
        let _current = context.enter()?;
        let size = size_of_val(&answer);
        // SAFETY: the pointer must be writable for `size` bytes, and the range alive ← a local, and
        // the view's.
        unsafe {
            call!(
                context.driver(),
                cuMemRangeGetAttribute(
                    answer.as_mut_ptr().cast(),
                    size,
                    attribute,
                    self.as_raw(),
                    self.bytes()
                )
            )
        }?;
        Ok(answer)
    }
}
