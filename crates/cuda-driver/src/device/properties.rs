//! A summary of the properties of a device.

use std::fmt;

use cuda_sys::CUdevice_attribute;

use super::{ComputeCapability, Device};
use crate::error::Result;

/// The most important properties of a device, as one value that prints as a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// The ordinal.
    pub ordinal: u32,
    /// The product name.
    pub name: String,
    /// The UUID.
    pub uuid: [u8; 16],
    /// The PCI address: `domain:bus:device.function`.
    pub pci_bus_id: String,
    /// The compute capability, which determines the instructions and limits.
    pub compute_capability: ComputeCapability,
    /// The size of the memory in bytes.
    pub total_memory: usize,
    /// The number of streaming multiprocessors.
    pub multiprocessor_count: u32,
    /// The number of threads in a warp.
    pub warp_size: u32,
    /// The maximum number of threads in a block.
    pub max_threads_per_block: u32,
    /// The maximum number of threads resident on a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// The maximum number of threads in each dimension of a block.
    pub max_block_dim: [u32; 3],
    /// The maximum number of blocks in each dimension of a grid.
    pub max_grid_dim: [u32; 3],
    /// The amount of shared memory in bytes: of a block, of a block that opts in to more, and of a
    /// multiprocessor.
    pub shared_memory: [u32; 3],
    /// The maximum number of 32-bit registers of a block.
    pub max_registers_per_block: u32,
    /// The size of the L2 cache in bytes.
    pub l2_cache_size: u32,
    /// The clock rate of the multiprocessors in kHz.
    pub clock_rate: u32,
    /// The clock rate of the memory in kHz.
    pub memory_clock_rate: u32,
    /// The width of the memory bus in bits.
    pub memory_bus_width: u32,
    /// The number of copy engines.
    pub async_engine_count: u32,
    /// The name of each listed feature, and whether the device has it.
    pub features: Vec<(&'static str, bool)>,
}

/// The features that are listed.
const FEATURES: [(&str, CUdevice_attribute); 8] = [
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

/// All properties at once.
impl Device {
    /// Returns all values of [`DeviceProperties`].
    pub fn properties(&self) -> Result<DeviceProperties> {
        DeviceProperties::of(self)
    }
}

impl DeviceProperties {
    pub(super) fn of(device: &Device) -> Result<Self> {
        let features = FEATURES
            .iter()
            .map(|(name, attribute)| Ok((*name, device.attribute(*attribute)? != 0)))
            .collect::<Result<_>>()?;
        Ok(Self {
            ordinal: device.ordinal(),
            name: device.name()?,
            uuid: device.uuid()?,
            pci_bus_id: device.pci_bus_id()?,
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
            features,
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
        row(f, "PCI bus id", &self.pci_bus_id)?;
        let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|range| {
            self.uuid[range]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        });
        row(f, "UUID", format!("GPU-{a}-{b}-{c}-{d}-{e}"))?;
        for (name, has) in &self.features {
            row(f, name, if *has { "yes" } else { "no" })?;
        }
        Ok(())
    }
}
