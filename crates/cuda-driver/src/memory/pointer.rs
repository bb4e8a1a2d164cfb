//! What the driver knows of an address.

use std::ffi::{c_uint, c_void};
use std::ptr;

use cuda_sys::{
    CUcontext, CUctx_st, CUdeviceptr, CUmemPoolHandle_st, CUmemoryPool, CUmemorytype,
    CUpointer_attribute as Attribute,
};

use super::{DeviceRepr, DeviceSlice};
use crate::context::Context;
use crate::driver::call;
use crate::error::Result;
use crate::stream::SendPtr;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryType(pub u32);

impl MemoryType {
    /// On the host: pinned, or registered.
    pub const HOST: Self = Self(CUmemorytype::CU_MEMORYTYPE_HOST.0);
    /// On a device. Managed memory counts as such.
    pub const DEVICE: Self = Self(CUmemorytype::CU_MEMORYTYPE_DEVICE.0);
    /// An array.
    pub const ARRAY: Self = Self(CUmemorytype::CU_MEMORYTYPE_ARRAY.0);
    /// On either.
    pub const UNIFIED: Self = Self(CUmemorytype::CU_MEMORYTYPE_UNIFIED.0);
}

/// What the driver knows of an address: see [`Context::pointer_attributes`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PointerAttributes {
    /// Where the memory is; `None` if the driver does not know the address.
    pub memory_type: Option<MemoryType>,
    /// The ordinal of the device that it was allocated or registered on.
    pub device_ordinal: Option<u32>,
    /// The address for kernels; 0 if there is none.
    pub device_address: CUdeviceptr,
    /// The address for the host; 0 if there is none.
    pub host_address: u64,
    /// Where the allocation begins.
    pub range_start: CUdeviceptr,
    /// The bytes of the allocation.
    pub range_bytes: usize,
    /// A number that no other allocation of the process has or had.
    pub buffer_id: u64,
    /// Whether the memory is managed.
    pub is_managed: bool,
    /// Whether memory is mapped to the address.
    pub is_mapped: bool,
    context: SendPtr<CUctx_st>,
    pool: SendPtr<CUmemPoolHandle_st>,
}

impl PointerAttributes {
    /// The raw context in which the memory was allocated or registered; null where it belongs to
    /// none, as that of a pool.
    #[must_use]
    pub fn context_as_raw(&self) -> CUcontext {
        self.context.0
    }

    /// The raw pool that the memory is of; null if it is of none.
    #[must_use]
    pub fn pool_as_raw(&self) -> CUmemoryPool {
        self.pool.0
    }
}

const ATTRIBUTES: [Attribute; 11] = [
    Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
    Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER,
    Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID,
    Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
    Attribute::CU_POINTER_ATTRIBUTE_MAPPED,
    Attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
    Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
];

impl Context {
    /// `cuPointerGetAttributes()`—What the driver knows of any address, of a device or of the host.
    ///
    /// # Errors
    ///
    /// What the call answers. An address that it does not know is no error.
    #[doc(alias = "cuPointerGetAttribute")]
    #[doc(alias = "cuPointerGetAttributes")]
    pub fn pointer_attributes(&self, address: CUdeviceptr) -> Result<PointerAttributes> {
        let mut attributes = ATTRIBUTES;
        // Each attribute has a type of its own, of 8 bytes at most; the rest stays 0.
        let mut values = [0_u64; ATTRIBUTES.len()];
        let mut places = values
            .each_mut()
            .map(|value| ptr::from_mut(value).cast::<c_void>());
        let _current = self.enter()?;
        // SAFETY: there must be as many places as attributes, each writable for its type ← both are
        // of one length, and no type is longer than a `u64`. The address is looked up and not
        // followed.
        unsafe {
            call!(
                self.driver(),
                cuPointerGetAttributes(
                    ATTRIBUTES.len() as c_uint,
                    attributes.as_mut_ptr(),
                    places.as_mut_ptr(),
                    address
                )
            )
        }?;
        let [
            memory_type,
            ordinal,
            device_address,
            host_address,
            range_start,
            range_bytes,
            buffer_id,
            managed,
            mapped,
            context,
            pool,
        ] = values;
        // What is shorter lies in the lower half, on every machine that has a CUDA driver.
        let low = |value: u64| value as u32;
        let memory_type = low(memory_type);
        let is_known = memory_type != 0;
        Ok(PointerAttributes {
            memory_type: is_known.then_some(MemoryType(memory_type)),
            // Negative if there is none.
            device_ordinal: Some(low(ordinal)).filter(|ordinal| is_known && *ordinal >> 31 == 0),
            device_address,
            host_address,
            range_start,
            range_bytes: usize::try_from(range_bytes).unwrap_or(usize::MAX),
            buffer_id,
            is_managed: low(managed) != 0,
            is_mapped: low(mapped) != 0,
            context: SendPtr(ptr::without_provenance_mut(context as usize)),
            pool: SendPtr(ptr::without_provenance_mut(pool as usize)),
        })
    }
}

impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuPointerGetAttributes()`—What the driver knows of the address of the first element.
    ///
    /// # Errors
    ///
    /// What the call answers.
    pub fn pointer_attributes(&self) -> Result<PointerAttributes> {
        let context = self.memory.home().context();
        context.pointer_attributes(self.as_raw())
    }
}
