//! Memory pools of the driver: what memory allocated in stream order comes from.

mod access;
mod attributes;

pub use access::PoolAccess;
pub use attributes::{MemoryPoolStatistics, PoolReuse};

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
use crate::handle::{Destroy, Handle};
use crate::memory::{DeviceBuffer, DeviceRepr, Memory, Source, bytes_of};
use crate::stream::{SendPtr, Stream};

/// A pool of memory on a device. Cloning it gives another handle of the same one.
///
/// Each device has one from the start, its [default pool](Device::default_memory_pool). A pool that
/// was made goes with its last handle; what is allocated from it stays until it is freed.
#[derive(Clone)]
pub struct MemoryPool(Arc<Inner>);

struct Inner {
    owner: Owner,
    device: Device,
}

enum Owner {
    Made(Handle<RawPool>),
    /// The device's own.
    Default(SendPtr<CUmemPoolHandle_st>),
}

struct RawPool;

impl Destroy for RawPool {
    type Raw = SendPtr<CUmemPoolHandle_st>;

    unsafe fn destroy(driver: &Driver, raw: Self::Raw) -> Result<(), DriverError> {
        // SAFETY: the pool must be alive ← the handle owns it. What is allocated from it stays, and
        // a device whose current pool it is goes back to its default one.
        unsafe { call!(driver, cuMemPoolDestroy(raw.0)) }
    }
}

impl Device {
    /// `cuDeviceGetDefaultMemPool()`—The pool that the device has from the start.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` or `CUDA_ERROR_INVALID_VALUE` if the device has no memory pools.
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    pub fn default_memory_pool(&self) -> Result<MemoryPool> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it is to a local.
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
    /// `cuMemPoolCreate()`—A pool of memory on `device`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED` if the device has no memory pools, or what else the call answers.
    #[doc(alias = "cuMemPoolCreate")]
    pub fn new(device: &Device) -> Result<Self> {
        Self::create(device, 0)
    }

    /// `cuMemPoolCreate(maxSize)`—A pool of memory on `device` that never has more than `bytes`
    /// bytes, or a little more: the driver rounds up.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] on a driver older than CUDA 12.2 or for a limit of 0, which is none;
    /// else as [`new`](Self::new).
    pub fn with_limit(device: &Device, bytes: usize) -> Result<Self> {
        if bytes == 0 || device.driver().version() < Version::new(12_020) {
            return Err(Error::Unsupported {
                what: "such a limit of a memory pool",
            });
        }
        Self::create(device, bytes)
    }

    fn create(device: &Device, limit: usize) -> Result<Self> {
        let driver = device.driver();
        let props = props_of(device, limit);
        let mut raw = ptr::null_mut();
        // SAFETY: the pointers must be valid ← they are to locals.
        unsafe { call!(driver, cuMemPoolCreate(&raw mut raw, &raw const props)) }?;
        // SAFETY: nobody else must destroy it ← it was made just now.
        let handle = unsafe { Handle::new(driver, SendPtr(raw)) };
        Ok(Self(Arc::new(Inner {
            owner: Owner::Made(handle),
            device: device.clone(),
        })))
    }

    /// The device of the memory.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The raw pool. It stays alive as long as a handle of it.
    #[must_use]
    pub fn as_raw(&self) -> CUmemoryPool {
        match &self.0.owner {
            Owner::Made(handle) => handle.raw().0,
            Owner::Default(raw) => raw.0,
        }
    }

    /// `cuMemAllocFromPoolAsync()`—`len` elements with whatever was in that memory, at home on
    /// `stream`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] with the bytes asked for, [`Error::SizeOverflow`] if they do not fit
    /// in an address, [`Error::OtherContext`] if `stream` is of another device than the pool.
    ///
    /// # Safety
    ///
    /// Nothing reads an element before something has written it, as for [`DeviceBuffer::uninit`].
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    pub unsafe fn uninit<T: DeviceRepr>(
        &self,
        stream: &Stream,
        len: usize,
    ) -> Result<DeviceBuffer<T>> {
        let bytes = bytes_of::<T>(len)?;
        if stream.context().device() != self.device() {
            return Err(Error::OtherContext { what: "the pool" });
        }
        let memory = if bytes == 0 {
            Memory::nothing(stream)
        } else {
            let mut address = 0;
            let queueing = stream.queueing()?;
            // SAFETY: pointer, pool and stream must be valid ← a local, and borrowed.
            unsafe {
                call!(
                    stream.driver(),
                    cuMemAllocFromPoolAsync(&raw mut address, bytes, self.as_raw(), queueing.raw())
                )
            }
            .map_err(|error| Error::of_allocation(error, bytes))?;
            // SAFETY: the memory must be of that source and nobody else's ← it was allocated just
            // now.
            unsafe { Memory::of_source(stream, address, bytes, Source::Ordered) }
        };
        Ok(DeviceBuffer::of_memory(memory, len))
    }

    /// `cuMemAllocFromPoolAsync()`, `cuMemsetD8Async(0)`—`len` elements of zero bits, at home on
    /// `stream`.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit).
    pub fn zeroed<T: DeviceRepr>(&self, stream: &Stream, len: usize) -> Result<DeviceBuffer<T>> {
        // SAFETY: it must be written before it is read ← it is filled below, on the same stream.
        let mut buffer = unsafe { self.uninit(stream, len) }?;
        buffer.set_zero()?;
        Ok(buffer)
    }

    /// `cuMemAllocFromPoolAsync()`—A copy of `source`, at home on `stream`.
    ///
    /// # Errors
    ///
    /// As [`uninit`](Self::uninit) and [`DeviceBuffer::copy_from_host`].
    pub fn copy_of<T: DeviceRepr>(&self, stream: &Stream, source: &[T]) -> Result<DeviceBuffer<T>> {
        // SAFETY: it must be written before it is read ← it is filled below.
        let mut buffer = unsafe { self.uninit(stream, source.len()) }?;
        buffer.copy_from_host(source)?;
        Ok(buffer)
    }

    /// `cuDeviceSetMemPool()`—Makes it the pool that buffers on its device come from unless another
    /// is named. When its last handle goes, that is the default pool again.
    ///
    /// # Errors
    ///
    /// What the call answers.
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

    /// `cuDeviceGetMemPool()`—Whether it is the pool that buffers on its device come from.
    ///
    /// # Errors
    ///
    /// What the call answers.
    #[doc(alias = "cuDeviceGetMemPool")]
    pub fn is_current(&self) -> Result<bool> {
        let device = self.device();
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer must be writable ← it is to a local.
        unsafe {
            call!(
                device.driver(),
                cuDeviceGetMemPool(&raw mut raw, device.as_raw())
            )
        }?;
        Ok(raw == self.as_raw())
    }
}

/// Memory of `device`, at most `limit` bytes if that is not 0.
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

fn location_of(device: &Device) -> CUmemLocation {
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
