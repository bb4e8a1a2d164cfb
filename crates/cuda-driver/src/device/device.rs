//! The type [`Device`].

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;

use cuda_sys::{CUdevice, CUdevice_attribute, CUuuid};

use crate::driver::{Driver, call};
use crate::error::{Error, Result};

/// A CUDA device of a [`Driver`]. It is a plain handle: dropping it has no effect on the device.
///
/// Cloning it is cheap: it copies the number of the device and increments the reference count of
/// its driver. Because of that count it cannot be `Copy`. Methods take `&Device`, so most programs
/// never clone one.
///
/// ```
/// use cuda_driver::Device;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// let device = driver.device(0)?;
/// assert_eq!(device.ordinal(), 0);
/// assert_eq!(Device::by_pci_bus_id(&driver, &device.pci_bus_id()?)?, device);
/// println!("{}: compute capability {}", device.name()?, device.compute_capability()?);
///
/// let context = device.primary_context()?;
/// assert_eq!(context.device(), &device);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Device {
    driver: Driver,
    raw: CUdevice,
    ordinal: u32,
}

/// The devices of the driver.
impl Driver {
    /// `cuDeviceGet(ordinal)`—Returns the device with this ordinal.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchDevice`](crate::Error::NoSuchDevice) if the driver has fewer devices.
    pub fn device(&self, ordinal: u32) -> Result<Device> {
        Device::new(self, ordinal)
    }

    /// Returns all devices, ordered by ordinal.
    pub fn devices(&self) -> Result<Vec<Device>> {
        (0..Device::count(self)?)
            .map(|ordinal| self.device(ordinal))
            .collect()
    }
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
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(driver, cuDeviceGet(&raw mut raw, c_ordinal)) }?;
        Ok(Self {
            // A device outlives all contexts, so it must not keep the driver handle of one.
            driver: driver.without_context(),
            raw,
            ordinal,
        })
    }

    /// Returns the device of a raw handle that the driver returned.
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

    /// `cuDeviceGetByPCIBusId(id)`—Returns the device at a PCI address:
    /// `domain:bus:device.function`, in hexadecimal; domain and function can be omitted.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_DEVICE` or `CUDA_ERROR_INVALID_VALUE` if the address has no CUDA device,
    /// [`Error::NulByte`].
    #[doc(alias = "cuDeviceGetByPCIBusId")]
    #[doc(alias = "cudaDeviceGetByPCIBusId")]
    pub fn by_pci_bus_id(driver: &Driver, id: &str) -> Result<Self> {
        let id = CString::new(id).map_err(|error| Error::NulByte {
            what: "the PCI bus id",
            position: error.nul_position(),
        })?;
        let mut raw = 0;
        // SAFETY: one pointer must be writable, the other must be to a string that ends with NUL ←
        // a local, and a `CString`.
        unsafe { call!(driver, cuDeviceGetByPCIBusId(&raw mut raw, id.as_ptr())) }?;
        Self::of_raw(driver, raw)
    }

    /// `cuDeviceGetCount()`—Returns the number of devices of the driver.
    #[doc(alias = "cuDeviceGetCount")]
    #[doc(alias = "cudaGetDeviceCount")]
    pub fn count(driver: &Driver) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(driver, cuDeviceGetCount(&raw mut count)) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The ordinal of the device.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The raw handle of the device.
    #[must_use]
    pub fn as_raw(&self) -> CUdevice {
        self.raw
    }

    /// The driver of the device.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// `cuDeviceGetAttribute(attribute)`—Returns the value of any attribute, including those
    /// without a method here.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` if the driver does not know the attribute.
    #[doc(alias = "cuDeviceGetAttribute")]
    #[doc(alias = "cudaDeviceGetAttribute")]
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetAttribute(&raw mut value, attribute, self.raw)
            )
        }?;
        Ok(value)
    }

    /// `cuDeviceGetName()`—Returns the product name.
    #[doc(alias = "cuDeviceGetName")]
    #[doc(alias = "cudaGetDeviceProperties")]
    pub fn name(&self) -> Result<String> {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: the pointer must be writable for the given length ← it is to a local array of 256
        // bytes, and the driver ends the text with NUL.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetName(text.as_mut_ptr(), 256, self.raw)
            )
        }?;
        Ok(text_of(&text))
    }

    /// `cuDeviceGetUuid()`—Returns the UUID of the device: 16 bytes that identify it worldwide.
    #[doc(alias = "cuDeviceGetUuid")]
    pub fn uuid(&self) -> Result<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(self.driver, cuDeviceGetUuid_v2(&raw mut uuid, self.raw)) }?;
        Ok(bytemuck::cast(uuid.bytes))
    }

    /// `cuDeviceTotalMem()`—Returns the size of the memory of the device in bytes.
    #[doc(alias = "cuDeviceTotalMem")]
    pub fn total_memory(&self) -> Result<usize> {
        let mut bytes = 0;
        // SAFETY: the pointer must be writable ← it points to a local.
        unsafe { call!(self.driver, cuDeviceTotalMem_v2(&raw mut bytes, self.raw)) }?;
        Ok(bytes)
    }

    /// `cuDeviceGetPCIBusId()`—Returns the PCI address of the device: `domain:bus:device.function`,
    /// in hexadecimal.
    #[doc(alias = "cuDeviceGetPCIBusId")]
    #[doc(alias = "cudaDeviceGetPCIBusId")]
    pub fn pci_bus_id(&self) -> Result<String> {
        let mut text: [c_char; 32] = [0; 32];
        // SAFETY: the pointer must be writable for the given length ← it is to a local array of 32
        // bytes.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int, self.raw)
            )
        }?;
        Ok(text_of(&text))
    }

    /// Returns the compute capability, which determines the instructions and limits of the device.
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
}

/// Returns the text that the driver wrote, up to the NUL.
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
    /// The part after the dot.
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
