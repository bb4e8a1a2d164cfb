//! Physical memory, which has no address until it is mapped.

use std::ffi::c_uchar;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{
    CUmemAllocationCompType, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1, CUmemAllocationType,
    CUmemGenericAllocationHandle,
};

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{AllocationKind, DriverError, Error, RangeError, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::MemoryLocation;
use crate::memory::ipc::HANDLE_TYPE;

/// The place and the properties of [`PhysicalMemory`].
///
/// ```
/// use cuda_driver::memory::{MemoryLocation, PhysicalKind};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// let device = driver.device(0)?;
/// let kind = PhysicalKind::of_device(&device).compressible();
/// assert_eq!(kind.location(), &MemoryLocation::Device(device));
/// assert!(kind.granularity()?.is_power_of_two());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "CUmemAllocationProp")]
pub struct PhysicalKind {
    driver: Driver,
    location: MemoryLocation,
    is_compressible: bool,
    is_exportable: bool,
}

impl PhysicalKind {
    /// Memory of a device.
    #[must_use]
    pub fn of_device(device: &Device) -> Self {
        Self {
            driver: device.driver().clone(),
            location: MemoryLocation::Device(device.clone()),
            is_compressible: false,
            is_exportable: false,
        }
    }

    /// Memory of a NUMA node of the host, which devices access over the bus. Use node 0 if the host
    /// has no NUMA nodes. Requires [`Device::has_host_virtual_memory`].
    #[must_use]
    pub fn of_host(driver: &Driver, node: u32) -> Self {
        Self {
            driver: driver.without_context(),
            location: MemoryLocation::HostNuma(node),
            is_compressible: false,
            is_exportable: false,
        }
    }

    /// Asks for memory that the device may compress, which saves bandwidth and not space. A driver
    /// that cannot compress allocates ordinary memory: see [`PhysicalMemory::is_compressible`].
    #[must_use]
    #[doc(alias = "CU_MEM_ALLOCATION_COMP_GENERIC")]
    pub fn compressible(self) -> Self {
        Self {
            is_compressible: true,
            ..self
        }
    }

    /// Asks for memory that can be [exported](PhysicalMemory::export) to other processes.
    #[must_use]
    pub fn exportable(self) -> Self {
        Self {
            is_exportable: true,
            ..self
        }
    }

    /// Returns the place of the memory.
    #[must_use]
    pub fn location(&self) -> &MemoryLocation {
        &self.location
    }

    /// `cuMemGetAllocationGranularity(RECOMMENDED)`—Returns the number of bytes of which sizes and
    /// offsets of mappings are multiples.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device has no virtual memory.
    #[doc(alias = "cuMemGetAllocationGranularity")]
    pub fn granularity(&self) -> Result<usize> {
        let mut bytes = 0;
        let props = self.props()?;
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe {
            call!(
                self.driver,
                cuMemGetAllocationGranularity(
                    &raw mut bytes,
                    &raw const props,
                    CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
                )
            )
        }?;
        // A divisor must not be 0.
        Ok(bytes.max(1))
    }

    /// What is short if memory runs out.
    fn of_allocations(&self) -> AllocationKind {
        match self.location {
            MemoryLocation::Device(_) => AllocationKind::Device,
            _ => AllocationKind::Host,
        }
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    fn props(&self) -> Result<CUmemAllocationProp> {
        type Compression = CUmemAllocationCompType;
        let compression = if self.is_compressible {
            Compression::CU_MEM_ALLOCATION_COMP_GENERIC
        } else {
            Compression::CU_MEM_ALLOCATION_COMP_NONE
        };
        Ok(CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: if self.is_exportable {
                HANDLE_TYPE
            } else {
                CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE
            },
            location: self.location.raw(&self.driver)?,
            win32HandleMetaData: ptr::null_mut(),
            allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
                // The constants fit in the byte that the struct has for them.
                compressionType: compression.0 as c_uchar,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        })
    }
}

/// Physical memory. It has no address until a [`Reservation`](super::Reservation) maps it, and
/// keeps its contents while it is mapped at one place and then at another.
///
/// The memory is released when the last `Arc` of it is dropped. A [`Mapping`](super::Mapping) holds
/// one.
///
/// ```
/// use cuda_driver::memory::{PhysicalKind, PhysicalMemory, Reservation};
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let kind = PhysicalKind::of_device(context.device());
/// let memory = PhysicalMemory::new(&kind, 1)?;
/// let addresses = Reservation::new(&driver, 4 * memory.bytes(), 0)?;
///
/// // The first words at one address, and then at another address.
/// let mut buffer = addresses.map(0, &memory)?.zeroed::<u32>(&stream)?;
/// buffer.slice_mut(..3)?.copy_from_host(&[1, 2, 3])?;
/// buffer.close()?;
/// let mapping = addresses.map(2 * memory.bytes(), &memory)?;
/// // SAFETY: all elements were written when the memory was a buffer.
/// let buffer = unsafe { mapping.into_buffer::<u32>(&stream) }?;
/// assert_eq!(buffer.slice(..3)?.to_vec()?, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "CUmemGenericAllocationHandle")]
pub struct PhysicalMemory {
    handle: Handle<RawPhysical>,
    bytes: usize,
    granularity: usize,
    kind: PhysicalKind,
    /// Whether there is a mapping of the memory.
    is_mapped: AtomicBool,
}

struct RawPhysical;

impl Destroy for RawPhysical {
    type Raw = CUmemGenericAllocationHandle;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the handle must be alive ← the caller owns it. The driver keeps mapped memory
        // until it is unmapped.
        unsafe { call!(driver, cuMemRelease(raw)) }
    }
}

impl PhysicalMemory {
    /// `cuMemCreate(bytes, kind)`—Allocates at least `bytes` bytes: the size is rounded up to a
    /// multiple of the [granularity](PhysicalKind::granularity). The contents are undefined.
    ///
    /// # Errors
    ///
    /// - [`Error::OutOfMemory`] with the number of bytes after rounding.
    /// - [`Error::SizeOverflow`] if that number does not fit in a `usize`.
    /// - `CUDA_ERROR_NOT_SUPPORTED` if the device has no virtual memory, or
    ///   `CUDA_ERROR_INVALID_VALUE` for a NUMA node that does not exist.
    #[doc(alias = "cuMemCreate")]
    pub fn new(kind: &PhysicalKind, bytes: usize) -> Result<Arc<Self>> {
        let granularity = kind.granularity()?;
        let bytes =
            bytes
                .max(1)
                .checked_next_multiple_of(granularity)
                .ok_or(Error::SizeOverflow {
                    len: bytes,
                    size: 1,
                })?;
        let (driver, props) = (kind.driver(), kind.props()?);
        let mut raw = 0;
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe {
            call!(
                driver,
                cuMemCreate(&raw mut raw, bytes, &raw const props, 0)
            )
        }
        .map_err(|error| Error::of_allocation(error, bytes, kind.of_allocations()))?;
        // SAFETY: no other code may release the handle ← it was created just now.
        Ok(unsafe { Self::of_raw(kind, raw, bytes, granularity) })
    }

    /// Returns the owner of a handle to `bytes` bytes.
    ///
    /// # Safety
    ///
    /// No other code releases the handle.
    pub(super) unsafe fn of_raw(
        kind: &PhysicalKind,
        raw: CUmemGenericAllocationHandle,
        bytes: usize,
        granularity: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            // SAFETY: no other code may release the handle ← the caller guarantees it.
            handle: unsafe { Handle::new(kind.driver(), raw) },
            bytes,
            granularity,
            kind: kind.clone(),
            is_mapped: AtomicBool::new(false),
        })
    }

    /// Returns the size in bytes, a multiple of the granularity.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the kind that the memory was allocated with.
    #[must_use]
    pub fn kind(&self) -> &PhysicalKind {
        &self.kind
    }

    /// `cuMemGetAllocationPropertiesFromHandle()`—Returns `true` if the device may compress the
    /// memory.
    #[doc(alias = "cuMemGetAllocationPropertiesFromHandle")]
    pub fn is_compressible(&self) -> Result<bool> {
        let mut props = self.kind.props()?;
        // SAFETY: the pointer must be valid and the handle alive ← it points to a local variable,
        // and `self` owns the handle.
        unsafe {
            call!(
                self.handle.driver(),
                cuMemGetAllocationPropertiesFromHandle(&raw mut props, self.handle.raw())
            )
        }?;
        let none = CUmemAllocationCompType::CU_MEM_ALLOCATION_COMP_NONE;
        Ok(u32::from(props.allocFlags.compressionType) != none.0)
    }

    /// Returns the raw handle. It is released with `self`.
    #[must_use]
    pub fn as_raw(&self) -> CUmemGenericAllocationHandle {
        self.handle.raw()
    }

    /// Fails unless mappings can begin at `offset` of a range.
    pub(super) fn check_offset(&self, offset: usize) -> Result<()> {
        if offset.is_multiple_of(self.granularity) {
            return Ok(());
        }
        Err(Error::from(RangeError::NotMultiple {
            what: "the offset of a mapping in bytes",
            given: offset,
            of: self.granularity,
        }))
    }

    /// Marks the memory as mapped until the result is dropped. Two mappings would be two buffers
    /// whose uses are not ordered.
    pub(super) fn claim(self: &Arc<Self>) -> Result<Claim> {
        if self.is_mapped.swap(true, Ordering::AcqRel) {
            return Err(Error::StillInUse {
                what: "the physical memory",
                by: "another mapping",
            });
        }
        Ok(Claim(Arc::clone(self)))
    }
}

/// The right to the only mapping of the memory.
pub(super) struct Claim(pub(super) Arc<PhysicalMemory>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.is_mapped.store(false, Ordering::Release);
    }
}

impl fmt::Debug for PhysicalMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PhysicalMemory({:#x}, {} bytes, {:?})",
            self.as_raw(),
            self.bytes,
            self.kind.location
        )
    }
}
