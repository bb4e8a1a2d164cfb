//! The driver's memory pools.

use std::thread;

use cuda_driver::Error;
use cuda_driver::device::DeviceAttribute;
use cuda_driver::memory::{MemoryAccess, MemoryPool, PoolReuse};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{COPY, Fixture, count_calls, everywhere, skip, software};

/// Returns the fixtures whose device has memory pools.
#[track_caller]
fn fixtures() -> impl Iterator<Item = Fixture> {
    everywhere().filter(move |fixture| {
        let pools = DeviceAttribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        let has = fixture.context.device().attribute(pools).unwrap() != 0;
        if !has {
            skip("no memory pools");
        }
        has
    })
}

#[test]
fn buffers_come_from_the_pool_that_is_named() {
    for fixture in fixtures() {
        let (owner, other) = (fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let pool = MemoryPool::new(fixture.context.device()).unwrap();
        let source = DeviceBuffer::from_host_in(&pool, &owner, &[6_u32; 1000]).unwrap();
        let mut target = DeviceBuffer::<u32>::zeroed_in(&pool, &owner, 1000).unwrap();
        assert_eq!(target.to_vec().unwrap(), [0; 1000], "{}", fixture.name);
        // SAFETY: the kernel reads 1000 words of the one and writes 1000 of the other; each has
        // 1000.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::for_num_elems(1000).unwrap(),
                (&source, &mut target, 1000_u32),
            )
        }
        .unwrap();
        assert!(pool.statistics().unwrap().used >= 8000, "{}", fixture.name);
        // The allocation outlives the pool, and its reader outlives the allocation.
        drop(source);
        drop(pool);
        assert_eq!(target.to_vec().unwrap(), [6; 1000], "{}", fixture.name);
        drop((target, copy, owner, other, fixture.context));
        if let Some(simulator) = &fixture.simulator {
            assert!(simulator.live().is_empty(), "{}", simulator.live());
        }
    }
}

#[test]
fn statistics_follow_what_is_allocated() {
    for fixture in fixtures() {
        let stream = fixture.stream();
        let pool = MemoryPool::new(fixture.context.device()).unwrap();
        assert_eq!(pool.statistics().unwrap().used, 0);
        let buffer = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 1 << 20).unwrap();
        let now = pool.statistics().unwrap();
        assert_eq!(
            (now.used, now.most_used),
            (1 << 20, 1 << 20),
            "{}",
            fixture.name
        );
        assert!(now.reserved >= now.used && now.most_reserved >= now.reserved);
        drop(buffer);
        stream.synchronize().unwrap();
        let now = pool.statistics().unwrap();
        assert_eq!((now.used, now.most_used), (0, 1 << 20), "{}", fixture.name);
        pool.reset_statistics().unwrap();
        assert_eq!(pool.statistics().unwrap().most_used, 0);
        pool.trim_to(0).unwrap();
        assert_eq!(pool.statistics().unwrap().reserved, 0, "{}", fixture.name);
        assert!(
            DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 0)
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn release_threshold_keeps_memory_after_a_wait() {
    for fixture in fixtures() {
        let stream = fixture.stream();
        let pool = MemoryPool::new(fixture.context.device()).unwrap();
        assert_eq!(pool.release_threshold().unwrap(), 0);
        pool.set_release_threshold(u64::MAX).unwrap();
        assert_eq!(pool.release_threshold().unwrap(), u64::MAX);
        assert_eq!(pool.reuse().unwrap(), PoolReuse::all(), "{}", fixture.name);
        pool.set_reuse(PoolReuse::ALLOW_OPPORTUNISTIC).unwrap();
        assert_eq!(pool.reuse().unwrap(), PoolReuse::ALLOW_OPPORTUNISTIC);
        drop(DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 1 << 20).unwrap());
        stream.synchronize().unwrap();
        // The software device caches no memory.
        if fixture.simulator.is_none() {
            assert!(pool.statistics().unwrap().reserved >= 1 << 20);
        }
    }
}

#[test]
fn buffers_are_allocated_from_the_current_pool() {
    for fixture in [Builder::new().devices(2)].map(software) {
        let stream = fixture.stream();
        let device = fixture.context.device();
        let default = device.default_memory_pool().unwrap();
        assert!(default.is_current().unwrap());
        assert_eq!(default, device.default_memory_pool().unwrap());
        let pool = MemoryPool::new(device).unwrap();
        assert!(!pool.is_current().unwrap());
        pool.make_current().unwrap();
        assert!(pool.is_current().unwrap() && !default.is_current().unwrap());
        let buffer = DeviceBuffer::<u8>::zeroed(&stream, 4096).unwrap();
        assert_eq!(pool.statistics().unwrap().used, 4096);
        assert_eq!(default.statistics().unwrap().used, 0);
        drop(pool);
        assert!(default.is_current().unwrap());
        assert_eq!(buffer.to_vec().unwrap(), [0; 4096]);
    }
}

#[test]
fn a_limit_is_an_error_with_the_bytes() {
    for fixture in fixtures() {
        let stream = fixture.stream();
        let device = fixture.context.device();
        if fixture.context.driver().version().number() >= 12_020 {
            let pool = MemoryPool::with_limit(device, 64 << 20).unwrap();
            let kept = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 32 << 20).unwrap();
            let error = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 256 << 20).unwrap_err();
            assert!(
                matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 256 << 20),
                "{}: {error}",
                fixture.name
            );
            drop(kept);
        }
        let error = MemoryPool::with_limit(device, 0).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
    let fixture = software(Builder::new().version(12_010));
    let error = MemoryPool::with_limit(fixture.context.device(), 4096).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn peer_access_is_granted_and_revoked() {
    let fixture = software(Builder::new().devices(2));
    let devices = fixture.context.driver().devices().unwrap();
    let pool = MemoryPool::new(&devices[0]).unwrap();
    assert_eq!(pool.access(&devices[0]).unwrap(), MemoryAccess::ReadWrite);
    assert_eq!(pool.access(&devices[1]).unwrap(), MemoryAccess::None);
    for access in [
        MemoryAccess::ReadWrite,
        MemoryAccess::Read,
        MemoryAccess::None,
    ] {
        // SAFETY: no work uses the pool.
        unsafe { pool.set_access(&devices[1], access) }.unwrap();
        assert_eq!(pool.access(&devices[1]).unwrap(), access);
    }
    // SAFETY: as above.
    let refused = unsafe { pool.set_access(&devices[0], MemoryAccess::None) };
    assert!(refused.is_err());
    // A stream of the other device cannot allocate from the pool.
    let context = devices[1].primary_context().unwrap();
    let stream = context.default_stream().unwrap();
    let error = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 10).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    let elsewhere = software(Builder::new());
    let error = pool.access(elsewhere.context.device()).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

#[test]
fn pool_allocates_on_default_stream_of_other_context() {
    for fixture in fixtures() {
        let pool = MemoryPool::new(fixture.context.device()).unwrap();
        let legacy = fixture.context.legacy_stream();
        // A new thread has no current context.
        let words = thread::scope(|scope| {
            let allocate = || DeviceBuffer::<u32>::zeroed_in(&pool, &legacy, 8)?.to_vec();
            scope.spawn(allocate).join().unwrap()
        });
        assert_eq!(words.unwrap(), [0; 8], "{}", fixture.name);
    }
}

/// Driver 580 crashes or hangs if memory is freed after its pool was destroyed.
#[test]
fn a_pool_is_destroyed_after_its_buffers() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let destroyed = || count_calls(simulator, "cuMemPoolDestroy");
    let stream = fixture.stream();
    let pool = MemoryPool::new(fixture.context.device()).unwrap();
    let buffer = DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 100).unwrap();
    pool.close().unwrap();
    assert_eq!(destroyed(), 0);
    assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
    drop(buffer);
    assert_eq!(destroyed(), 1);

    // Buffers that name no pool may have the memory of one that was current.
    let pool = MemoryPool::new(fixture.context.device()).unwrap();
    pool.make_current().unwrap();
    let buffer = DeviceBuffer::<u32>::zeroed(&stream, 100).unwrap();
    drop(pool);
    drop(buffer);
    assert_eq!(destroyed(), 1);
    let default = fixture.context.device().default_memory_pool().unwrap();
    assert!(default.is_current().unwrap());
}
