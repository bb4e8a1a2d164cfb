//! Calls that cannot share memory or events, and what they return.

use std::time::{Duration, Instant};

use cuda_driver::error::Status;
use cuda_driver::event::IpcEventHandle;
use cuda_driver::memory::{
    CachingPool, ImportedPool, IpcMemoryHandle, MemoryHandle, MemoryPool, PhysicalKind,
    PhysicalMemory, PoolPointer, Reservation, ShareableHandle, Unpooled,
};
use cuda_driver::prelude::*;
use cuda_driver::stream::WaitCondition;
use cuda_sys::CUmemPoolPtrExportData;

use crate::other_api::borrow;
use crate::support::{block, everywhere, filled, has_virtual_memory, late, software, unpooled};
use cuda_sim::Builder;

fn status<T>(result: cuda_driver::Result<T>) -> Option<Status> {
    match result.err()? {
        cuda_driver::Error::Driver(error) => Some(error.status()),
        error => panic!("{error:?}"),
    }
}

const INVALID: Option<Status> = Some(Status::CUDA_ERROR_INVALID_VALUE);

#[test]
fn only_memory_for_sharing_is_exported() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let device = fixture.context.device();
        let pool = MemoryPool::new(device).unwrap();
        assert_eq!(status(pool.export()), INVALID, "{}", fixture.name);
        let private = DeviceBuffer::from_host_in(&pool, &stream, &[1_u32]).unwrap();
        assert_eq!(status(private.export()), INVALID);
        assert_eq!(status(filled(&stream, 4, 1).export()), INVALID);
        let cached = CachingPool::new(&fixture.context);
        let empty = DeviceBuffer::<u32>::zeroed(&stream, 0).unwrap();
        let cached = DeviceBuffer::from_host_in(&cached, &stream, &[1_u32]).unwrap();
        for buffer in [cached, empty] {
            let error = buffer.export().unwrap_err().to_string();
            assert!(error.contains("`MemoryPool`"), "{error}");
        }
        let pool = MemoryPool::exportable(device).unwrap();
        let early = DeviceBuffer::from_host_in(&pool, &stream, &[1_u32]).unwrap();
        let address = early.as_raw();
        let mut raw = CUmemPoolPtrExportData { reserved: [0; 64] };
        let library = fixture.context.driver().library();
        // SAFETY: the pointer is to a local variable, and the memory is alive.
        let found = unsafe { library.cuMemPoolExportPointer(&raw mut raw, address) };
        assert_eq!(Some(found), INVALID, "{}", fixture.name);
        let error = early.export().unwrap_err().to_string();
        assert!(error.contains("`MemoryPool::export`"), "{error}");
        let descriptor = pool.export().unwrap();
        let later = DeviceBuffer::from_host_in(&pool, &stream, &[2_u32]).unwrap();
        let later = later.export().unwrap();
        // SAFETY: no other process has received the handle.
        drop((unsafe { later.reclaim() }, descriptor));
        if has_virtual_memory(&fixture.context) {
            let kind = PhysicalKind::of_device(device);
            let memory = PhysicalMemory::new(&kind, 1).unwrap();
            assert_eq!(status(memory.export()), INVALID);
        }
        let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING).unwrap();
        assert!(event.ipc_handle().is_err());
    }
}

#[test]
fn other_bytes_and_files_are_not_imported() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let device = fixture.context.device();
    let file = ShareableHandle::from(tempfile::tempfile().unwrap());
    // SAFETY: the software device checks what a descriptor and a handle are.
    let refused = unsafe { ImportedPool::import(device, borrow(&file)) };
    assert_eq!(status(refused), INVALID);
    if has_virtual_memory(&fixture.context) {
        let kind = PhysicalKind::of_device(device).exportable();
        let granularity = kind.granularity().unwrap();
        // SAFETY: as above.
        let refused = unsafe { PhysicalMemory::import(&kind, borrow(&file), granularity) };
        assert_eq!(status(refused), INVALID);
        // SAFETY: as above.
        let odd = unsafe { PhysicalMemory::import(&kind, borrow(&file), granularity + 1) };
        assert!(odd.unwrap_err().to_string().contains("multiple"));
    }
    // SAFETY: as above.
    let refused =
        unsafe { Event::open_ipc(&fixture.context, &IpcEventHandle::from_bytes([1; 64])) };
    assert_eq!(status(refused), INVALID);
    let handle = IpcMemoryHandle::from_bytes([1; 64]);
    // SAFETY: as above.
    let refused = unsafe { handle.open::<u32>(&stream, 0, 1) };
    assert_eq!(status(refused), INVALID);
    // SAFETY: as above.
    let empty = unsafe { handle.open::<u32>(&stream, 0, 0) };
    assert!(empty.unwrap_err().to_string().contains("0 bytes"));

    let pools = [(); 2].map(|()| MemoryPool::exportable(device).unwrap());
    let [one, two] = pools.each_ref().map(|pool| {
        let descriptor = pool.export().unwrap();
        // SAFETY: the descriptor is that of a pool.
        unsafe { ImportedPool::import(device, borrow(&descriptor)) }.unwrap()
    });
    let mut buffer = DeviceBuffer::from_host_in(&pools[0], &stream, &[7_u32; 5]).unwrap();
    buffer.set_zero().unwrap();
    let mut buffer = buffer.export().unwrap();
    buffer.slice_mut(1..).unwrap().fill(3).unwrap();
    buffer
        .as_mut_slice()
        .slice_mut(..1)
        .unwrap()
        .fill(4)
        .unwrap();
    stream.synchronize().unwrap();
    let MemoryHandle::Pool(pointer) = *buffer.handle() else {
        panic!("{:?}", buffer.handle());
    };
    assert_eq!(PoolPointer::from_bytes(pointer.to_bytes()), pointer);
    // SAFETY: as above.
    let refused = unsafe { two.open::<u32>(&stream, &pointer, 5) };
    assert_eq!(status(refused), INVALID, "another pool");
    // SAFETY: the memory has 5 words, which nothing writes meanwhile.
    let opened = unsafe { one.open::<u32>(&stream, &pointer, 5) }.unwrap();
    assert_eq!(
        opened.to_vec().unwrap(),
        [4, 3, 3, 3, 3],
        "in the same process"
    );
    assert_eq!(one.device(), device);
    opened.close().unwrap();
    stream.synchronize().unwrap();
    // SAFETY: the memory was closed.
    unsafe { buffer.reclaim() }.close().unwrap();
}

#[test]
fn handles_of_this_process_are_refused() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let buffer = DeviceBuffer::from_host_in(&Unpooled, &stream, &[1_u32; 9]).unwrap();
        let buffer = buffer.export().unwrap();
        let MemoryHandle::Ipc(handle) = *buffer.handle() else {
            panic!("{:?}", buffer.handle());
        };
        // SAFETY: the memory has 9 words, and nothing writes them meanwhile.
        let opened = unsafe { handle.open::<u32>(&stream, 0, 9) };
        let memory = status(opened);
        let own_event = Event::interprocess(&fixture.context).unwrap();
        let own = own_event.ipc_handle().unwrap();
        // SAFETY: the event is alive.
        let opened = unsafe { Event::open_ipc(&fixture.context, &own) };
        let event = status(opened);
        println!(
            "{}: note: own memory {memory:?}, own event {event:?}",
            fixture.name
        );
        if fixture.simulator.is_some() {
            let refused = Some(Status::CUDA_ERROR_INVALID_CONTEXT);
            assert_eq!((memory, event), (refused, refused));
        }
        // SAFETY: no other process has opened the memory.
        let buffer = unsafe { buffer.reclaim() };
        assert_eq!(buffer.to_vec().unwrap(), [1; 9]);
    }
}

#[test]
fn physical_memory_is_exported_and_imported() {
    for fixture in everywhere() {
        if !has_virtual_memory(&fixture.context) {
            continue;
        }
        let stream = fixture.stream();
        let kind = PhysicalKind::of_device(fixture.context.device()).exportable();
        let memory = PhysicalMemory::new(&kind, 1).unwrap();
        let addresses = Reservation::new(fixture.context.driver(), 2 * memory.bytes(), 0).unwrap();
        let mut words = addresses
            .map(0, &memory)
            .unwrap()
            .zeroed::<u32>(&stream)
            .unwrap();
        words.slice_mut(3..5).unwrap().fill(9).unwrap();
        stream.synchronize().unwrap();
        let descriptor = memory.export().unwrap();
        // SAFETY: the descriptor is that of the memory, whose size this is.
        let again = unsafe { PhysicalMemory::import(&kind, borrow(&descriptor), memory.bytes()) };
        let again = again.unwrap();
        drop(descriptor);
        let mapping = addresses.map(memory.bytes(), &again).unwrap();
        // The memory outlives the handle and the mapping by which it was created.
        words.close().unwrap();
        drop(memory);
        // SAFETY: all elements were written.
        let same = unsafe { mapping.into_buffer::<u32>(&stream) }.unwrap();
        assert_eq!(same.slice(2..6).unwrap().to_vec().unwrap(), [0, 9, 9, 0]);
        same.close().unwrap();
    }
}

#[test]
fn waits_end_at_their_limit() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let flag = unpooled(&stream, &[0_u32]);
        let other = fixture.stream();
        let release = block(&other);
        let limit = Duration::from_millis(30);
        stream
            .wait_value(&flag, 0, WaitCondition::EQUAL, 1)
            .unwrap();
        let event = stream.record_event().unwrap();
        let start = Instant::now();
        assert!(!event.synchronize_timeout(limit).unwrap());
        assert!(!stream.synchronize_timeout(limit).unwrap());
        assert!(!other.synchronize_timeout(limit).unwrap());
        let time = start.elapsed();
        assert!(time >= 3 * limit && time < 40 * limit, "{time:?}");
        drop(release);
        fixture.stream().write_value(&flag, 0, 1).unwrap();
        let limit = Duration::from_secs(10);
        assert!(stream.synchronize_timeout(limit).unwrap());
        assert!(event.synchronize_timeout(limit).unwrap());
        assert!(other.synchronize_timeout(limit).unwrap());
    }
}

#[test]
fn dropping_an_exported_buffer_keeps_its_memory() {
    for builder in [Builder::new(), late(8)] {
        let fixture = software(builder);
        let (stream, other) = (fixture.stream(), fixture.stream());
        let device = fixture.context.device();
        let pool = MemoryPool::exportable(device).unwrap();
        let descriptor = pool.export().unwrap();
        // SAFETY: the descriptor is that of a pool.
        let imported = unsafe { ImportedPool::import(device, borrow(&descriptor)) }.unwrap();
        let opened: Vec<_> = (1..5)
            .map(|value| {
                let words = vec![value; 1000];
                let buffer = DeviceBuffer::from_host_in(&pool, &stream, &words).unwrap();
                let buffer = buffer.export().unwrap();
                let MemoryHandle::Pool(pointer) = *buffer.handle() else {
                    panic!("{:?}", buffer.handle());
                };
                stream.synchronize().unwrap();
                // SAFETY: the memory has 1000 words, which nothing writes, and is never freed.
                unsafe { imported.open::<u32>(&other, &pointer, 1000) }.unwrap()
            })
            .collect();
        drop((pool, stream));
        let stream = fixture.stream();
        let others: Vec<_> = (0..8).map(|_| filled(&stream, 1000, 99)).collect();
        stream.synchronize().unwrap();
        for (value, buffer) in (1..).zip(&opened) {
            assert_eq!(buffer.to_vec().unwrap(), vec![value; 1000]);
        }
        drop(others);
    }
}
