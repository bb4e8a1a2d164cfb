//! Pointer attributes that the driver reports.

use std::ptr;

use cuda_driver::memory::MemoryType;
use cuda_driver::prelude::*;
use cuda_sys::CUmemAttach_flags;

use crate::support::everywhere;

#[test]
fn buffer_address_is_of_its_device_and_allocation() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000).unwrap();
        stream.synchronize().unwrap();
        let whole = buffer.as_slice().pointer_attributes().unwrap();
        assert_eq!(whole.memory_type, Some(MemoryType::DEVICE));
        assert_eq!(
            whole.device_ordinal,
            Some(fixture.context.device().ordinal()),
            "{}",
            fixture.name
        );
        assert_eq!(whole.device_address, buffer.as_raw());
        assert_eq!(whole.host_address, 0);
        assert!(!whole.is_managed);
        assert!(whole.is_mapped);
        // If the device has memory pools, buffers are stream-ordered allocations from a pool.
        let has_pools = fixture.context.device().has_memory_pools().unwrap();
        assert_eq!(
            !whole.pool_as_raw().is_null(),
            has_pools,
            "{}",
            fixture.name
        );
        let (start, end) = (
            whole.range_start,
            whole.range_start + whole.range_bytes as u64,
        );
        assert!(start <= buffer.as_raw() && buffer.as_raw() + 4000 <= end);
        // An address in the middle belongs to the same allocation.
        let rest = buffer.slice(500..).unwrap().pointer_attributes().unwrap();
        assert_eq!(rest.device_address, buffer.as_raw() + 2000);
        assert_eq!((rest.range_start, rest.buffer_id), (start, whole.buffer_id));
        let other = DeviceBuffer::<u32>::zeroed(&stream, 1000).unwrap();
        let other = other.as_slice().pointer_attributes().unwrap();
        assert_ne!(other.buffer_id, whole.buffer_id);
    }
}

#[test]
fn an_address_of_pinned_memory_is_of_the_host() {
    for fixture in everywhere() {
        let pinned =
            PinnedBuffer::<u64>::zeroed(&fixture.context, 100, PinnedFlags::DEVICE_MAP).unwrap();
        let address = pinned.as_ptr().addr() as u64;
        let attributes = fixture.context.pointer_attributes(address).unwrap();
        assert_eq!(attributes.memory_type, Some(MemoryType::HOST));
        assert_eq!(attributes.host_address, address);
        assert_eq!(attributes.device_address, pinned.device_address().unwrap());
        assert_eq!(attributes.context_as_raw(), fixture.context.as_raw());
        assert!(attributes.pool_as_raw().is_null());
        assert!(!attributes.is_managed);
        assert!(attributes.range_bytes >= 800);
    }
}

#[test]
fn an_address_of_managed_memory_is_of_both() {
    for fixture in everywhere() {
        let driver = fixture.context.driver().library();
        let _current = fixture.context.make_current().unwrap();
        let mut address = 0;
        let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
        // SAFETY: the pointer is to a local.
        let status = unsafe { driver.cuMemAllocManaged(&raw mut address, 4096, flags) };
        assert!(status.is_success());
        let attributes = fixture.context.pointer_attributes(address + 8).unwrap();
        assert!(attributes.is_managed, "{}", fixture.name);
        assert_eq!(attributes.range_start, address);
        assert_eq!(attributes.device_address, address + 8);
        assert_eq!(attributes.host_address, address + 8);
        // SAFETY: the memory was allocated above and is not in use.
        let status = unsafe { driver.cuMemFree_v2(address) };
        assert!(status.is_success());
    }
}

#[test]
fn unknown_addresses_are_reported_without_an_error() {
    for fixture in everywhere() {
        let local = 5_u32;
        for address in [ptr::from_ref(&local).addr() as u64, 0, 64] {
            let attributes = fixture.context.pointer_attributes(address).unwrap();
            assert_eq!(
                attributes.memory_type, None,
                "{}: {address:#x}",
                fixture.name
            );
            assert_eq!(attributes.device_ordinal, None);
            assert_eq!(attributes.range_bytes, 0);
            assert!(!attributes.is_managed);
        }
    }
}
