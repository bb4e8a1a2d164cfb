//! The type [`MemoryPool`].

use std::fmt;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_sys::{
    CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocation_st__bindgen_ty_1,
    CUmemLocationType, CUmemPoolHandle_st, CUmemPoolProps, CUmemoryPool, Version,
};

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle, SendPtr};
use crate::memory::allocator::{Allocator, sealed};
use crate::memory::{Block, Memory, Reclaim, Source};
use crate::stream::Stream;

/// A pool of memory on a device. Cloning it returns another handle to the same pool.
///
/// Each device has a pool from the start, its [default pool](Device::default_memory_pool). A pool
/// that the program created is destroyed when its last handle is dropped and the last buffer that
/// was allocated from it is freed. A pool that was [current](Self::make_current) is never destroyed,
/// because buffers that do not name it may have its memory.
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

struct Inner {
    owner: Owner,
    device: Device,
    /// Whether the pool may have been the current pool of its device.
    was_current: AtomicBool,
}

enum Owner {
    Made(Handle<RawPool>),
    /// The default pool of the device, which is never destroyed.
    Default(SendPtr<CUmemPoolHandle_st>),
}

struct RawPool;

impl Destroy for RawPool {
    type Raw = SendPtr<CUmemPoolHandle_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the pool must be alive, and its memory freed ← the handle owns it, buffers keep
        // it, and a pool that was current is never destroyed.
        unsafe { call!(driver, cuMemPoolDestroy(raw.0)) }
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
    pub fn default_memory_pool(&self) -> Result<MemoryPool> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe {
            call!(
                self.driver(),
                cuDeviceGetDefaultMemPool(&raw mut raw, self.as_raw())
            )
        }?;
        Ok(MemoryPool(Arc::new(Inner {
            owner: Owner::Default(SendPtr(raw)),
            device: self.clone(),
            was_current: AtomicBool::new(false),
        })))
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
        Self::create(device, 0)
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
                what: "a memory pool with a limit of 0 bytes",
            });
        }
        if device.driver().version() < Version::new(12_020) {
            return Err(Error::Unsupported {
                what: "limiting a memory pool on a driver older than CUDA 12.2",
            });
        }
        Self::create(device, bytes)
    }

    fn create(device: &Device, limit: usize) -> Result<Self> {
        let driver = device.driver();
        let props = props_of(device, limit);
        let mut raw = ptr::null_mut();
        // SAFETY: the pointers must be valid ← they point to local variables.
        unsafe { call!(driver, cuMemPoolCreate(&raw mut raw, &raw const props)) }?;
        // SAFETY: no other code may destroy the pool ← it was created just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        Ok(Self(Arc::new(Inner {
            owner: Owner::Made(handle),
            device: device.clone(),
            was_current: AtomicBool::new(false),
        })))
    }

    /// Returns the device of the memory.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Returns the raw pool. It stays alive as long as a handle to it.
    #[must_use]
    pub fn as_raw(&self) -> CUmemoryPool {
        self.0.as_raw()
    }

    /// `cuDeviceSetMemPool()`—Makes this the pool from which buffers on its device are allocated
    /// unless another pool is named. When the last handle of this pool is dropped, the default pool
    /// becomes current again. A pool that was current is never destroyed: a few KiB of the driver
    /// stay allocated.
    #[doc(alias = "cuDeviceSetMemPool")]
    pub fn make_current(&self) -> Result<()> {
        let device = self.device();
        self.0.was_current.store(true, Ordering::Release);
        // SAFETY: the pool must be alive ← it is borrowed.
        Ok(unsafe {
            call!(
                device.driver(),
                cuDeviceSetMemPool(device.as_raw(), self.as_raw())
            )
        }?)
    }

    /// `cuDeviceGetMemPool()`—Returns `true` if buffers on the device are allocated from this pool
    /// by default.
    #[doc(alias = "cuDeviceGetMemPool")]
    pub fn is_current(&self) -> Result<bool> {
        let device = self.device();
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
}

/// Destruction.
impl MemoryPool {
    /// `cuMemPoolDestroy()`—Drops this handle. If it was the last one of a pool that the program
    /// created, and no buffer has memory of the pool, destroys the pool and returns the result of
    /// the driver, which a drop would swallow.
    ///
    /// A buffer of the pool keeps it alive. Otherwise driver 580 crashes or hangs when the buffer is
    /// freed.
    #[doc(alias = "cuMemPoolDestroy")]
    #[doc(alias = "cudaMemPoolDestroy")]
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.0).map_or(Ok(()), |mut inner| Ok(inner.end()?))
    }
}

impl Inner {
    fn as_raw(&self) -> CUmemoryPool {
        match &self.owner {
            Owner::Made(handle) => handle.raw().0,
            Owner::Default(raw) => raw.0,
        }
    }

    /// Destroys the pool if the program created it and it was never current. If it is current, the
    /// default pool becomes current.
    fn end(&mut self) -> Result<(), DriverError> {
        let raw = SendPtr(self.as_raw());
        let Owner::Made(handle) = mem::replace(&mut self.owner, Owner::Default(raw)) else {
            return Ok(());
        };
        if !*self.was_current.get_mut() {
            return handle.close();
        }
        handle.abandon();
        let (driver, device) = (self.device.driver(), self.device.as_raw());
        let mut current = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe { call!(driver, cuDeviceGetMemPool(&raw mut current, device)) }?;
        if current != raw.0 {
            return Ok(());
        }
        let mut default = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it points to a local variable.
        unsafe { call!(driver, cuDeviceGetDefaultMemPool(&raw mut default, device)) }?;
        // SAFETY: the pool must be alive ← the default pool always is.
        unsafe { call!(driver, cuDeviceSetMemPool(device, default)) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.was_current.get_mut() {
            // A drop cannot report an error; `close` does.
            let _ = self.end();
        }
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
}

impl Allocator for MemoryPool {}

impl sealed::Allocate for MemoryPool {
    fn check(&self, owner: &Stream, _: sealed::Token) -> Result<()> {
        if owner.context().device() == self.device() {
            Ok(())
        } else {
            Err(Error::other_context(
                "the pool",
                self.device(),
                owner.context(),
            ))
        }
    }

    fn allocate(
        &self,
        owner: &Stream,
        bytes: usize,
        _: sealed::Token,
    ) -> Result<sealed::Allocated> {
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
        .map_err(|error| Error::of_allocation(error, bytes))?;
        let pool: Arc<dyn Reclaim> = Arc::<Inner>::clone(&self.0);
        // SAFETY: the memory must be stream-ordered memory that no other code frees ← it was
        // allocated just now.
        let memory = unsafe { Memory::of_source(owner, address, bytes, Source::Other(pool)) };
        Ok(sealed::Allocated(memory))
    }
}

/// Returns the properties of a pool of memory on `device`, with a limit of `limit` bytes, or
/// without a limit if `limit` is 0.
pub(crate) fn props_of(device: &Device, limit: usize) -> CUmemPoolProps {
    CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location_of(device),
        win32SecurityAttributes: ptr::null_mut(),
        maxSize: limit,
        usage: 0,
        gpuDirectRDMACapable: 0,
        reserved: [0; 53],
    }
}

pub(super) fn location_of(device: &Device) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 {
            id: device.as_raw(),
        },
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
