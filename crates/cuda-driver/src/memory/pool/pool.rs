//! The type [`MemoryPool`].

use std::fmt;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{
    CUdevice, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType,
    CUmemPool_attribute, CUmemPoolHandle_st, CUmemPoolProps, CUmemoryPool, Version,
};

use crate::context::Context;
use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle};
use crate::memory::{Block, Memory, MemoryLocation, Reclaim, Source, location, location_of};
use crate::memory_ledger::MemoryKind;
use crate::stream::Stream;
use crate::tracking::{DestroyWhenIdle, Report, report_of};
use crate::types::SendPtr;

const NONE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;

/// A pool of memory on a device, or of host memory or managed memory ([`at`](Self::at)). Cloning it
/// returns another handle to the same pool.
///
/// Each device has a pool from the start, its [default pool](Device::default_memory_pool). A pool
/// that the program created is destroyed when its last handle is dropped and the last buffer that
/// was allocated from it is freed. As the driver may still have to execute these frees, destruction
/// waits for all work in the contexts on the device.
///
/// ```
/// use cuda_driver::DeviceBuffer;
/// use cuda_driver::memory::MemoryPool;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// let pool = MemoryPool::new(context.device())?;
/// let buffer = DeviceBuffer::from_host_in(&pool, &stream, &[1_u32, 2, 3])?;
/// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
/// assert!(pool.statistics()?.used >= 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryPool(Arc<Inner>);

/// The kind of memory of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolKind {
    /// Memory that stays at its location: device memory, or page-locked memory of the host.
    #[doc(alias = "CU_MEM_ALLOCATION_TYPE_PINNED")]
    Pinned,
    /// Managed memory, which prefers its location.
    #[doc(alias = "CU_MEM_ALLOCATION_TYPE_MANAGED")]
    Managed,
}

struct Inner {
    raw: RawPool,
    kind: PoolKind,
    /// `None` for the default pool of the device, which is never destroyed.
    owned: Option<Handle<RawPool>>,
    device: Device,
    /// Whether the pool is exportable and has not been exported.
    awaits_export: AtomicBool,
    /// Receives the result of the destruction, if the program asked for it.
    report: Option<Report>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RawPool {
    pool: SendPtr<CUmemPoolHandle_st>,
    device: CUdevice,
    /// The location of the memory; `None` for ordinary memory of the device.
    place: Option<PoolPlace>,
    /// Whether another process created the pool.
    is_imported: bool,
}

/// A location and the kind of memory there, other than ordinary memory of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolPlace {
    type_: CUmemLocationType,
    id: i32,
    pub(super) kind: CUmemAllocationType,
}

impl PoolPlace {
    pub(super) fn of(at: &MemoryLocation, kind: CUmemAllocationType) -> Self {
        type T = CUmemLocationType;
        let (type_, id) = match at {
            MemoryLocation::Host => (T::CU_MEM_LOCATION_TYPE_HOST, 0),
            MemoryLocation::HostNuma(node) => {
                let node = i32::try_from(*node).unwrap_or(-1);
                (T::CU_MEM_LOCATION_TYPE_HOST_NUMA, node)
            }
            MemoryLocation::Device(device) => (T::CU_MEM_LOCATION_TYPE_DEVICE, device.as_raw()),
        };
        Self { type_, id, kind }
    }

    pub(super) fn location(self) -> CUmemLocation {
        location(self.type_, self.id)
    }

    fn is_host(self) -> bool {
        self.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
    }
}

impl RawPool {
    fn new(pool: CUmemoryPool, device: &Device) -> Self {
        Self::at(pool, device, None)
    }

    pub(super) fn at(pool: CUmemoryPool, device: &Device, place: Option<PoolPlace>) -> Self {
        Self {
            pool: SendPtr(pool),
            device: device.as_raw(),
            place,
            is_imported: false,
        }
    }

    fn imported(pool: CUmemoryPool, device: &Device) -> Self {
        Self {
            is_imported: true,
            ..Self::new(pool, device)
        }
    }

    /// Makes the default pool of the device current if this pool is current.
    fn replace_current(self, driver: &Driver) -> Result<(), DriverError> {
        if let Some(place) = self.place {
            return place.replace_current(driver, self.pool.0);
        }
        let mut current = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe { call!(driver, cuDeviceGetMemPool(&raw mut current, self.device)) }?;
        if current != self.pool.0 {
            return Ok(());
        }
        let mut default = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe {
            call!(
                driver,
                cuDeviceGetDefaultMemPool(&raw mut default, self.device)
            )
        }?;
        // SAFETY: the pool must be alive ← the default pool always is.
        unsafe { call!(driver, cuDeviceSetMemPool(self.device, default)) }
    }
}

impl Destroy for RawPool {
    type Raw = Self;

    /// Destroys the pool if all of its memory is free. If the pool was the current pool of its
    /// device, buffers that do not name it may have its memory. Then the pool stays.
    unsafe fn destroy(driver: &Driver, raw: Self) -> Result<(), DriverError> {
        if raw.is_imported {
            // SAFETY: the pool must be alive, and its memory freed ← the handle owns it, and each
            // buffer of an imported pool keeps it.
            return unsafe { call!(driver, cuMemPoolDestroy(raw.pool.0)) };
        }
        raw.replace_current(driver)?;
        let mut used = 0_u64;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
        let value = (&raw mut used).cast();
        // SAFETY: the pool must be alive, and the value a writable `u64` ← the handle owns the
        // pool, and `used` is one.
        unsafe { call!(driver, cuMemPoolGetAttribute(raw.pool.0, attribute, value)) }?;
        if used > 0 {
            return Ok(());
        }
        // SAFETY: the pool must be alive, and its memory freed ← the handle owns it, and the
        // driver has just confirmed that none is in use.
        unsafe { call!(driver, cuMemPoolDestroy(raw.pool.0)) }
    }
}

/// The default memory pool of the device.
impl Device {
    /// `cuDeviceGetDefaultMemPool()`—Returns the pool that the device has from the start.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` or `CUDA_ERROR_INVALID_VALUE` if the device has no memory pools.
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    #[doc(alias = "cudaDeviceGetDefaultMemPool")]
    pub fn default_memory_pool(&self) -> Result<MemoryPool> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe {
            call!(
                self.driver(),
                cuDeviceGetDefaultMemPool(&raw mut raw, self.as_raw())
            )
        }?;
        let raw = RawPool::new(raw, self);
        Ok(MemoryPool::of_parts(raw, None, self, PoolKind::Pinned))
    }
}

impl MemoryPool {
    /// `cuMemPoolCreate()`—Creates a pool of memory on `device`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device has no memory pools.
    #[doc(alias = "cuMemPoolCreate")]
    #[doc(alias = "cudaMemPoolCreate")]
    pub fn new(device: &Device) -> Result<Self> {
        Self::create(device, 0, NONE)
    }

    /// `cuMemPoolCreate(maxSize)`—Creates a pool of memory on `device` that reserves at most
    /// `bytes` bytes. The driver rounds the limit up.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the driver is older than CUDA 12.2, or if `bytes` is 0, which the
    /// driver would take as no limit. Otherwise fails as [`new`](Self::new) does.
    pub fn with_limit(device: &Device, bytes: usize) -> Result<Self> {
        if bytes == 0 {
            return Err(Error::Unsupported {
                what: "a memory pool with a limit of 0 bytes; pass a larger limit",
            });
        }
        if device.driver().version() < Version::new(12_020) {
            return Err(Error::Unsupported {
                what: "limiting a memory pool on a driver older than CUDA 12.2; install a newer \
                       driver, or use a `CachingPool`",
            });
        }
        Self::create(device, bytes, NONE)
    }

    /// `cuDeviceSetMemPool()`, `cuMemSetMemPool()`—Makes this the current pool of its location. The
    /// buffers on a device are allocated from the current pool of the device, unless another pool
    /// is named. This crate names the pool for all other memory, so the current pool of another
    /// location matters only to other code.
    ///
    /// When the last handle of this pool is dropped, the default pool becomes current again. If a
    /// buffer that did not name this pool still has its memory then, the pool is not destroyed: a
    /// few KiB of the driver stay allocated.
    #[doc(alias = "cuDeviceSetMemPool")]
    #[doc(alias = "cudaDeviceSetMemPool")]
    #[doc(alias = "cuMemSetMemPool")]
    #[doc(alias = "cudaMemSetMemPool")]
    pub fn make_current(&self) -> Result<()> {
        let device = self.device();
        if let Some(place) = self.0.raw.place {
            // SAFETY: the pool must be alive ← it is borrowed.
            return Ok(unsafe { place.set_pool(device.driver(), self.as_raw()) }?);
        }
        // SAFETY: the pool must be alive ← it is borrowed.
        Ok(unsafe {
            call!(
                device.driver(),
                cuDeviceSetMemPool(device.as_raw(), self.as_raw())
            )
        }?)
    }

    /// `cuDeviceGetMemPool()`, `cuMemGetMemPool()`—Returns `true` if this is the current pool of
    /// its location.
    #[doc(alias = "cuDeviceGetMemPool")]
    #[doc(alias = "cudaDeviceGetMemPool")]
    #[doc(alias = "cuMemGetMemPool")]
    #[doc(alias = "cudaMemGetMemPool")]
    pub fn is_current(&self) -> Result<bool> {
        let device = self.device();
        if let Some(place) = self.0.raw.place {
            return Ok(place.current_pool(device.driver())? == self.as_raw());
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe {
            call!(
                device.driver(),
                cuDeviceGetMemPool(&raw mut raw, device.as_raw())
            )
        }?;
        Ok(raw == self.as_raw())
    }

    /// Returns the device of the memory.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Returns the raw pool. It stays alive as long as a handle to it.
    #[must_use]
    pub fn as_raw(&self) -> CUmemoryPool {
        self.0.raw.pool.0
    }
}

impl MemoryPool {
    /// Creates a pool whose handles have the type `handles`.
    pub(in crate::memory) fn create(
        device: &Device,
        limit: usize,
        handles: CUmemAllocationHandleType,
    ) -> Result<Self> {
        let driver = device.driver();
        let props = CUmemPoolProps {
            handleTypes: handles,
            ..props_of(device, limit)
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe { call!(driver, cuMemPoolCreate(&raw mut raw, &raw const props)) }?;
        let raw = RawPool::new(raw, device);
        // SAFETY: no other code may destroy the pool ← it was created just now.
        let handle = unsafe { Handle::new(driver, raw) };
        let pool = Self::of_parts(raw, Some(handle), device, PoolKind::Pinned);
        pool.set_awaits_export(handles != NONE);
        Ok(pool)
    }

    /// Sets whether the pool is exportable and has not been exported.
    pub(super) fn set_awaits_export(&self, awaits_export: bool) {
        self.0.awaits_export.store(awaits_export, Ordering::Relaxed);
    }

    /// Returns the owner of a pool that this process has imported.
    ///
    /// # Safety
    ///
    /// The pool is alive, and no other code destroys it.
    pub(in crate::memory) unsafe fn of_imported(device: &Device, raw: CUmemoryPool) -> Self {
        let raw = RawPool::imported(raw, device);
        // SAFETY: no other code may destroy the pool ← the caller guarantees it.
        let handle = unsafe { Handle::new(device.driver(), raw) };
        Self::of_parts(raw, Some(handle), device, PoolKind::Pinned)
    }

    /// Returns the source of memory of this pool.
    pub(in crate::memory) fn source(&self) -> Source {
        let pool: Arc<dyn Reclaim> = Arc::<Inner>::clone(&self.0);
        Source::Other(pool)
    }

    pub(super) fn of_parts(
        raw: RawPool,
        owned: Option<Handle<RawPool>>,
        device: &Device,
        kind: PoolKind,
    ) -> Self {
        Self(Arc::new(Inner {
            raw,
            kind,
            owned,
            device: device.clone(),
            awaits_export: AtomicBool::new(false),
            report: None,
        }))
    }

    /// Returns the raw pool and the kind of its memory.
    pub(super) fn parts(&self) -> (RawPool, PoolKind) {
        (self.0.raw, self.0.kind)
    }

    /// Returns `true` if the memory is at a location of the host.
    pub(crate) fn is_on_host(&self) -> bool {
        self.0.raw.place.is_some_and(PoolPlace::is_host)
    }
}

/// Destruction.
impl MemoryPool {
    /// `cuMemPoolDestroy()`—Drops this handle. If it was the last one of a pool that the program
    /// created, and no buffer has memory of the pool, destroys the pool and returns the result of
    /// the driver, which a drop would swallow.
    ///
    /// A buffer of the pool keeps it alive, because driver 580 hangs when memory is freed after its
    /// pool was destroyed. In a host function, or while a context on the device captures, the pool
    /// is destroyed later, and this returns `Ok`.
    #[doc(alias = "cuMemPoolDestroy")]
    #[doc(alias = "cudaMemPoolDestroy")]
    pub fn close(self) -> Result<()> {
        let Some(mut inner) = Arc::into_inner(self.0) else {
            return Ok(());
        };
        report_of(|report| {
            inner.report = Some(report);
            drop(inner);
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(handle) = self.owned.take() else {
            return;
        };
        // Its memory may have been used in any of these contexts.
        let contexts = Context::all_on(&self.device);
        DestroyWhenIdle::new(handle, Vec::new(), contexts, self.report.take()).start();
    }
}

/// The memory of a pool keeps the pool alive.
impl Reclaim for Inner {
    fn reclaim(self: Arc<Self>, block: Block) -> Result<(), DriverError> {
        block.free_in_order()
    }

    fn disown(self: Arc<Self>, _: &Block) {
        // Other code frees the memory at any later time.
        mem::forget(self);
    }

    fn origin(&self) -> (MemoryKind, u64) {
        (MemoryKind::Pool, self.raw.pool.0.addr() as u64)
    }

    fn awaits_export(&self) -> bool {
        self.awaits_export.load(Ordering::Relaxed)
    }
}

impl MemoryPool {
    #[track_caller]
    pub(super) fn allocate_of(
        &self,
        owner: &Stream,
        bytes: usize,
        source: impl FnOnce(Arc<dyn Reclaim>) -> Source,
    ) -> Result<Memory> {
        owner.expect_direct("an allocation from a memory pool")?;
        let mut address = 0;
        let queueing = owner.queueing()?;
        // SAFETY: the pointer, the pool and the stream must be valid ← the pointer is to a local
        // variable, and the others are borrowed.
        unsafe {
            call!(
                owner.driver(),
                cuMemAllocFromPoolAsync(&raw mut address, bytes, self.as_raw(), queueing.raw())
            )
        }
        .map_err(|error| self.allocation_error(owner.context(), error, bytes))?;
        let pool: Arc<dyn Reclaim> = Arc::<Inner>::clone(&self.0);
        // SAFETY: the memory must be stream-ordered memory that no other code frees ← it was
        // allocated just now.
        Ok(unsafe { Memory::of_new(owner, address, bytes, source(pool)) })
    }
}

/// Returns the properties of a pool of memory on `device`, with a limit of `limit` bytes, or
/// without a limit if `limit` is 0.
pub(crate) fn props_of(device: &Device, limit: usize) -> CUmemPoolProps {
    CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: NONE,
        location: location_of(device),
        win32SecurityAttributes: ptr::null_mut(),
        maxSize: limit,
        usage: 0,
        gpuDirectRDMACapable: 0,
        reserved: [0; 53],
    }
}

impl PartialEq for MemoryPool {
    fn eq(&self, other: &Self) -> bool {
        self.device() == other.device() && self.as_raw() == other.as_raw()
    }
}

impl Eq for MemoryPool {}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryPool({:?} on {:?})", self.as_raw(), self.device())
    }
}
