//! Pools of page-locked memory of the host and of managed memory.

use std::thread::sleep;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Status};
use cuda_driver::memory::{
    ManagedBatch, ManagedBuffer, MemoryAccess, MemoryLocation, MemoryPool, PoolKind, UninitPinned,
};
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use cuda_sys::CUstreamCaptureMode;

use crate::foreign::borrowed;
use crate::support::{
    COPY, Fixture, assert_all, everywhere_since, gpu, has_version, late, launch_copy, software,
};

const LEN: usize = 1000;

fn host_pool(fixture: &Fixture) -> MemoryPool {
    let device = fixture.context.device();
    MemoryPool::at(&MemoryLocation::Host, PoolKind::Pinned, device).unwrap()
}

fn managed_pool(fixture: &Fixture) -> MemoryPool {
    let device = fixture.context.device();
    let here = MemoryLocation::Device(device.clone());
    MemoryPool::at(&here, PoolKind::Managed, device).unwrap()
}

fn words() -> Vec<u32> {
    (0..LEN as u32).map(|i| i * 7).collect()
}

#[test]
fn pinned_memory_of_a_host_pool_is_copied() {
    for fixture in everywhere_since((13, 0)) {
        let (stream, copies) = (fixture.stream(), fixture.stream());
        let pool = host_pool(&fixture);
        assert_eq!(pool.kind(), PoolKind::Pinned);
        let source = PinnedBuffer::from_host_in_pool(&pool, &stream, &words()).unwrap();
        assert_eq!(source[..], words(), "{}", fixture.name);
        let target = PinnedBuffer::<u32>::zeroed_in_pool(&pool, &stream, LEN).unwrap();
        assert_eq!(target[..], [0; LEN], "{}", fixture.name);
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, LEN).unwrap();
        let up = buffer.copy_from_pinned_async(source, &copies).unwrap();
        // The memory is freed when the copy is complete.
        drop(up);
        let down = buffer.copy_to_pinned_async(target, &copies).unwrap();
        let target = down.wait().unwrap();
        assert_eq!(target[..], words(), "{}", fixture.name);
        drop(target);
        copies.synchronize().unwrap();
        stream.synchronize().unwrap();
        let empty = PinnedBuffer::<u32>::zeroed_in_pool(&pool, &stream, 0).unwrap();
        assert!(empty.is_empty());
        pool.close().unwrap();
    }
}

#[test]
fn kernels_use_memory_of_a_host_pool() {
    for fixture in everywhere_since((13, 0)) {
        let stream = fixture.stream();
        let kernel = fixture.kernel(COPY, "copy");
        let pool = host_pool(&fixture);
        let pinned = PinnedBuffer::from_host_in_pool(&pool, &stream, &words()).unwrap();
        let address = pinned.device_address().unwrap();
        assert_eq!(address, pinned.as_ptr().addr() as u64, "{}", fixture.name);
        let device = fixture.context.device();
        let managed = MemoryPool::at(&MemoryLocation::Host, PoolKind::Managed, device).unwrap();
        // SAFETY: the pinned memory outlives the view, and the host only reads it meanwhile.
        let view: DeviceBuffer<u32> =
            unsafe { DeviceBuffer::from_foreign(&stream, address, LEN, ()) }.unwrap();
        // Host memory that kernels write.
        let mut results = DeviceBuffer::<u32>::zeroed_in(&managed, &stream, LEN).unwrap();
        launch_copy(&kernel, &stream, &view, &mut results).unwrap();
        assert_eq!(results.to_vec().unwrap(), words(), "{}", fixture.name);
    }
}

/// The driver copies the page-locked memory of a host pool as host memory only, unlike that of
/// `cuMemHostAlloc`. `DeviceBuffer` refuses such pools for this reason.
#[test]
fn memory_of_a_host_pool_is_not_copied_as_device_memory() {
    for fixture in everywhere_since((13, 0)) {
        let stream = fixture.stream();
        let pool = host_pool(&fixture);
        let pinned = PinnedBuffer::from_host_in_pool(&pool, &stream, &words()).unwrap();
        let plain =
            PinnedBuffer::from_host(&fixture.context, &words(), PinnedFlags::DEFAULT).unwrap();
        let library = fixture.context.driver().library();
        let (mut to, bytes, raw) = ([0_u32; LEN], 4 * LEN, stream.as_raw());
        let place = to.as_mut_ptr();
        for (buffer, expected) in [
            (&pinned, Status::CUDA_ERROR_INVALID_VALUE),
            (&plain, Status::CUDA_SUCCESS),
        ] {
            let from = buffer.device_address().unwrap();
            // SAFETY: both sides hold the bytes until the stream was waited for.
            let status = unsafe { library.cuMemcpyDtoHAsync_v2(place.cast(), from, bytes, raw) };
            assert_eq!(status, expected, "{}", fixture.name);
            stream.synchronize().unwrap();
        }
        assert_eq!(to[..], words(), "{}", fixture.name);
        to.fill(0);
        let place = to.as_mut_ptr().expose_provenance() as u64;
        let from = pinned.device_address().unwrap();
        // SAFETY: both sides hold the bytes until the stream was waited for.
        let status = unsafe { library.cuMemcpyAsync(place, from, bytes, raw) };
        assert_eq!(status, Status::CUDA_SUCCESS, "{}", fixture.name);
        stream.synchronize().unwrap();
        assert_eq!(to[..], words(), "{}", fixture.name);
    }
}

#[test]
fn a_host_pool_gives_access_to_other_devices() {
    if !has_version((13, 0)) {
        return;
    }
    let software = [Builder::new(), late(1)].map(|it| software(it.devices(2)));
    for fixture in software.into_iter().chain(gpu()) {
        let (pool, stream) = (host_pool(&fixture), fixture.stream());
        let mut pinned = PinnedBuffer::from_host_in_pool(&pool, &stream, &words()).unwrap();
        for device in fixture.context.driver().devices().unwrap() {
            // SAFETY: the call grants access.
            unsafe { pool.set_access(&device, MemoryAccess::ReadWrite) }.unwrap();
            assert_eq!(pool.access(&device).unwrap(), MemoryAccess::ReadWrite);
            let context = device.primary_context().unwrap();
            let there = context.default_stream().unwrap();
            let mut buffer = DeviceBuffer::<u32>::zeroed(&there, LEN).unwrap();
            buffer.copy_from_pinned(&pinned).unwrap();
            pinned.fill(0);
            buffer.copy_to_pinned(&mut pinned).unwrap();
            assert_eq!(pinned[..], words(), "{} {device:?}", fixture.name);
        }
    }
}

#[test]
fn a_host_pool_of_a_numa_node_has_pinned_memory() {
    for fixture in everywhere_since((13, 0)) {
        let stream = fixture.stream();
        let device = fixture.context.device();
        let node = device.host_numa_node().unwrap().unwrap_or(0);
        let node = MemoryLocation::HostNuma(node);
        let pool = MemoryPool::at(&node, PoolKind::Pinned, device).unwrap();
        let pinned = PinnedBuffer::from_host_in_pool(&pool, &stream, &words()).unwrap();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, LEN).unwrap();
        buffer.copy_from_pinned(&pinned).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), words(), "{}", fixture.name);
        let none = MemoryLocation::HostNuma(77);
        let error = MemoryPool::at(&none, PoolKind::Pinned, device).unwrap_err();
        assert!(matches!(error, Error::Driver(_)), "{error}");
    }
}

#[test]
fn managed_memory_of_a_host_pool_alternates() {
    for fixture in everywhere_since((13, 0)) {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let kernel = fixture.kernel(COPY, "copy");
        let pool = managed_pool(&fixture);
        let mut source = ManagedBuffer::<u32>::zeroed_in(&pool, &stream, LEN).unwrap();
        source
            .with_host(|elements| elements.copy_from_slice(&words()))
            .unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed(&other, LEN).unwrap();
        launch_copy(&kernel, &other, &source, &mut target).unwrap();
        drop(source);
        // It may have the memory of the source.
        let mut next = ManagedBuffer::<u32>::zeroed_in(&pool, &stream, LEN).unwrap();
        let zeroes = next.with_host(|elements| elements.to_vec()).unwrap();
        assert_eq!(zeroes, [0; LEN], "{}", fixture.name);
        assert_eq!(target.to_vec().unwrap(), words(), "{}", fixture.name);
        next.close().unwrap();
        assert!(ManagedBuffer::<u32>::zeroed_in(&pool, &stream, 0).is_ok());
    }
}

#[test]
fn the_host_pool_of_a_location_can_be_replaced() {
    for fixture in everywhere_since((13, 0)) {
        let device = fixture.context.device();
        for (location, kind) in [
            (MemoryLocation::Host, PoolKind::Pinned),
            (MemoryLocation::Device(device.clone()), PoolKind::Managed),
            (MemoryLocation::Device(device.clone()), PoolKind::Pinned),
        ] {
            let default = MemoryPool::default_at(&location, kind, device).unwrap();
            assert_eq!(default.kind(), kind);
            default.make_current().unwrap();
            let own = MemoryPool::at(&location, kind, device).unwrap();
            assert!(default.is_current().unwrap(), "{location:?} {kind:?}");
            own.make_current().unwrap();
            assert!(own.is_current().unwrap(), "{location:?} {kind:?}");
            assert!(!default.is_current().unwrap(), "{location:?} {kind:?}");
            own.close().unwrap();
            assert!(default.is_current().unwrap(), "{location:?} {kind:?}");
        }
    }
}

#[test]
fn wrong_uses_of_a_host_pool_are_refused() {
    if !has_version((13, 0)) {
        return;
    }
    let fixture = software(Builder::new().devices(2));
    let (stream, device) = (fixture.stream(), fixture.context.device());
    let refused = |error: Error, text: &str| assert_eq!(error.to_string(), text);
    let on_device = MemoryPool::new(device).unwrap();
    refused(
        PinnedBuffer::<u32>::zeroed_in_pool(&on_device, &stream, 8).unwrap_err(),
        "page-locked memory from a pool without page-locked memory of the host is not supported; \
         create the pool with `MemoryPool::at`, `MemoryLocation::Host` and `PoolKind::Pinned`",
    );
    let host = host_pool(&fixture);
    refused(
        ManagedBuffer::<u32>::zeroed_in(&host, &stream, 8).unwrap_err(),
        "managed memory from a pool without managed memory is not supported; create the pool with \
         `MemoryPool::at` and `PoolKind::Managed`",
    );
    for len in [0, 8] {
        refused(
            DeviceBuffer::<u32>::zeroed_in(&host, &stream, len).unwrap_err(),
            "device memory from a pool of page-locked host memory is not supported; use \
             `PinnedBuffer::zeroed_in_pool`, or, if kernels use the memory, \
             `ManagedBuffer::zeroed_in` with a pool of `MemoryPool::at`, `MemoryLocation::Host` \
             and `PoolKind::Managed`",
        );
    }
    let error = PinnedBuffer::<u64>::zeroed_in_pool(&host, &stream, usize::MAX).unwrap_err();
    assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
    let other = fixture.context.driver().device(1).unwrap();
    let there = MemoryLocation::Device(other.clone());
    let error = MemoryPool::at(&there, PoolKind::Pinned, device).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let elsewhere = other.primary_context().unwrap().default_stream().unwrap();
    let error = PinnedBuffer::<u32>::zeroed_in_pool(&host, &elsewhere, 8).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");

    let old = software(Builder::new().version(12_080));
    let device = old.context.device();
    refused(
        MemoryPool::at(&MemoryLocation::Host, PoolKind::Pinned, device).unwrap_err(),
        "a pool of host memory or managed memory on a driver older than CUDA 13.0 is not \
         supported; install a newer driver",
    );
    let here = MemoryLocation::Device(device.clone());
    assert!(MemoryPool::at(&here, PoolKind::Pinned, device).is_ok());
}

#[test]
fn the_host_pool_runs_out_of_memory_with_an_error() {
    if !has_version((13, 0)) {
        return;
    }
    let fixture = software(Builder::new().host_memory(1 << 20));
    let pool = host_pool(&fixture);
    let stream = fixture.stream();
    let error = PinnedBuffer::<u8>::zeroed_in_pool(&pool, &stream, 2 << 20).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 2 << 20),
        "{error}"
    );
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_OUT_OF_MEMORY));
    let pinned = PinnedBuffer::<u8>::zeroed_in_pool(&pool, &stream, 1 << 19).unwrap();
    assert_eq!(pinned.len(), 1 << 19);
}

#[test]
fn memory_of_a_host_pool_can_be_dropped_in_a_capture() {
    for fixture in everywhere_since((13, 0)) {
        let (stream, _) = borrowed(&fixture, StreamFlags::NON_BLOCKING);
        stream.allow_capture().unwrap();
        let pool = host_pool(&fixture);
        let pinned = PinnedBuffer::from_host_in_pool(&pool, &stream, &words()).unwrap();
        let library = fixture.context.driver().library().clone();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the stream must be alive ← it is borrowed.
        let status = unsafe { library.cuStreamBeginCapture_v2(stream.as_raw(), mode) };
        assert_eq!(status, Status::CUDA_SUCCESS, "{}", fixture.name);
        drop(pinned);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream must be alive and the pointer writable ← it is borrowed, and a local.
        let status = unsafe { library.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
        assert_eq!(status, Status::CUDA_SUCCESS, "{}", fixture.name);
        // SAFETY: the graph must be alive and not used after ← it was just created.
        let status = unsafe { library.cuGraphDestroy(graph) };
        assert_eq!(status, Status::CUDA_SUCCESS, "{}", fixture.name);
        // A thread frees the memory after the capture.
        let start = Instant::now();
        while pool.statistics().unwrap().used > 0 {
            assert!(start.elapsed().as_secs() < 20, "{}", fixture.name);
            sleep(Duration::from_millis(5));
            stream.synchronize().unwrap();
        }
    }
}

#[test]
fn cycles_with_a_host_pool_leave_nothing_behind() {
    if !has_version((13, 0)) {
        return;
    }
    let is_full = std::env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let fixture = software(late(5));
    let simulator = fixture.simulator.clone().unwrap();
    let (stream, copies) = (fixture.stream(), fixture.stream());
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 64).unwrap();
    // Copies from and to slices keep a block of page-locked memory.
    assert_eq!(buffer.to_vec().unwrap(), [0; 64]);
    let before = simulator.live();
    let pool = host_pool(&fixture);
    let managed = managed_pool(&fixture);
    let cycles = if is_full { 1_000_000 } else { 300 };
    for cycle in 0..cycles {
        let pinned = PinnedBuffer::from_host_in_pool(&pool, &stream, &[cycle; 64]).unwrap();
        drop(buffer.copy_from_pinned_async(pinned, &copies).unwrap());
        let mut words = ManagedBuffer::<u32>::zeroed_in(&managed, &copies, 64).unwrap();
        let mut batch = ManagedBatch::new();
        batch.discard_and_prefetch(words.as_mut_slice(), &MemoryLocation::Host);
        batch.queue(&stream).unwrap();
        words.as_mut_slice().copy_from(&buffer).unwrap();
        if cycle % 50 == 0 {
            assert_eq!(words.host().unwrap(), [cycle; 64]);
        }
    }
    assert_all(&buffer, cycles - 1, "the last cycle");
    drop((pool, managed));
    // A worker thread frees the memory of transfers that were dropped.
    let start = Instant::now();
    loop {
        fixture.context.synchronize().unwrap();
        let live = simulator.live();
        let left = (live.host_allocations, live.allocations, live.pools);
        if left == (before.host_allocations, before.allocations, before.pools) {
            break;
        }
        assert!(start.elapsed().as_secs() < 20, "{live}");
        sleep(Duration::from_millis(5));
    }
}

/// Prints the time to allocate and free 1 MiB of page-locked memory, without filling it.
#[test]
fn host_pool_cost_on_a_gpu() {
    let Some(fixture) = gpu() else { return };
    let stream = fixture.stream();
    let bytes = 1 << 20;
    let time = |name: &str, allocate: &dyn Fn() -> UninitPinned<u8>| {
        drop(allocate());
        let count = 50;
        let start = Instant::now();
        (0..count).for_each(|_| drop(allocate()));
        stream.synchronize().unwrap();
        let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(count);
        println!("{name}: {each:.1} microseconds");
    };
    let flags = PinnedFlags::DEFAULT;
    time("cuMemHostAlloc", &|| {
        PinnedBuffer::uninit(&fixture.context, bytes, flags).unwrap()
    });
    let device = fixture.context.device();
    let node = device.host_numa_node().unwrap().unwrap_or(0);
    for location in [MemoryLocation::Host, MemoryLocation::HostNuma(node)] {
        let pool = MemoryPool::at(&location, PoolKind::Pinned, device).unwrap();
        for threshold in [0, 64 << 20] {
            pool.set_release_threshold(threshold).unwrap();
            let name = format!("{location:?}, threshold {threshold}");
            time(&name, &|| {
                PinnedBuffer::uninit_in_pool(&pool, &stream, bytes).unwrap()
            });
        }
    }
}
