//! The memory in profiles.

use cuda_driver::memory::{
    CachingPool, GrowableBuffer, ManagedBuffer, MemoryPool, PitchedBuffer, Unpooled,
};
use cuda_driver::prelude::*;
use cuda_driver::profile::Profiler;

#[cfg(any(target_os = "linux", windows))]
use crate::support::software;
use crate::support::{everywhere, filled, has_virtual_memory};
#[cfg(any(target_os = "linux", windows))]
use cuda_driver::memory::{ImportedPool, MemoryHandle};
#[cfg(any(target_os = "linux", windows))]
use cuda_sim::Builder;

/// Memory that a buffer takes over or gives up counts as well.
#[test]
fn memory_of_each_kind_is_counted_until_its_free() {
    for fixture in everywhere() {
        let (stream, context) = (fixture.stream(), &fixture.context);
        let pool = MemoryPool::new(context.device()).unwrap();
        let cache = CachingPool::new(context);
        let before = filled(&stream, 16, 1);
        let profiler = Profiler::start_on(&stream).unwrap();
        let now = || {
            let profile = profiler.collect();
            profile.memory().last().map_or(0, |it| it.allocated())
        };
        let ordered = DeviceBuffer::<u8>::zeroed(&stream, 512).unwrap();
        let plain = DeviceBuffer::<u8>::zeroed_in(&Unpooled, &stream, 512).unwrap();
        let pooled = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 512).unwrap();
        let managed = ManagedBuffer::<u8>::zeroed(&stream, 512).unwrap();
        assert_eq!(now(), 4 * 512, "{}", fixture.name);
        let pitched = PitchedBuffer::<u8>::zeroed(&stream, (512, 2)).unwrap();
        let rows = 2 * pitched.pitch() as i64;
        assert_eq!(now(), 4 * 512 + rows);
        let cached = DeviceBuffer::<u8>::zeroed_in(&cache, &stream, 512).unwrap();
        let held = cache.statistics().bytes_reserved() as i64;
        drop(cached);
        // The pool keeps the block.
        assert_eq!(now(), 4 * 512 + rows + held);
        let address = ordered.into_raw().unwrap();
        assert_eq!(now(), 3 * 512 + rows + held);
        // SAFETY: `into_raw` has returned the address of 512 bytes, and nothing else frees them.
        let ordered = unsafe { DeviceBuffer::<u8>::from_raw(&stream, address, 512) }.unwrap();
        drop((ordered, plain, pooled, managed, pitched));
        assert_eq!(now(), held);
        if has_virtual_memory(context) {
            let mut growable = GrowableBuffer::<u8>::new(&stream, 1 << 24).unwrap();
            let step = growable.granularity();
            growable.grow_to(1).unwrap();
            growable.grow_to(step + 1).unwrap();
            assert_eq!(now(), held + 2 * step as i64);
            growable.shrink_to(1).unwrap();
            assert_eq!(now(), held + step as i64);
        }
        drop((cache, before));
        let profile = profiler.finish().unwrap();
        let changes = profile.memory().iter().map(|it| it.change());
        assert_eq!(changes.sum::<i64>(), -64, "{}", fixture.name);
    }
}

#[cfg(any(target_os = "linux", windows))]
#[test]
fn memory_of_an_imported_pool_is_counted_once() {
    let fixture = software(Builder::new());
    let (stream, device) = (fixture.stream(), fixture.context.device());
    let pool = MemoryPool::exportable(device).unwrap();
    let descriptor = pool.export().unwrap();
    let buffer = DeviceBuffer::from_host_in(&pool, &stream, &[7_u32; 5]).unwrap();
    let buffer = buffer.export().unwrap();
    stream.synchronize().unwrap();
    let MemoryHandle::Pool(pointer) = *buffer.handle() else {
        panic!("{:?}", buffer.handle());
    };
    // SAFETY: the descriptor is that of a pool.
    let imported =
        unsafe { ImportedPool::import(device, crate::other_api::borrow(&descriptor)) }.unwrap();
    let profiler = Profiler::start_on(&stream).unwrap();
    // SAFETY: the memory has 5 words, which nothing writes meanwhile.
    drop(unsafe { imported.open::<u32>(&stream, &pointer, 5) }.unwrap());
    let profile = profiler.finish().unwrap();
    let changes: Vec<i64> = profile.memory().iter().map(|it| it.change()).collect();
    assert_eq!(changes, [20, -20]);
    stream.synchronize().unwrap();
    // SAFETY: the memory was closed.
    unsafe { buffer.reclaim() }.close().unwrap();
}
