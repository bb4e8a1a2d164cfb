//! Physical memory, address reservations and mappings.

use std::sync::Arc;

use cuda_driver::error::RangeError;
use cuda_driver::memory::{
    MemoryAccess, MemoryLocation, MemoryType, PhysicalKind, PhysicalMemory, Reservation,
};
use cuda_driver::prelude::*;
use cuda_driver::{Error, error::Status};
use cuda_sim::Builder;

use crate::support::{
    COPY, Fixture, assert_all, everywhere, filled, has_virtual_memory, late, launch_copy, software,
};

/// Returns the fixtures of [`everywhere`] whose device has virtual memory.
fn devices() -> impl Iterator<Item = Fixture> {
    everywhere().filter(|fixture| has_virtual_memory(&fixture.context))
}

fn device_memory(context: &Context) -> Arc<PhysicalMemory> {
    PhysicalMemory::new(&PhysicalKind::of_device(context.device()), 1).unwrap()
}

#[test]
fn mapped_memory_is_used_like_any_buffer() {
    let at_once = software(late(5).unmap_waits(false));
    for fixture in devices().chain([at_once]) {
        let (one, two) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let memory = device_memory(&fixture.context);
        let granularity = memory.kind().granularity().unwrap();
        assert_eq!(memory.bytes(), granularity, "the size is rounded up");
        let driver = fixture.context.driver();
        let addresses = Reservation::new(driver, 2 * granularity, 0).unwrap();
        assert_eq!(addresses.bytes(), 2 * granularity);

        let mapping = addresses.map(granularity, &memory).unwrap();
        assert_eq!(mapping.as_raw(), addresses.as_raw() + granularity as u64);
        assert_eq!(mapping.bytes(), granularity);
        assert!(Arc::ptr_eq(mapping.physical_memory(), &memory));
        let mut buffer = mapping.zeroed::<u32>(&one).unwrap();
        assert_eq!(buffer.len(), granularity / 4);
        assert_all(&buffer, 0, &fixture.name);
        buffer.fill(7).unwrap();
        let len = u32::try_from(buffer.len()).unwrap();
        let mut copy = filled(&two, len, 0);
        launch_copy(&kernel, &two, &buffer, &mut copy).unwrap();
        // The drop waits for the kernel on the other stream, and then unmaps the memory.
        drop(buffer);
        assert_all(&copy, 7, &fixture.name);
    }
}

#[test]
fn contents_stay_when_memory_moves_to_another_address() {
    for fixture in devices() {
        let stream = fixture.stream();
        let memory = device_memory(&fixture.context);
        let bytes = memory.bytes();
        let addresses = Reservation::new(fixture.context.driver(), 2 * bytes, bytes).unwrap();
        let mut buffer = addresses.map(0, &memory).unwrap().zeroed(&stream).unwrap();
        buffer.fill(9_u32).unwrap();
        let first = buffer.as_raw();
        buffer.close().unwrap();
        let mapping = addresses.clone().map(bytes, &memory).unwrap();
        // SAFETY: all elements were written above.
        let buffer = unsafe { mapping.into_buffer::<u32>(&stream) }.unwrap();
        assert_eq!(buffer.as_raw(), first + bytes as u64);
        assert_all(&buffer, 9, &fixture.name);
    }
}

#[test]
fn memory_is_mapped_at_most_once() {
    for fixture in devices() {
        let memory = device_memory(&fixture.context);
        let bytes = memory.bytes();
        let addresses = Reservation::new(fixture.context.driver(), 2 * bytes, 0).unwrap();
        let mapping = addresses.map(0, &memory).unwrap();
        let error = addresses.map(bytes, &memory).unwrap_err();
        assert!(matches!(error, Error::StillInUse { .. }), "{error}");
        mapping.close().unwrap();
        drop(addresses.map(bytes, &memory).unwrap());
        // A range that is taken is refused by the driver, and the memory can be mapped afterwards.
        let _first = addresses.map(0, &memory).unwrap();
        let other = device_memory(&fixture.context);
        let error = addresses.map(0, &other).unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
        addresses.map(bytes, &other).unwrap().close().unwrap();
    }
}

#[test]
fn ranges_outside_of_the_reservation_are_refused() {
    for fixture in devices() {
        let memory = device_memory(&fixture.context);
        let bytes = memory.bytes();
        let addresses = Reservation::new(fixture.context.driver(), bytes, 0).unwrap();
        for offset in [bytes, usize::MAX / bytes * bytes] {
            let error = addresses.map(offset, &memory).unwrap_err();
            assert!(matches!(error, Error::OutOfRange(_)), "{error}");
        }
        let error = addresses.map(bytes / 2, &memory).unwrap_err();
        let Error::OutOfRange(range) = &error else {
            panic!("{error}");
        };
        assert!(matches!(**range, RangeError::NotMultiple { given, of, .. }
            if given == bytes / 2 && of == bytes));
        let error = Reservation::new(fixture.context.driver(), 0, 0).unwrap_err();
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
        let kind = PhysicalKind::of_device(fixture.context.device());
        let error = PhysicalMemory::new(&kind, usize::MAX).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
        let error = PhysicalMemory::new(&kind, 1 << 50).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 1 << 50));
    }
}

#[test]
fn access_is_granted_to_each_device() {
    let fixture = software(Builder::new().devices(2));
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let driver = fixture.context.driver();
    let (own, other) = (fixture.context.device(), driver.device(1).unwrap());
    let memory = PhysicalMemory::new(&PhysicalKind::of_device(&other), 1).unwrap();
    let addresses = Reservation::new(driver, memory.bytes(), 0).unwrap();
    let mut mapping = addresses.map(0, &memory).unwrap();
    let access = |mapping: &cuda_driver::memory::Mapping| {
        [own, &other].map(|device| mapping.access(device).unwrap())
    };
    assert_eq!(access(&mapping), [MemoryAccess::None; 2]);
    mapping.set_access(&other, MemoryAccess::ReadWrite).unwrap();
    let granted = [MemoryAccess::None, MemoryAccess::ReadWrite];
    assert_eq!(access(&mapping), granted);
    let error = mapping.set_access(own, MemoryAccess::Read).unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_NOT_SUPPORTED));
    // A buffer on a stream of the first device grants that device access to memory of the second.
    let mut buffer = mapping.zeroed::<u32>(&fixture.stream()).unwrap();
    buffer.fill(3).unwrap();
    assert_all(&buffer, 3, "memory of another device");

    let another = software(Builder::new());
    let there = another.context.device();
    let memory = device_memory(&fixture.context);
    let addresses = Reservation::new(driver, memory.bytes(), 0).unwrap();
    let mapping = addresses.map(0, &memory).unwrap();
    let error = mapping.access(there).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let error = mapping.zeroed::<u32>(&another.stream()).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

#[test]
fn host_memory_is_mapped_for_devices() {
    for fixture in devices() {
        if !fixture.context.device().has_host_virtual_memory().unwrap() {
            continue;
        }
        let stream = fixture.stream();
        let node = fixture.context.device().host_numa_node().unwrap();
        let kind = PhysicalKind::of_host(fixture.context.driver(), node.unwrap_or(0));
        assert!(matches!(kind.location(), MemoryLocation::HostNuma(_)));
        let memory = PhysicalMemory::new(&kind, 1).unwrap();
        assert_eq!(memory.kind(), &kind);
        let addresses = Reservation::new(fixture.context.driver(), memory.bytes(), 0).unwrap();
        let mapping = addresses.map(0, &memory).unwrap();
        let mut buffer = mapping.zeroed::<u32>(&stream).unwrap();
        buffer.fill(5).unwrap();
        assert_all(&buffer, 5, &fixture.name);
        let attributes = buffer.as_slice().pointer_attributes().unwrap();
        assert_eq!(attributes.memory_type, Some(MemoryType::HOST));
    }
}

#[test]
fn compression_is_a_request() {
    for fixture in devices() {
        let device = fixture.context.device();
        let plain = device_memory(&fixture.context);
        assert!(!plain.is_compressible().unwrap());
        let kind = PhysicalKind::of_device(device).compressible();
        let memory = PhysicalMemory::new(&kind, 1).unwrap();
        if memory.is_compressible().unwrap() {
            assert!(device.has_compressible_memory().unwrap());
        }
        assert_ne!(memory.as_raw(), plain.as_raw());
    }
}

#[test]
fn everything_is_released_in_any_order_of_drops() {
    let fixture = software(Builder::new());
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let simulator = fixture.simulator.unwrap();
    for order in 0..4 {
        let stream = crate::support::new_stream(&fixture.context);
        let memory = device_memory(&fixture.context);
        let addresses = Reservation::new(fixture.context.driver(), memory.bytes(), 0).unwrap();
        let mapping = addresses.map(0, &memory).unwrap();
        match order {
            0 => drop((addresses, memory, mapping)),
            1 => drop((mapping, memory, addresses)),
            2 => drop((addresses, mapping.zeroed::<u32>(&stream).unwrap(), memory)),
            _ => {
                // Inside a host function, a worker thread makes the calls.
                let buffer = mapping.zeroed::<u32>(&stream).unwrap();
                let call = stream.launch_host(move || drop((addresses, memory, buffer)));
                call.unwrap().wait().unwrap();
            }
        }
        let start = std::time::Instant::now();
        loop {
            let live = simulator.live();
            if (live.physical, live.address_ranges) == (0, 0) {
                break;
            }
            assert!(start.elapsed().as_secs() < 10, "order {order}: {live}");
            std::thread::yield_now();
        }
    }
}
