//! Pointer queries: `cuPointerGetAttribute`.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{CUcontext, CUdeviceptr, CUmemoryPool, CUmemorytype, CUpointer_attribute};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::pointer;
use crate::driver::objects::memory::Kind;
use crate::driver::status::{INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::memory::shared_file;

exports! {
    cuPointerGetAttribute => pointer_get_attribute;
    cuPointerGetAttributes => pointer_get_attributes;
    cuPointerSetAttribute => pointer_set_attribute;
}

/// The properties of the memory at an address.
struct MemoryProperties {
    start: u64,
    size: u64,
    context: u64,
    device: usize,
    id: u64,
    is_host: bool,
    is_managed: bool,
    sync_mem_ops: bool,
    pool: Option<u64>,
    /// Whether `cuIpcGetMemHandle` takes it.
    has_ipc: bool,
    /// The types of handles by which it can be exported.
    handle_types: u32,
}

impl Call {
    /// Returns whether stream memory operations accept memory at this address. They accept neither
    /// memory of a pool nor managed memory, as observed with driver 580.
    pub(in crate::driver) fn takes_mem_ops(&self, ptr: u64) -> bool {
        self.known(ptr)
            .is_none_or(|known| known.pool.is_none() && !known.is_managed)
    }

    fn known(&self, ptr: u64) -> Option<MemoryProperties> {
        let listed = self.find_allocation(ptr, |start, allocation| MemoryProperties {
            start,
            size: allocation.size,
            context: allocation.context,
            device: allocation.device.ordinal,
            id: allocation.id,
            is_host: allocation.kind.is_host(),
            is_managed: matches!(allocation.kind, Kind::Managed(..) | Kind::ManagedPool(..)),
            sync_mem_ops: allocation.sync_mem_ops,
            pool: match &allocation.kind {
                Kind::Pool(pool) | Kind::HostPool(pool) | Kind::ManagedPool(pool, _) => {
                    Some(pool.handle)
                }
                _ => None,
            },
            has_ipc: shared_file::EXISTS
                && matches!(allocation.kind, Kind::Device)
                && allocation.imported.is_none(),
            handle_types: match &allocation.kind {
                Kind::Pool(pool) => pool.handle_types,
                _ => 0,
            },
        });
        let mapped = || {
            let mapped = self.virtual_memory.mapped(ptr)?;
            Some(MemoryProperties {
                start: mapped.start,
                size: mapped.size,
                context: 0,
                device: mapped.device.unwrap_or(0),
                id: mapped.id,
                is_host: mapped.device.is_none(),
                is_managed: false,
                sync_mem_ops: false,
                pool: None,
                has_ipc: false,
                handle_types: mapped.handle_types,
            })
        };
        // The variables of modules are not in the list of allocations.
        listed.or_else(mapped).or_else(|| {
            self.devices.iter().find_map(|device| {
                let (start, size) = device.arena.allocation(ptr)?;
                Some(MemoryProperties {
                    start,
                    size,
                    context: 0,
                    device: device.ordinal,
                    id: start,
                    is_host: false,
                    is_managed: false,
                    sync_mem_ops: false,
                    pool: None,
                    has_ipc: false,
                    handle_types: 0,
                })
            })
        })
    }

    fn pointer_get_attribute(
        &self,
        data: Out<c_void>,
        attribute: CUpointer_attribute,
        ptr: CUdeviceptr,
    ) -> Status {
        type A = CUpointer_attribute;
        data.required()?;
        let known = self.known(ptr);
        if attribute == A::CU_POINTER_ATTRIBUTE_MAPPED {
            return data.typed::<c_int>().set(c_int::from(known.is_some()));
        }
        let known = known.ok_or(INVALID_VALUE)?;
        let flag = |on: bool| data.typed::<c_int>().set(c_int::from(on));
        match attribute {
            A::CU_POINTER_ATTRIBUTE_CONTEXT => {
                data.typed::<CUcontext>().set(pointer(known.context))
            }
            A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => data.typed().set(if known.is_host {
                CUmemorytype::CU_MEMORYTYPE_HOST
            } else {
                CUmemorytype::CU_MEMORYTYPE_DEVICE
            }),
            A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => data.typed::<CUdeviceptr>().set(ptr),
            // The host has no access to virtual memory, wherever it is.
            A::CU_POINTER_ATTRIBUTE_HOST_POINTER
                if (known.is_host || known.is_managed) && !self.virtual_memory.contains(ptr) =>
            {
                data.typed::<u64>().set(ptr)
            }
            A::CU_POINTER_ATTRIBUTE_HOST_POINTER => Err(INVALID_VALUE),
            A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => flag(known.has_ipc),
            A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => flag(known.sync_mem_ops),
            A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
            | A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => flag(false),
            A::CU_POINTER_ATTRIBUTE_BUFFER_ID => data.typed::<c_ulonglong>().set(known.id),
            A::CU_POINTER_ATTRIBUTE_IS_MANAGED => flag(known.is_managed),
            A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
                data.typed::<c_int>().set(known.device as c_int)
            }
            A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => data.typed::<u64>().set(known.start),
            A::CU_POINTER_ATTRIBUTE_RANGE_SIZE => data.typed::<usize>().set(known.size as usize),
            A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => {
                data.typed::<c_ulonglong>().set(known.handle_types.into())
            }
            // CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
            A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => data.typed::<c_int>().set(3),
            A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => data
                .typed::<CUmemoryPool>()
                .set(pointer(known.pool.unwrap_or(0))),
            A::CU_POINTER_ATTRIBUTE_P2P_TOKENS => Err(NOT_SUPPORTED),
            _ => Err(INVALID_VALUE),
        }
    }

    /// `cuPointerGetAttributes()`—An attribute that does not apply to the pointer is 0 and not an
    /// error.
    fn pointer_get_attributes(
        &self,
        count: c_uint,
        attributes: Out<CUpointer_attribute>,
        data: Out<*mut c_void>,
        ptr: CUdeviceptr,
    ) -> Status {
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        for index in 0..count as usize {
            let attribute = attributes.get_at(index)?;
            let place = data.get_at(index)?;
            // SAFETY: `place` must be valid for a value of the attribute ← the contract of this
            // function for each element of `data`.
            let place = unsafe { crate::driver::arg::Arg::wrap(place) };
            if self.pointer_get_attribute(place, attribute, ptr).is_err() {
                self.no_attribute(place, attribute)?;
            }
        }
        Ok(())
    }

    fn no_attribute(&self, place: Out<c_void>, attribute: CUpointer_attribute) -> Status {
        type A = CUpointer_attribute;
        match attribute {
            A::CU_POINTER_ATTRIBUTE_CONTEXT
            | A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER
            | A::CU_POINTER_ATTRIBUTE_HOST_POINTER
            | A::CU_POINTER_ATTRIBUTE_BUFFER_ID
            | A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
            | A::CU_POINTER_ATTRIBUTE_RANGE_SIZE
            | A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES
            | A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => place.typed::<u64>().set(0),
            A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => place.typed::<c_int>().set(-2),
            A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE
            | A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
            | A::CU_POINTER_ATTRIBUTE_IS_MANAGED
            | A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => place.typed::<c_int>().set(0),
            _ => Err(INVALID_VALUE),
        }
    }

    fn pointer_set_attribute(
        &self,
        value: In<c_void>,
        attribute: CUpointer_attribute,
        ptr: CUdeviceptr,
    ) -> Status {
        let on = value.typed::<c_uint>().get()? != 0;
        self.known(ptr).ok_or(INVALID_VALUE)?;
        if attribute != CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS {
            return Err(INVALID_VALUE);
        }
        let mut allocations = self.allocations();
        let allocation = allocations.range_mut(..=ptr).next_back();
        let found = allocation.filter(|(start, it)| ptr - **start < it.size.max(1));
        match found {
            Some((_, allocation)) => allocation.sync_mem_ops = on,
            // Virtual memory and the variables of modules.
            None if on => return Err(NOT_SUPPORTED),
            None => {}
        }
        Ok(())
    }
}
