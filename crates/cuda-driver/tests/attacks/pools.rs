//! Pools that are short of memory, or are dropped while their blocks are in use.

use cuda_driver::memory::Unpooled;
use std::collections::VecDeque;
use std::thread;

use cuda_driver::memory::{CachingPool, MemoryPool};
use cuda_driver::prelude::*;

use crate::support::Attack;

/// Claim: the next owner of a block does not write it before its readers are done. A pool with room
/// for few blocks serves several streams, and each block is dropped while another stream reads it.
#[test]
fn blocks_move_between_streams_under_readers() {
    Attack::new().run(|case| {
        let streams: Vec<_> = (0..3).map(|_| case.stream()).collect();
        let pool = CachingPool::with_limit(&case.context, 3 * case.n * 4);
        let mut results: Vec<_> = (0..24).map(|_| case.filled(&streams[0], 0)).collect();
        for (round, result) in results.iter_mut().enumerate() {
            let owning = &streams[case.pick(3)];
            let reader = &streams[case.pick(3)];
            let block =
                DeviceBuffer::from_host_in(&pool, owning, &vec![round as u32; case.n]).unwrap();
            case.hold_up(reader);
            case.copy(reader, result.as_mut_slice(), block.as_slice())
                .unwrap();
        }
        for (round, result) in results.iter().enumerate() {
            case.expect(result, round as u32);
        }
    });
}

/// Claim: memory of a pool is zeroed in the order of its new stream. Threads take, write and drop
/// blocks of one small pool, including through views that are still in use on other streams.
#[test]
fn threads_share_a_small_pool() {
    Attack::new().run(|case| {
        let pool = CachingPool::with_limit(&case.context, 8 * case.n * 4);
        thread::scope(|scope| {
            for thread in 0..case.threads {
                let pool = &pool;
                scope.spawn(move || {
                    let (owning, reader) = (case.stream(), case.stream());
                    for round in 0..6 {
                        let value = (thread * 10 + round) as u32;
                        // Exhausted memory is an error of this call only.
                        let Ok(mut block) = DeviceBuffer::<u32>::zeroed_in(pool, &owning, case.n)
                        else {
                            continue;
                        };
                        let Ok(add) =
                            DeviceBuffer::from_host_in(pool, &reader, &vec![value; case.n])
                        else {
                            continue;
                        };
                        case.mix(&reader, block.as_mut_slice(), add.as_slice())
                            .unwrap();
                        drop(add);
                        case.expect(&block, value);
                    }
                });
            }
        });
    });
}

/// Claim: dropping a pool keeps the blocks that are in use, which are freed after their uses.
#[test]
fn pools_are_dropped_before_their_blocks() {
    Attack::new().run(|case| {
        let (stream, reader) = (case.stream(), case.stream());
        let mut result = case.filled(&reader, 0);
        for round in 1..4 {
            let words = vec![round; case.n];
            let caching = CachingPool::new(&case.context);
            let ordered = MemoryPool::new(case.context.device()).unwrap();
            let pinned = case.pinned_pool();
            let (a, b) = (
                DeviceBuffer::from_host_in(&caching, &stream, &words).unwrap(),
                DeviceBuffer::from_host_in(&ordered, &stream, &words).unwrap(),
            );
            drop(DeviceBuffer::from_host_in(&caching, &stream, &words).unwrap());
            let block = PinnedBuffer::from_host_in(&pinned, &words).unwrap();
            case.hold_up(&reader);
            case.copy(&reader, result.as_mut_slice(), a.as_slice())
                .unwrap();
            case.mix(&reader, result.as_mut_slice(), b.as_slice())
                .unwrap();
            let transfer = result.copy_from_pinned_async(block, &reader).unwrap();
            let mut beside = case.filled(&reader, 0);
            case.copy(&reader, beside.as_mut_slice(), a.as_slice())
                .unwrap();
            drop((caching, ordered, pinned));
            drop((a, b, transfer));
            let fresh = case.filled(&stream, 70);
            case.expect(&result, round);
            case.expect(&beside, round);
            case.expect(&fresh, 70);
        }
    });
}

/// Claim: trimming a pool frees the unused blocks, after the work that still reads them.
#[test]
fn trimming_keeps_memory_in_use() {
    Attack::new().run(|case| {
        let (stream, reader) = (case.stream(), case.stream());
        let pool = CachingPool::new(&case.context);
        let pinned = case.pinned_pool();
        let mut results: Vec<_> = (0..6).map(|_| case.filled(&reader, 0)).collect();
        for (result, value) in results.iter_mut().zip(1..) {
            let block = DeviceBuffer::from_host_in(&pool, &stream, &vec![value; case.n]).unwrap();
            case.hold_up(&reader);
            case.copy(&reader, result.as_mut_slice(), block.as_slice())
                .unwrap();
            drop(block);
            drop(PinnedBuffer::<u32>::zeroed_in(&pinned, case.n).unwrap());
            pool.trim_to(0);
            pinned.trim_to(0);
            pool.set_limit(value as usize * case.n * 4);
            let mut other = DeviceBuffer::zeroed_in(&Unpooled, &stream, case.n).unwrap();
            other.fill(90).unwrap();
        }
        for (result, value) in results.iter().zip(1..) {
            case.expect(result, value);
        }
    });
}

/// Claim: when the device runs out of memory, a pool frees unused blocks, and none that is in use.
#[test]
fn device_memory_runs_out() {
    Attack::new()
        .on_software("it limits the memory of the device")
        .memory(4 << 20)
        .run(|case| {
            let (stream, reader) = (case.stream(), case.stream());
            let pool = CachingPool::new(&case.context);
            let words = 1 << 16;
            let mut kept = VecDeque::new();
            let mut refused = 0;
            for value in 0..40_u32 {
                match DeviceBuffer::from_host_in(&pool, &stream, &vec![value; words]) {
                    Err(_) => {
                        refused += 1;
                        kept.pop_front();
                    }
                    Ok(block) => {
                        let mut view = DeviceBuffer::<u32>::zeroed(&reader, 64).unwrap();
                        let part = block.slice(..64).unwrap();
                        case.copy(&reader, view.as_mut_slice(), part).unwrap();
                        kept.push_back((view, block, value));
                    }
                }
            }
            assert!(refused > 0, "{}", case.title);
            for (view, block, value) in &kept {
                case.expect(view, *value);
                case.expect(block, *value);
            }
        });
}
