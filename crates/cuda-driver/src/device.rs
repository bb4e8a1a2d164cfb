//! Devices and what they are capable of.
//!
//! Where C asks one call for any of 160 attributes, each of the common ones is a method here.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;

use cuda_sys::{CUdevice, CUdevice_attribute, CUuuid};

use crate::context::Context;
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
            driver: driver.clone(),
            raw,
            ordinal,
        })
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

    /// `cuDevicePrimaryCtxRetain()`—The context that the whole process shares on this device.
    ///
    /// It is made by the first call and lives as long as a handle of it; all handles share one default stream.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn primary_context(&self) -> Result<Context> {
        Context::primary(self)
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
        // SAFETY: the pointer must be writable for the length given ← it is a local array of 256, and the driver
        // ends what it writes with NUL.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetName(text.as_mut_ptr(), 256, self.raw)
            )
        }?;
        Ok(CStr::from_bytes_until_nul(bytemuck::cast_slice(&text))
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default())
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

    /// The PCI address as `domain:bus:device`.
    ///
    /// # Errors
    ///
    /// What `cuDeviceGetAttribute` answers.
    #[doc(alias = "cuDeviceGetPCIBusId")]
    pub fn pci_address(&self) -> Result<String> {
        let domain = self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        let bus = self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        let device = self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
        Ok(format!("{domain:04x}:{bus:02x}:{device:02x}"))
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

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident: $attribute:ident;)*) => {
        /// Attributes, each by its name.
        impl Device {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// What `cuDeviceGetAttribute` answers.
                pub fn $name(&self) -> Result<u32> {
                    let value = self.attribute(CUdevice_attribute::$attribute)?;
                    Ok(u32::try_from(value).unwrap_or(0))
                }
            )*
        }
    };
}

attributes! {
    /// Streaming multiprocessors.
    multiprocessor_count: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    /// Threads in a warp.
    warp_size: CU_DEVICE_ATTRIBUTE_WARP_SIZE;
    /// The most threads in a block.
    max_threads_per_block: CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    /// The most threads resident on a multiprocessor.
    max_threads_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    /// The most blocks in the first dimension of a grid.
    max_grid_dim_x: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X;
    /// The most blocks in the second dimension of a grid.
    max_grid_dim_y: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y;
    /// The most blocks in the third dimension of a grid.
    max_grid_dim_z: CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z;
    /// The most threads in the first dimension of a block.
    max_block_dim_x: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X;
    /// The most threads in the second dimension of a block.
    max_block_dim_y: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y;
    /// The most threads in the third dimension of a block.
    max_block_dim_z: CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z;
    /// Bytes of shared memory that a block has without asking for more.
    max_shared_memory_per_block: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK;
    /// Bytes of shared memory that a block can ask for.
    max_shared_memory_per_block_optin: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    /// Bytes of shared memory of a multiprocessor.
    max_shared_memory_per_multiprocessor: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR;
    /// 32-bit registers that a block can have.
    max_registers_per_block: CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK;
    /// Bytes of L2 cache.
    l2_cache_size: CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
    /// The clock of the multiprocessors in kHz.
    clock_rate: CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
    /// The clock of the memory in kHz.
    memory_clock_rate: CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
    /// The width of the memory bus in bits.
    memory_bus_width: CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
    /// Engines that copy beside kernels.
    async_engine_count: CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
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

/// What people ask of a device, as one value that prints as a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// The ordinal.
    pub ordinal: u32,
    /// The name of the product.
    pub name: String,
    /// The name in the world.
    pub uuid: [u8; 16],
    /// `domain:bus:device`.
    pub pci_address: String,
    /// Which instructions and limits it has.
    pub compute_capability: ComputeCapability,
    /// Bytes of memory.
    pub total_memory: usize,
    /// Streaming multiprocessors.
    pub multiprocessor_count: u32,
    /// Threads in a warp.
    pub warp_size: u32,
    /// The most threads in a block.
    pub max_threads_per_block: u32,
    /// The most threads resident on a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// The most threads in each dimension of a block.
    pub max_block_dim: [u32; 3],
    /// The most blocks in each dimension of a grid.
    pub max_grid_dim: [u32; 3],
    /// Bytes of shared memory: of a block, of a block that asks for more, of a multiprocessor.
    pub shared_memory: [u32; 3],
    /// 32-bit registers that a block can have.
    pub max_registers_per_block: u32,
    /// Bytes of L2 cache.
    pub l2_cache_size: u32,
    /// The clock of the multiprocessors in kHz.
    pub clock_rate: u32,
    /// The clock of the memory in kHz.
    pub memory_clock_rate: u32,
    /// The width of the memory bus in bits.
    pub memory_bus_width: u32,
    /// Engines that copy beside kernels.
    pub async_engine_count: u32,
    /// What the device has and has not, by name.
    pub abilities: Vec<(&'static str, bool)>,
}

/// Attributes that are yes or no.
const ABILITIES: [(&str, CUdevice_attribute); 8] = [
    (
        "ECC memory",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED,
    ),
    (
        "integrated",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED,
    ),
    (
        "unified addressing",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
    ),
    (
        "managed memory",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    ),
    (
        "concurrent kernels",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS,
    ),
    (
        "cooperative launch",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
    ),
    (
        "cluster launch",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
    ),
    (
        "memory pools",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    ),
];

impl DeviceProperties {
    fn of(device: &Device) -> Result<Self> {
        let abilities = ABILITIES
            .iter()
            .map(|(name, attribute)| Ok((*name, device.attribute(*attribute)? != 0)))
            .collect::<Result<_>>()?;
        Ok(Self {
            ordinal: device.ordinal(),
            name: device.name()?,
            uuid: device.uuid()?,
            pci_address: device.pci_address()?,
            compute_capability: device.compute_capability()?,
            total_memory: device.total_memory()?,
            multiprocessor_count: device.multiprocessor_count()?,
            warp_size: device.warp_size()?,
            max_threads_per_block: device.max_threads_per_block()?,
            max_threads_per_multiprocessor: device.max_threads_per_multiprocessor()?,
            max_block_dim: [
                device.max_block_dim_x()?,
                device.max_block_dim_y()?,
                device.max_block_dim_z()?,
            ],
            max_grid_dim: [
                device.max_grid_dim_x()?,
                device.max_grid_dim_y()?,
                device.max_grid_dim_z()?,
            ],
            shared_memory: [
                device.max_shared_memory_per_block()?,
                device.max_shared_memory_per_block_optin()?,
                device.max_shared_memory_per_multiprocessor()?,
            ],
            max_registers_per_block: device.max_registers_per_block()?,
            l2_cache_size: device.l2_cache_size()?,
            clock_rate: device.clock_rate()?,
            memory_clock_rate: device.memory_clock_rate()?,
            memory_bus_width: device.memory_bus_width()?,
            async_engine_count: device.async_engine_count()?,
            abilities,
        })
    }
}

impl fmt::Display for DeviceProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
            write!(f, "\n  {name:<22} {value}")
        }
        let mib = |bytes: usize| format!("{} MiB", bytes >> 20);
        let kib = |bytes: u32| format!("{} KiB", bytes >> 10);
        let mhz = |khz: u32| format!("{} MHz", khz / 1000);
        let dims = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
        write!(f, "Device {}: {}", self.ordinal, self.name)?;
        row(f, "compute capability", self.compute_capability)?;
        row(f, "memory", mib(self.total_memory))?;
        row(
            f,
            "memory bus",
            format!(
                "{} bits at {}",
                self.memory_bus_width,
                mhz(self.memory_clock_rate)
            ),
        )?;
        row(
            f,
            "multiprocessors",
            format!("{} at {}", self.multiprocessor_count, mhz(self.clock_rate)),
        )?;
        row(f, "L2 cache", kib(self.l2_cache_size))?;
        row(f, "warp", format!("{} threads", self.warp_size))?;
        row(
            f,
            "threads",
            format!(
                "{} per block, {} per multiprocessor",
                self.max_threads_per_block, self.max_threads_per_multiprocessor
            ),
        )?;
        row(f, "block at most", dims(self.max_block_dim))?;
        row(f, "grid at most", dims(self.max_grid_dim))?;
        let [block, optin, multiprocessor] = self.shared_memory;
        row(
            f,
            "shared memory",
            format!(
                "{} per block, {} on request, {} per multiprocessor",
                kib(block),
                kib(optin),
                kib(multiprocessor)
            ),
        )?;
        row(
            f,
            "registers",
            format!("{} per block", self.max_registers_per_block),
        )?;
        row(f, "copy engines", self.async_engine_count)?;
        row(f, "PCI address", &self.pci_address)?;
        let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|range| {
            self.uuid[range]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        });
        row(f, "UUID", format!("GPU-{a}-{b}-{c}-{d}-{e}"))?;
        for (name, has) in &self.abilities {
            row(f, name, if *has { "yes" } else { "no" })?;
        }
        Ok(())
    }
}
