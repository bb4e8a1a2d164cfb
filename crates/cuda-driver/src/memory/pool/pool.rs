//! The type [`MemoryPool`].

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cuda_sys::{
    CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocation_st__bindgen_ty_1,
    CUmemLocationType, CUmemPoolHandle_st, CUmemPoolProps, CUmemoryPool, Version,
};

use crate::device::Device;
use crate::driver::{Driver, call};
use crate::error::{DriverError, Error, Result};
use crate::handle::{Destroy, Handle, SendPtr};
use crate::memory::allocator::{Allocator, sealed};
use crate::memory::{Memory, Source};
use crate::stream::Stream;

/// A pool of memory on a device. Cloning it returns another handle to the same pool.
///
/// Each device has a pool from the start, its [default pool](Device::default_memory_pool). A pool
/// that the program created is destroyed with its last handle. Memory that is allocated from it
/// stays allocated until it is freed.
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
        // SAFETY: the pool must be alive ← the handle owns it. Memory that is allocated from the
        // pool stays allocated, and a device whose current pool this is uses its default pool
        // again.
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
        match &self.0.owner {
            Owner::Made(handle) => handle.raw().0,
            Owner::Default(raw) => raw.0,
        }
    }

    /// `cuDeviceSetMemPool()`—Makes this the pool from which buffers on its device are allocated
    /// unless another pool is named. When the last handle of this pool is dropped, the default pool
    /// becomes current again.
    #[doc(alias = "cuDeviceSetMemPool")]
    pub fn make_current(&self) -> Result<()> {
        let device = self.device();
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
    /// created, destroys the pool and returns the result of the driver, which a drop would swallow.
    ///
    /// Memory that is allocated from the pool stays allocated.
    #[doc(alias = "cuMemPoolDestroy")]
    #[doc(alias = "cudaMemPoolDestroy")]
    pub fn close(self) -> Result<()> {
        match Arc::into_inner(self.0).map(|inner| inner.owner) {
            Some(Owner::Made(handle)) => Ok(handle.close()?),
            Some(Owner::Default(_)) | None => Ok(()),
        }
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
        // SAFETY: the memory must be stream-ordered memory that no other code frees ← it was
        // allocated just now.
        let memory = unsafe { Memory::of_source(owner, address, bytes, Source::Ordered) };
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
