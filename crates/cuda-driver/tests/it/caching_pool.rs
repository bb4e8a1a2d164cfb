//! Caching pools, which reuse memory.

use std::thread;

use cuda_driver::error::{Error, Status};
use cuda_driver::memory::{CachingPool, PinnedCachingPool};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{COPY, everywhere, late, late_devices, launch_copy, software};

const N: u32 = 1 << 14;

#[test]
fn returned_block_is_reused_without_a_call() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let pool = CachingPool::new(&fixture.context);
        let first = DeviceBuffer::from_host_in(&pool, &stream, &[1_u32; 1000]).unwrap();
        let address = first.as_raw();
        drop(first);
        if let Some(simulator) = &fixture.simulator {
            simulator.reset_calls();
        }
        // SAFETY: the memory is written before it is read.
        let mut again = unsafe { DeviceBuffer::<u8>::uninit_in(&pool, &stream, 3999) }.unwrap();
        assert_eq!(again.as_raw(), address, "{}", fixture.name);
        if let Some(simulator) = &fixture.simulator {
            assert!(simulator.calls().is_empty(), "{:?}", simulator.calls());
        }
        again.copy_from_host(&[7; 3999]).unwrap();
        assert_eq!(again.to_vec().unwrap(), [7; 3999]);
        let now = pool.statistics();
        assert_eq!((now.hits, now.misses), (1, 1));
        // 4000 bytes are rounded up to 4096, an eighth above 3584.
        assert_eq!((now.bytes_in_use, now.bytes_cached), (4096, 0));
        drop(again);
        let now = pool.statistics();
        assert_eq!((now.bytes_in_use, now.bytes_cached), (0, 4096));
        assert_eq!((now.most_bytes_reserved, now.usage_ratio()), (4096, 0.0));
        assert_eq!(now.hit_ratio(), 0.5);
        pool.trim_to(0);
        assert_eq!(pool.statistics().bytes_reserved(), 0);
        // Neither an empty buffer nor one of the next size class reuses the cached block.
        assert_eq!(
            DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 0)
                .unwrap()
                .as_raw(),
            0
        );
        assert_eq!(pool.statistics().misses, 1);
    }
}

#[test]
fn a_block_under_its_reader_is_not_written_by_the_next_owner() {
    for fixture in late_devices(32) {
        let kernel = fixture.kernel(COPY, "copy");
        let (owning, reader, next) = (fixture.stream(), fixture.stream(), fixture.stream());
        // The limit leaves room for one block, so the next owner gets the same one.
        let pool = CachingPool::with_limit(&fixture.context, N as usize * 4);
        let source = DeviceBuffer::from_host_in(&pool, &owning, &vec![1_u32; N as usize]).unwrap();
        let address = source.as_raw();
        let mut result = DeviceBuffer::<u32>::zeroed(&reader, N as usize).unwrap();
        launch_copy(&kernel, &reader, &source, &mut result).unwrap();
        drop(source);
        // Reuses the block on the same stream.
        let mut again = DeviceBuffer::<u32>::zeroed_in(&pool, &owning, N as usize).unwrap();
        assert_eq!(again.as_raw(), address);
        again.fill(2).unwrap();
        let mut second = DeviceBuffer::<u32>::zeroed(&reader, N as usize).unwrap();
        launch_copy(&kernel, &reader, &again, &mut second).unwrap();
        drop(again);
        // Reuses the block on another stream.
        let third = DeviceBuffer::<u32>::zeroed_in(&pool, &next, N as usize).unwrap();
        assert_eq!((third.as_raw(), third.stream() == &next), (address, true));
        for (buffer, want) in [(result, 1), (second, 2), (third, 0)] {
            let words = buffer.to_vec().unwrap();
            assert!(words.iter().all(|&word| word == want), "{}", fixture.name);
        }
        assert_eq!(pool.statistics().misses, 1);
    }
}

#[test]
fn idle_blocks_are_used_before_new_memory() {
    for fixture in everywhere() {
        let (one, other) = (fixture.stream(), fixture.stream());
        let pool = CachingPool::new(&fixture.context);
        drop(DeviceBuffer::<u8>::zeroed_in(&pool, &one, 1000).unwrap());
        one.synchronize().unwrap();
        let moved = DeviceBuffer::<u8>::zeroed_in(&pool, &other, 1000).unwrap();
        assert_eq!((pool.statistics().hits, pool.statistics().misses), (1, 1));
        assert_eq!(moved.stream(), &other);
        drop(moved);
        // The block now belongs to the other stream.
        drop(DeviceBuffer::<u8>::zeroed_in(&pool, &other, 1000).unwrap());
        assert_eq!((pool.statistics().hits, pool.statistics().misses), (2, 1));
    }
    // If the first stream is busy, the second one does not wait for it.
    let fixture = software(late(3));
    let (one, other) = (fixture.stream(), fixture.stream());
    let pool = CachingPool::new(&fixture.context);
    drop(DeviceBuffer::<u8>::zeroed_in(&pool, &one, 1000).unwrap());
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.reset_calls();
    let fresh = DeviceBuffer::<u8>::zeroed_in(&pool, &other, 1000).unwrap();
    assert_eq!((pool.statistics().hits, pool.statistics().misses), (0, 2));
    assert!(!simulator.calls().contains_key("cuStreamWaitEvent"));
    drop(fresh);
}

#[test]
fn pool_does_not_exceed_its_limit() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let pool = CachingPool::with_limit(&fixture.context, 4096);
        let half = pool.filled_with(&stream, 2048, 1);
        let error = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 4096).unwrap_err();
        assert_eq!(
            error,
            Error::PoolLimit {
                bytes: 4096,
                limit: 4096,
                reserved: 2048
            }
        );
        drop(half);
        // Cached blocks are freed to make room.
        let whole = pool.filled_with(&stream, 4096, 2);
        assert_eq!(whole.to_vec().unwrap(), [2; 4096], "{}", fixture.name);
        assert_eq!(pool.statistics().bytes_reserved(), 4096);
        drop(whole);
        pool.set_limit(1000);
        assert_eq!(
            (pool.limit(), pool.statistics().bytes_reserved()),
            (1000, 0)
        );
        assert!(DeviceBuffer::<u8>::zeroed_in(&pool, &stream, usize::MAX >> 1).is_err());
        assert_eq!(pool.statistics().bytes_reserved(), 0);
    }
}

trait Filled {
    fn filled_with(&self, stream: &Stream, len: usize, byte: u8) -> DeviceBuffer<u8>;
}

impl Filled for CachingPool {
    fn filled_with(&self, stream: &Stream, len: usize, byte: u8) -> DeviceBuffer<u8> {
        let mut buffer = DeviceBuffer::zeroed_in(self, stream, len).unwrap();
        buffer.fill(byte).unwrap();
        buffer
    }
}

#[test]
fn waiting_blocks_are_freed_when_memory_runs_out() {
    for seed in 0..8 {
        let fixture = software(late(seed));
        let (stream, other) = (fixture.stream(), fixture.stream());
        let simulator = fixture.simulator.as_ref().unwrap();
        simulator.limit_memory(0, 1 << 20);
        let pool = CachingPool::new(&fixture.context);
        drop(pool.filled_with(&stream, 700 << 10, 1));
        let next = pool.filled_with(&other, 600 << 10, 2);
        assert_eq!(next.to_vec().unwrap(), vec![2; 600 << 10]);
        let error = DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 600 << 10).unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { bytes: 655_360, .. }),
            "{error}"
        );
        // Refused allocations are not counted.
        assert_eq!(pool.statistics().bytes_reserved(), 640 << 10);
    }
}

#[test]
fn buffers_outlive_their_pool_and_nothing_is_left() {
    for fixture in everywhere() {
        let (stream, other) = (fixture.stream(), fixture.stream());
        let pool = CachingPool::new(&fixture.context);
        let second = pool.clone();
        let kept = pool.filled_with(&stream, 300, 4);
        drop(pool.filled_with(&other, 300, 5));
        drop((pool, second));
        drop((other, fixture.context));
        assert_eq!(kept.to_vec().unwrap(), [4; 300], "{}", fixture.name);
        drop((kept, stream));
        if let Some(simulator) = &fixture.simulator {
            let live = simulator.live();
            assert!(live.is_empty(), "{live:?}");
        }
    }
}

#[test]
fn a_released_address_no_longer_belongs_to_the_pool() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let pool = CachingPool::new(&fixture.context);
        let address = pool.filled_with(&stream, 300, 4).into_raw().unwrap();
        assert_eq!(pool.statistics().bytes_reserved(), 0);
        // SAFETY: this is the memory of that buffer, all of it is initialized, and it is used on
        // the same stream.
        let buffer = unsafe { DeviceBuffer::<u8>::from_raw(&stream, address, 300) }.unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [4; 300], "{}", fixture.name);
    }
}

#[test]
fn a_block_stays_cached_if_its_wait_fails() {
    let fixture = software(late(1));
    let (one, other) = (fixture.stream(), fixture.stream());
    let simulator = fixture.simulator.as_ref().unwrap();
    let pool = CachingPool::with_limit(&fixture.context, 1024);
    drop(pool.filled_with(&one, 1000, 1));
    let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuStreamWaitEvent");
    simulator.add_rule(rule.every(1));
    let error = DeviceBuffer::<u8>::zeroed_in(&pool, &other, 1000).unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_UNKNOWN));
    let now = pool.statistics();
    assert_eq!((now.bytes_in_use, now.bytes_cached), (0, 1024));
    simulator.clear_rules();
    let buffer = pool.filled_with(&other, 1000, 2);
    assert_eq!(buffer.to_vec().unwrap(), [2; 1000]);
}

#[test]
fn a_pool_of_another_context_is_refused() {
    let (fixture, other) = (software(Builder::new()), software(Builder::new()));
    let pool = CachingPool::new(&fixture.context);
    let error = DeviceBuffer::<u8>::zeroed_in(&pool, &other.stream(), 10).unwrap_err();
    assert!(matches!(error, Error::OtherContext { .. }), "{error}");
}

#[test]
fn threads_share_a_pool() {
    for fixture in everywhere() {
        let pool = CachingPool::new(&fixture.context);
        thread::scope(|scope| {
            for worker in 0_u32..4 {
                let (pool, fixture) = (&pool, &fixture);
                scope.spawn(move || {
                    let stream = fixture.stream();
                    for round in 0..50 {
                        let value = worker * 1000 + round;
                        let len = 1 + (round as usize * 37) % 300;
                        let buffer =
                            DeviceBuffer::from_host_in(pool, &stream, &vec![value; len]).unwrap();
                        let handed = thread::scope(|inner| {
                            inner
                                .spawn(move || buffer.to_vec().unwrap())
                                .join()
                                .unwrap()
                        });
                        assert_eq!(handed, vec![value; len], "{}", fixture.name);
                    }
                });
            }
        });
        let now = pool.statistics();
        assert_eq!(now.hits + now.misses, 200);
        assert_eq!(now.bytes_in_use, 0);
        drop(pool);
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(simulator.live().bytes, 0, "{}", simulator.live());
        }
    }
}

#[test]
fn page_locked_memory_is_handed_out_again() {
    for fixture in everywhere() {
        let pool = PinnedCachingPool::new(&fixture.context, PinnedFlags::empty());
        let mut first = pool.take::<u32>(1000).unwrap();
        assert_eq!(*first, [0; 1000], "{}", fixture.name);
        first.fill(5);
        let address = first.as_ptr().addr();
        drop(first);
        if let Some(simulator) = &fixture.simulator {
            simulator.reset_calls();
        }
        let again = pool.take::<u8>(4000).unwrap();
        if let Some(simulator) = &fixture.simulator {
            assert!(simulator.calls().is_empty(), "{:?}", simulator.calls());
        }
        assert_eq!(again.as_ptr().addr(), address, "{}", fixture.name);
        assert_eq!(again[..8], [5, 0, 0, 0, 5, 0, 0, 0]);
        let second = PinnedBuffer::<u64>::zeroed_in(&pool, 3).unwrap();
        assert_eq!(*second, [0; 3]);
        let stream = fixture.stream();
        let third = PinnedBuffer::from_host_in(&pool, &[1_u32, 2, 3]).unwrap();
        let buffer = DeviceBuffer::from_host(&stream, &third).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3], "{}", fixture.name);
        let now = pool.statistics();
        assert_eq!((now.hits, now.misses), (1, 3));
        assert_eq!((now.bytes_in_use, now.bytes_cached), (4096 + 512, 0));
        drop((second, third));
        assert_eq!(pool.statistics().bytes_cached, 512);
        pool.trim_to(0);
        assert_eq!(pool.statistics().bytes_reserved(), 4096);
        assert!(pool.take::<u32>(0).unwrap().is_empty());
        // The buffer outlives the pool and is freed when dropped.
        drop(pool);
        assert_eq!(again[4], 5);
        drop((again, buffer, stream, fixture.context));
        if let Some(simulator) = &fixture.simulator {
            assert!(simulator.live().is_empty(), "{}", simulator.live());
        }
    }
}

#[test]
fn pinned_pool_does_not_exceed_its_limit() {
    for fixture in everywhere() {
        let pool = PinnedCachingPool::with_limit(&fixture.context, PinnedFlags::DEVICE_MAP, 1024);
        drop(pool.take::<u8>(300).unwrap());
        let whole = pool.take::<u8>(1024).unwrap();
        assert!(whole.flags().unwrap().contains(PinnedFlags::DEVICE_MAP));
        assert_eq!(pool.statistics().bytes_reserved(), 1024);
        let error = pool.take::<u8>(1).unwrap_err();
        assert!(
            matches!(error, Error::PoolLimit { reserved: 1024, .. }),
            "{error}"
        );
        drop(whole);
        assert_eq!(
            *PinnedBuffer::<u8>::zeroed_in(&pool, 1).unwrap(),
            [0],
            "{}",
            fixture.name
        );
    }
}

#[test]
fn page_locked_memory_of_failed_transfer_is_not_reused() {
    let fixture = software(late(1));
    let (stream, simulator) = (fixture.stream(), fixture.simulator.as_ref().unwrap());
    let pool = PinnedCachingPool::new(&fixture.context, PinnedFlags::empty());
    let mut target = pool.take::<u32>(64).unwrap();
    let source = DeviceBuffer::from_host(&stream, &[3_u32; 64]).unwrap();
    let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuStreamSynchronize");
    simulator.add_rule(rule.every(1));
    source.as_slice().copy_to_pinned(&mut target).unwrap_err();
    simulator.clear_rules();
    let before = simulator.live().host_bytes;
    drop(target);
    // The memory is neither freed nor reused, and the pool no longer counts it.
    assert_eq!(simulator.live().host_bytes, before);
    assert_eq!(pool.statistics().bytes_reserved(), 0);
    drop(pool.take::<u32>(64).unwrap());
    assert_eq!((pool.statistics().hits, pool.statistics().misses), (0, 2));
}
