//! Device memory that this program exports and imports as memory of another API.
//!
//! A GPU runs these tests too. Its driver may refuse to import its own memory in this way, which is
//! reported as a skipped test.

use cuda_driver::error::{Error, RangeError, Status};
use cuda_driver::memory::{
    ExternalMemory, ExternalMemoryFlags, GrowableBuffer, PhysicalKind, PhysicalMemory, Reservation,
    ShareableHandle, Unpooled,
};
use cuda_driver::prelude::*;
use cuda_driver::texture::{ArrayFlags, ArrayShape};
use cuda_sim::Builder;

use crate::support::{Fixture, everywhere, has_virtual_memory, skipped, software};

/// The elements of a page of the host.
const N: usize = 1024;

/// Fills `len` words from this side and from the imported one, and expects each on the other.
fn exchange(
    fixture: &Fixture,
    own: &mut DeviceBuffer<u32>,
    offset: usize,
    memory: &ExternalMemory,
) {
    let (stream, name) = (fixture.stream(), &fixture.name);
    let mut other = memory.map::<u32>(&stream, 0, memory.bytes() / 4).unwrap();
    let len = other.len();
    own.fill(11).unwrap();
    fixture.context.synchronize().unwrap();
    assert_eq!(other.to_vec().unwrap(), vec![11; len], "{name}");
    other.fill(22).unwrap();
    fixture.context.synchronize().unwrap();
    let words = own.to_vec().unwrap();
    assert_eq!(words[offset..offset + len], vec![22; len], "{name}");
    assert!(words[..offset].iter().all(|word| *word == 11), "{name}");
    assert!(
        words[offset + len..].iter().all(|word| *word == 11),
        "{name}"
    );
    other.close().unwrap();
}

/// Returns the imported memory, or reports that the driver of a GPU refuses it.
fn imported(
    fixture: &Fixture,
    result: cuda_driver::Result<ExternalMemory>,
    what: &str,
) -> Option<ExternalMemory> {
    match result {
        Ok(memory) => {
            println!("{}: {what} was imported", fixture.name);
            Some(memory)
        }
        Err(error) => {
            assert!(fixture.simulator.is_none(), "{what}: {error}");
            skipped(&format!(
                "{}: {what} is not imported: {error}",
                fixture.name
            ));
            None
        }
    }
}

#[test]
fn exported_physical_memory_is_external_memory() {
    for fixture in everywhere() {
        if !has_virtual_memory(&fixture.context) {
            continue;
        }
        let stream = fixture.stream();
        let kind = PhysicalKind::of_device(fixture.context.device()).exportable();
        let bytes = kind.granularity().unwrap();
        let physical = PhysicalMemory::new(&kind, bytes).unwrap();
        let reservation = Reservation::new(fixture.context.driver(), bytes, 0).unwrap();
        let mapping = reservation.map(0, &physical).unwrap();
        let mut own = mapping.zeroed::<u32>(&stream).unwrap();
        let handle = physical.export().unwrap();
        let (context, flags) = (&fixture.context, ExternalMemoryFlags::empty());
        // SAFETY: the handle must be one of memory of this size, all of it written, and accesses
        // must not overlap ← it was exported just now, and `exchange` waits between them.
        let result = unsafe { ExternalMemory::import(context, handle, bytes, flags) };
        if let Some(memory) = imported(&fixture, result, "exported physical memory") {
            exchange(&fixture, &mut own, 0, &memory);
        }
        let words = own.to_vec().unwrap();
        assert!([0, 11, 22].contains(&words[0]), "{}", words[0]);
    }
}

#[test]
fn exported_physical_memory_holds_an_array() {
    for fixture in everywhere() {
        if !has_virtual_memory(&fixture.context) {
            continue;
        }
        let (stream, name) = (fixture.stream(), &fixture.name);
        let kind = PhysicalKind::of_device(fixture.context.device()).exportable();
        let bytes = kind.granularity().unwrap();
        let physical = PhysicalMemory::new(&kind, bytes).unwrap();
        let handle = physical.export().unwrap();
        let (context, flags) = (&fixture.context, ExternalMemoryFlags::empty());
        // SAFETY: the handle must be one of memory of this size, written before it is read ← it was
        // exported just now, and is used through the array only.
        let result = unsafe { ExternalMemory::import(context, handle, bytes, flags) };
        let Some(memory) = imported(&fixture, result, "exported physical memory") else {
            continue;
        };
        let (shape, flags) = (ArrayShape::two_d(64, 32), ArrayFlags::SURFACE);
        // SAFETY: the memory must hold an image of this shape ← no other code reads it, so any
        // layout is right, and it is larger than any layout of this image.
        let mapped = unsafe { memory.map_array::<u32>(&stream, .., &shape, flags) };
        let mut array = match mapped {
            Ok(array) => array,
            Err(error) => {
                assert!(fixture.simulator.is_none(), "{error}");
                skipped(&format!(
                    "{name}: the memory is not mapped as an array: {error}"
                ));
                continue;
            }
        };
        let words: Vec<u32> = (0..64 * 32).map(|i| i * 7919 % 1_000_003).collect();
        array.copy_from_host(&words).unwrap();
        assert_eq!(array.to_vec().unwrap(), words, "{name}");
        let part = array.region(3..7, 5..6, ..).unwrap();
        let row = &words[5 * 64 + 3..5 * 64 + 7];
        assert_eq!(part.to_vec().unwrap(), row, "{name}");
        drop(array);
        // The bytes are free again.
        memory.map::<u32>(&stream, 0, 1).unwrap().close().unwrap();
        memory.close().unwrap();
    }
}

/// Imports a descriptor of `bytes` bytes.
fn of_dma_buf(
    fixture: &Fixture,
    handle: ShareableHandle,
    bytes: usize,
) -> cuda_driver::Result<ExternalMemory> {
    let (context, flags) = (&fixture.context, ExternalMemoryFlags::empty());
    // SAFETY: the descriptor must be that of memory of this size, all of it written, and accesses
    // must not overlap ← the tests pass such descriptors, and `exchange` waits between accesses.
    unsafe { ExternalMemory::import_dma_buf(context, handle, bytes, flags) }
}

#[test]
fn dma_buf_of_a_buffer_is_external_memory() {
    for fixture in everywhere() {
        let (stream, name) = (fixture.stream(), &fixture.name);
        // 2 MiB and more, so that the range below is in the buffer on any page size.
        let mut own = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 1 << 20).unwrap();
        own.stream().synchronize().unwrap();
        let start = own.as_slice().as_raw();
        // The pages of some hosts have 64 KiB.
        let first = (start.next_multiple_of(1 << 16) - start) as usize / 4;
        let part = own.slice(first..first + 64 * N).unwrap();
        if !fixture.context.device().has_dma_buf().unwrap() {
            let error = part.export_dma_buf().unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            skipped(&format!("{name}: the device has no dma-buf"));
            continue;
        }
        let handle = match part.export_dma_buf() {
            Ok(handle) => handle,
            Err(error) if fixture.simulator.is_none() => {
                skipped(&format!(
                    "{name}: memory is not exported as a dma-buf: {error}"
                ));
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let result = of_dma_buf(&fixture, handle, 256 * N);
        if let Some(memory) = imported(&fixture, result, "a dma-buf") {
            exchange(&fixture, &mut own, first, &memory);
        }
    }
}

#[test]
fn dma_buf_of_part_of_a_page_is_refused() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let own = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 1 << 20).unwrap();
        let start = own.as_slice().as_raw();
        let first = (start.next_multiple_of(4096) - start) as usize / 4;
        let refusal = |from: usize, to: usize| {
            let part = own.slice(first + from..first + to).unwrap();
            part.export_dma_buf().unwrap_err()
        };
        for (from, to) in [(1, N + 1), (0, N - 1)] {
            let error = refusal(from, to);
            let Error::OutOfRange(range) = &error else {
                panic!("{error}");
            };
            let is_multiple = matches!(**range, RangeError::NotMultiple { of: 4096, .. });
            assert!(is_multiple, "{error}");
        }
        let error = refusal(0, 0);
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
}

#[test]
fn dma_buf_of_pool_memory_and_larger_sizes_is_refused() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let pooled = DeviceBuffer::<u32>::zeroed(&stream, 4 * N).unwrap();
    let start = pooled.as_slice().as_raw();
    let first = (start.next_multiple_of(4096) - start) as usize / 4;
    let part = pooled.slice(first..first + N).unwrap();
    let error = part.export_dma_buf().unwrap_err();
    let Error::Driver(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.status(), Status::CUDA_ERROR_INVALID_VALUE);
    let mut mapped = GrowableBuffer::<u32>::new(&stream, N).unwrap();
    mapped.grow_to(N).unwrap();
    let handle = mapped.as_slice().export_dma_buf().unwrap();
    let error = of_dma_buf(&fixture, handle, 1 << 40).unwrap_err();
    let Error::Driver(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.status(), Status::CUDA_ERROR_INVALID_VALUE);
}
