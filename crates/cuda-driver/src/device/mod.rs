//! Devices and what they are capable of.
//!
//! Where C asks one call for any of 160 attributes, each of the common ones is a method here.

mod attributes;
mod peer;
mod pool;
mod properties;

pub use peer::{PeerAttribute, PeerAttributes};
pub use pool::DevicePool;
pub use properties::DeviceProperties;

use std::cmp::Reverse;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;

use cuda_sys::{CUdevice, CUdevice_attribute, CUuuid};

use crate::driver::{Driver, call};
use crate::error::{Error, Result};

/// A CUDA device of a [`Driver`]. Copying it is cheap; it owns nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Device {
    driver: Driver,
    raw: CUdevice,
    ordinal: u32,
}

impl Device {
    pub(crate) fn new(driver: &Driver, ordinal: u32) -> Result<Self> {
        let count = Self::count(driver)?;
        let Some(c_ordinal) = c_int::try_from(ordinal).ok().filter(|_| ordinal < count) else {
            return Err(Error::NoSuchDevice {
                ordinal,
                count,
                driver: driver.origin().to_owned(),
            });
        };
        let mut raw = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(driver, cuDeviceGet(&raw mut raw, c_ordinal)) }?;
        Ok(Self {
            // A device outlives any context.
            driver: driver.of_all(),
            raw,
            ordinal,
        })
    }

    /// The device of a raw one that the driver gave.
    pub(crate) fn of_raw(driver: &Driver, raw: CUdevice) -> Result<Self> {
        let count = Self::count(driver)?;
        for ordinal in 0..count {
            let device = Self::new(driver, ordinal)?;
            if device.raw == raw {
                return Ok(device);
            }
        }
        Err(Error::NoSuchDevice {
            ordinal: u32::try_from(raw).unwrap_or(u32::MAX),
            count,
            driver: driver.origin().to_owned(),
        })
    }

    /// The device that most work is soonest done on: of those that contexts can be made on, the one
    /// with the highest product of multiprocessors and clock; of equals the one with most memory,
    /// then the one with the lowest ordinal.
    ///
    /// That says nothing of what is running there: [`DevicePool::most_free_memory`] looks at that.
    ///
    /// # Errors
    ///
    /// What the calls answer; [`Error::NoSuchDevice`] if no contexts can be made on any.
    pub fn best(driver: &Driver) -> Result<Self> {
        let devices = driver.devices()?;
        let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        let mut best = None;
        for device in devices {
            if device.is_prohibited()? {
                continue;
            }
            let speed = u64::from(device.multiprocessor_count()?) * u64::from(device.clock_rate()?);
            let rank = (speed, device.total_memory()?, Reverse(device.ordinal));
            if best.as_ref().is_none_or(|(other, _)| rank > *other) {
                best = Some((rank, device));
            }
        }
        match best {
            Some((_, device)) => Ok(device),
            None => Err(Error::NoSuchDevice {
                ordinal: 0,
                count,
                driver: driver.origin().to_owned(),
            }),
        }
    }

    /// `cuDeviceGetByPCIBusId(id)`—The device at an address of the PCI bus:
    /// `domain:bus:device.function`, in hexadecimal; domain and function can be left out.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_DEVICE` or `CUDA_ERROR_INVALID_VALUE` if there is none there,
    /// [`Error::NulByte`].
    #[doc(alias = "cuDeviceGetByPCIBusId")]
    pub fn by_pci_bus_id(driver: &Driver, id: &str) -> Result<Self> {
        let id = CString::new(id).map_err(|error| Error::NulByte {
            what: "the PCI bus id",
            position: error.nul_position(),
        })?;
        let mut raw = 0;
        // SAFETY: the pointers must be writable and to a text that ends with NUL ← a local, and a
        // `CString`.
        unsafe { call!(driver, cuDeviceGetByPCIBusId(&raw mut raw, id.as_ptr())) }?;
        Self::of_raw(driver, raw)
    }

    /// `cuDeviceGetCount()`—How many devices the driver has.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceGetCount")]
    pub fn count(driver: &Driver) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(driver, cuDeviceGetCount(&raw mut count)) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The ordinal that the device was got by.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The raw device.
    #[must_use]
    pub fn as_raw(&self) -> CUdevice {
        self.raw
    }

    /// The driver of the device.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// `cuDeviceGetAttribute(attribute)`—Any attribute, also one that has no method here.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver does not know the attribute.
    #[doc(alias = "cuDeviceGetAttribute")]
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetAttribute(&raw mut value, attribute, self.raw)
            )
        }?;
        Ok(value)
    }

    /// `cuDeviceGetName()`—The name of the product.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceGetName")]
    pub fn name(&self) -> Result<String> {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: the pointer must be writable for the length given ← it is a local array of 256,
        // and the driver ends what it writes with NUL.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetName(text.as_mut_ptr(), 256, self.raw)
            )
        }?;
        Ok(text_of(&text))
    }

    /// `cuDeviceGetUuid()`—The 16 bytes that name this device in the world.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceGetUuid")]
    pub fn uuid(&self) -> Result<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(self.driver, cuDeviceGetUuid_v2(&raw mut uuid, self.raw)) }?;
        Ok(bytemuck::cast(uuid.bytes))
    }

    /// `cuDeviceTotalMem()`—The bytes of its memory.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceTotalMem")]
    pub fn total_memory(&self) -> Result<usize> {
        let mut bytes = 0;
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe { call!(self.driver, cuDeviceTotalMem_v2(&raw mut bytes, self.raw)) }?;
        Ok(bytes)
    }

    /// `cuDeviceGetPCIBusId()`—Where it is on the PCI bus: `domain:bus:device.function`, in
    /// hexadecimal.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceGetPCIBusId")]
    pub fn pci_bus_id(&self) -> Result<String> {
        let mut text: [c_char; 32] = [0; 32];
        // SAFETY: the pointer must be writable for the length given ← it is a local array of 32.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int, self.raw)
            )
        }?;
        Ok(text_of(&text))
    }

    /// Which instructions and limits the device has.
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    pub fn compute_capability(&self) -> Result<ComputeCapability> {
        let major =
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor =
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let part = |value| u32::try_from(value).unwrap_or(0);
        Ok(ComputeCapability {
            major: part(major),
            minor: part(minor),
        })
    }

    /// Everything that [`DeviceProperties`] holds, in one call.
    ///
    /// # Errors
    ///
    /// What the calls answer.
    pub fn properties(&self) -> Result<DeviceProperties> {
        DeviceProperties::of(self)
    }
}

/// What the driver wrote, up to its NUL.
fn text_of(text: &[c_char]) -> String {
    CStr::from_bytes_until_nul(bytemuck::cast_slice(text))
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The compute capability of a device: 9.0 is Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The part before the dot.
    pub major: u32,
    /// The part behind the dot.
    pub minor: u32,
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} of {:?})", self.ordinal, self.driver)
    }
}
