//! Pools of host memory and of managed memory, and the pools of each location.

use std::ptr;

use cuda_sys::{CUmemAllocationType, CUmemoryPool};

use super::access::set_access;
use super::pool::{MemoryPool, PoolKind, PoolPlace, RawPool, props_of};
use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::Handle;
use crate::memory::{MemoryAccess, MemoryLocation};

impl PoolKind {
    fn raw(self) -> CUmemAllocationType {
        match self {
            Self::Pinned => CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            Self::Managed => CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED,
        }
    }
}

/// Pools at other locations than a device. They need CUDA 13.0.
impl MemoryPool {
    /// `cuMemPoolCreate(location, type)`—Creates a pool of memory at `location` for use by
    /// `device`: page-locked memory of the host or of one of its NUMA nodes, memory of the device,
    /// or managed memory.
    ///
    /// | location | kind | buffers |
    /// |---|---|---|
    /// | the host or a NUMA node | [`PoolKind::Pinned`] | [`PinnedBuffer::zeroed_in_pool`] |
    /// | the device | [`PoolKind::Pinned`] | [`DeviceBuffer::zeroed_in`] |
    /// | any | [`PoolKind::Managed`] | [`ManagedBuffer::zeroed_in`], [`DeviceBuffer::zeroed_in`] |
    ///
    /// A `DeviceBuffer` in page-locked memory of the host is refused, because the driver refuses to
    /// copy such memory as device memory. Kernels use host memory through a `ManagedBuffer`.
    ///
    /// [`PinnedBuffer::zeroed_in_pool`]: crate::PinnedBuffer::zeroed_in_pool
    /// [`DeviceBuffer::zeroed_in`]: crate::DeviceBuffer::zeroed_in
    /// [`ManagedBuffer::zeroed_in`]: crate::memory::ManagedBuffer::zeroed_in
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the driver is older than CUDA 13.0 and the memory is host memory
    /// or managed memory. [`Error::OtherContext`] if `location` is another device than `device`.
    /// `CUDA_ERROR_INVALID_VALUE` if the host has no such NUMA node.
    #[doc(alias = "cuMemPoolCreate")]
    #[doc(alias = "cudaMemPoolCreate")]
    pub fn at(location: &MemoryLocation, kind: PoolKind, device: &Device) -> Result<Self> {
        let driver = device.driver();
        let place = place_of(location, kind, device)?;
        let mut props = props_of(device, 0);
        props.allocType = kind.raw();
        props.location = location.raw(driver)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe { call!(driver, cuMemPoolCreate(&raw mut raw, &raw const props)) }?;
        let raw = RawPool::at(raw, device, place);
        // SAFETY: no other code may destroy the pool ← it was created just now.
        let handle = unsafe { Handle::new(driver, raw) };
        let pool = Self::of_parts(raw, Some(handle), device, kind);
        if kind == PoolKind::Pinned && place.is_some() {
            // Unlike the memory of a device, it is accessible only from the host at first.
            // SAFETY: the pool must be alive ← it was created just now.
            unsafe { set_access(pool.as_raw(), device, MemoryAccess::ReadWrite) }?;
        }
        Ok(pool)
    }

    /// `cuMemGetDefaultMemPool()`—Returns the pool that a location has from the start. Gives
    /// `device` access to its memory.
    ///
    /// # Errors
    ///
    /// Fails as [`at`](Self::at) does.
    #[doc(alias = "cuMemGetDefaultMemPool")]
    #[doc(alias = "cudaMemGetDefaultMemPool")]
    pub fn default_at(location: &MemoryLocation, kind: PoolKind, device: &Device) -> Result<Self> {
        let Some(place) = place_of(location, kind, device)? else {
            return device.default_memory_pool();
        };
        let raw = place.default_pool(device.driver())?;
        let raw = RawPool::at(raw, device, Some(place));
        let pool = Self::of_parts(raw, None, device, kind);
        if kind == PoolKind::Pinned {
            // SAFETY: the pool must be alive ← a default pool always is.
            unsafe { set_access(pool.as_raw(), device, MemoryAccess::ReadWrite) }?;
        }
        Ok(pool)
    }

    /// Returns the kind of the memory.
    #[must_use]
    pub fn kind(&self) -> PoolKind {
        self.parts().1
    }
}

/// Returns the place of a pool, or `None` for ordinary memory of `device`.
fn place_of(
    location: &MemoryLocation,
    kind: PoolKind,
    device: &Device,
) -> Result<Option<PoolPlace>> {
    let driver = device.driver();
    let place = PoolPlace::of(location, kind.raw());
    if let MemoryLocation::Device(other) = location {
        driver.expect_handles_of(other.driver(), "the location")?;
        if other != device {
            let (of, used_with) = (format!("{other:?}"), format!("{device:?}"));
            return Err(Error::OtherContext {
                what: "the location of the pool",
                argument: None,
                of: of.into(),
                used_with: used_with.into(),
            });
        }
        if kind == PoolKind::Pinned {
            return Ok(None);
        }
    }
    if driver.version() < cuda_sys::Version::new(13_000) {
        return Err(Error::Unsupported {
            what: "a pool of host memory or managed memory on a driver older than CUDA 13.0; \
                   install a newer driver",
        });
    }
    Ok(Some(place))
}

impl PoolPlace {
    /// `cuMemGetDefaultMemPool()`
    fn default_pool(self, driver: &Driver) -> Result<CUmemoryPool, DriverError> {
        let (mut raw, mut location) = (ptr::null_mut(), self.location());
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe {
            call!(
                driver,
                cuMemGetDefaultMemPool(&raw mut raw, &raw mut location, self.kind)
            )
        }?;
        Ok(raw)
    }

    /// `cuMemGetMemPool()`—Returns the current pool of the location.
    pub(super) fn current_pool(self, driver: &Driver) -> Result<CUmemoryPool, DriverError> {
        let (mut raw, mut location) = (ptr::null_mut(), self.location());
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe {
            call!(
                driver,
                cuMemGetMemPool(&raw mut raw, &raw mut location, self.kind)
            )
        }?;
        Ok(raw)
    }

    /// `cuMemSetMemPool()`—Makes `pool` the current pool of the location.
    ///
    /// # Safety
    ///
    /// The pool is alive.
    pub(super) unsafe fn set_pool(
        self,
        driver: &Driver,
        pool: CUmemoryPool,
    ) -> Result<(), DriverError> {
        let mut location = self.location();
        // SAFETY: the pool must be alive and the pointer valid ← the caller guarantees the pool,
        // and the pointer is to a local variable.
        unsafe { call!(driver, cuMemSetMemPool(&raw mut location, self.kind, pool)) }
    }

    /// Makes the default pool of the location current if `pool` is current.
    pub(super) fn replace_current(
        self,
        driver: &Driver,
        pool: CUmemoryPool,
    ) -> Result<(), DriverError> {
        if self.current_pool(driver)? != pool {
            return Ok(());
        }
        let default = self.default_pool(driver)?;
        // SAFETY: the pool must be alive ← a default pool always is.
        unsafe { self.set_pool(driver, default) }
    }
}
