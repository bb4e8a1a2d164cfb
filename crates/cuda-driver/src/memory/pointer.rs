//! Pointer attributes: what the driver knows about an address.
//!
//! C queries each attribute through an untyped pointer. Here one call returns all of them in a
//! struct.

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
use crate::types::SendPtr;

/// The kind of memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryType(pub u32);

impl MemoryType {
    /// Page-locked or registered host memory.
    pub const HOST: Self = Self(CUmemorytype::CU_MEMORYTYPE_HOST.0);
    /// Device memory. The driver also reports managed memory as device memory.
    pub const DEVICE: Self = Self(CUmemorytype::CU_MEMORYTYPE_DEVICE.0);
    /// A CUDA array.
    pub const ARRAY: Self = Self(CUmemorytype::CU_MEMORYTYPE_ARRAY.0);
    /// Unified memory, which may be on the host or on a device.
    pub const UNIFIED: Self = Self(CUmemorytype::CU_MEMORYTYPE_UNIFIED.0);
}

/// The attributes of an address. Returned by [`Context::pointer_attributes`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PointerAttributes {
    /// The kind of memory, or `None` if the driver does not know the address.
    pub memory_type: Option<MemoryType>,
    /// The ordinal of the device on which the memory was allocated or registered.
    pub device_ordinal: Option<u32>,
    /// The address that kernels use, or 0 if kernels cannot access the memory.
    pub device_address: CUdeviceptr,
    /// The address that the host uses, or 0 if the host cannot access the memory.
    pub host_address: u64,
    /// The start address of the allocation.
    pub range_start: CUdeviceptr,
    /// The size of the allocation in bytes.
    pub range_bytes: usize,
    /// An identifier of the allocation that is unique in the process and never reused.
    pub buffer_id: u64,
    /// Whether the memory is managed.
    pub is_managed: bool,
    /// Whether the address is mapped to memory.
    pub is_mapped: bool,
    context: SendPtr<CUctx_st>,
    pool: SendPtr<CUmemPoolHandle_st>,
}

impl PointerAttributes {
    /// Returns the raw context in which the memory was allocated or registered. The pointer is null
    /// if the memory belongs to no context, as memory of a pool does.
    #[must_use]
    pub fn context_as_raw(&self) -> CUcontext {
        self.context.0
    }

    /// Returns the raw pool that the memory was allocated from, or null if it was not allocated
    /// from a pool.
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

/// Raw addresses.
impl Context {
    /// `cuPointerGetAttributes()`—Returns what the driver knows about a device or host address.
    ///
    /// An unknown address is not an error: [`PointerAttributes::memory_type`] is then `None`.
    #[doc(alias = "cuPointerGetAttribute")]
    #[doc(alias = "cuPointerGetAttributes")]
    #[doc(alias = "cudaPointerGetAttributes")]
    pub fn pointer_attributes(&self, address: CUdeviceptr) -> Result<PointerAttributes> {
        let mut attributes = ATTRIBUTES;
        // Each attribute has its own type, of at most 8 bytes. Bytes that the driver does not write
        // stay 0.
        let mut values = [0_u64; ATTRIBUTES.len()];
        let mut places = values
            .each_mut()
            .map(|value| ptr::from_mut(value).cast::<c_void>());
        let _current = self.enter()?;
        // SAFETY: `places` must have one pointer for each attribute, writable for the attribute's
        // type ← both arrays have the same length, and no attribute type is longer than a `u64`.
        // The driver looks the address up and does not dereference it.
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
        // A value shorter than 8 bytes is in the lower half: every platform with a CUDA driver is
        // little-endian.
        let low = |value: u64| value as u32;
        let memory_type = low(memory_type);
        let is_known = memory_type != 0;
        Ok(PointerAttributes {
            memory_type: is_known.then_some(MemoryType(memory_type)),
            // The ordinal is negative if the memory belongs to no device.
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

/// Attributes of the memory.
impl<T: DeviceRepr> DeviceSlice<'_, T> {
    /// `cuPointerGetAttributes()`—Returns what the driver knows about the address of the first
    /// element.
    pub fn pointer_attributes(&self) -> Result<PointerAttributes> {
        let context = self.memory.owning_stream().context();
        context.pointer_attributes(self.as_raw())
    }
}
