//! Copies from and to the host: the memory that they use, and how long they use it.

use std::thread;

use cuda_driver::error::Status;
use cuda_driver::memory::{CopyBatch, PinnedCachingPool};
use cuda_driver::prelude::*;
use cuda_sim::Rule;

use crate::support::Attack;

/// Claim: a dropped transfer keeps its memory until the copy is done. Transfers in both directions
/// are dropped, and their pool hands the blocks out again.
#[test]
fn dropped_transfers_keep_their_blocks() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let pool =
            PinnedCachingPool::with_limit(&case.context, PinnedFlags::default(), 8 * case.n * 4);
        let (mut up, down) = (case.filled(&stream, 0), case.filled(&stream, 9));
        for round in 1..6 {
            case.hold_up(&stream);
            let block = case.when_free(|| PinnedBuffer::from_host_in(&pool, &vec![round; case.n]));
            drop(up.copy_from_pinned_async(block, &stream).unwrap());
            drop(
                down.copy_to_pinned_async(case.when_free(|| pool.take(case.n)), &stream)
                    .unwrap(),
            );
            let mut blocks = Vec::new();
            for _ in 0..3 {
                let mut block = case.when_free(|| pool.take::<u32>(case.n));
                block.fill(50 + round);
                blocks.push(block);
            }
            case.expect(&up, round);
            for block in &blocks {
                case.expect_words(block, 50 + round);
            }
        }
    });
}

/// Claim: registered memory belongs to the program again once nothing uses it. The `Vec` of a
/// transfer is taken back as soon as the transfer returns its buffer.
#[test]
fn registered_memory_comes_back_when_its_copy_is_done() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 0);
        for round in 1..5 {
            let vec = vec![round; case.n];
            let vec = RegisteredBuffer::from_vec(&case.context, vec, RegisterFlags::default());
            case.hold_up(&stream);
            let transfer = buffer
                .copy_from_pinned_async(vec.unwrap(), &stream)
                .unwrap();
            let mut vec = transfer.wait().unwrap().into_vec().unwrap();
            vec.fill(99);
            case.expect(&buffer, round);
            let back = RegisteredBuffer::from_vec(&case.context, vec, RegisterFlags::default());
            case.hold_up(&stream);
            let transfer = buffer.copy_to_pinned_async(back.unwrap(), &stream).unwrap();
            buffer.fill(77).unwrap();
            let vec = transfer.wait().unwrap().into_vec().unwrap();
            case.expect_words(&vec, round);
        }
    });
}

/// Claim: copies from and to slices no longer use the slice when they return, even after delayed
/// work, and on every kind of stream. The slices are overwritten and freed at once.
#[test]
fn slices_are_free_when_copies_return() {
    Attack::new().run(|case| {
        let streams = [
            case.stream(),
            case.context.legacy_stream(),
            case.context.per_thread_stream(),
        ];
        for (stream, value) in streams.iter().zip(1..) {
            let mut buffer = case.filled(stream, 0);
            for round in 0..3 {
                case.hold_up(stream);
                let mut words = vec![value + round; case.n];
                buffer.copy_from_host(&words).unwrap();
                words.fill(0xBAD);
                drop(words);
                let mut back = vec![0; case.n];
                buffer.copy_to_host(&mut back).unwrap();
                case.expect_words(&back, value + round);
                back.fill(1);
                buffer.fill(0).unwrap();
                case.expect_words(&back, 1);
            }
        }
    });
}

/// Claim: a staging block of the context is reused only after its last copy. Many threads copy
/// large and small slices through few blocks.
#[test]
fn staging_blocks_are_shared_by_threads() {
    Attack::new().run(|case| {
        thread::scope(|scope| {
            for thread in 0..2 * case.threads {
                scope.spawn(move || {
                    let stream = case.stream();
                    for round in 0..4 {
                        let len = [case.n, 3, 1 << 15, 1 << 18][(thread + round) % 4];
                        let first = (thread * 100 + round) as u32;
                        let words: Vec<u32> = (0..len as u32).map(|at| at ^ first).collect();
                        case.hold_up(&stream);
                        let buffer = DeviceBuffer::from_host(&stream, &words).unwrap();
                        assert_eq!(buffer.to_vec().unwrap(), words, "{}", case.title);
                    }
                });
            }
        });
    });
}

/// Claim: if a copy or its event fails, its block is leaked, the destination is not written after
/// the error, and other copies are right.
#[test]
fn copies_under_failures_touch_nothing_later() {
    Attack::new().injects_failures().run(|case| {
        let simulator = case.simulator.as_ref().unwrap();
        let functions = [
            "cuMemcpyHtoDAsync",
            "cuMemcpyDtoHAsync",
            "cuEventRecord",
            "cuEventSynchronize",
            "cuStreamSynchronize",
            "cuStreamWaitEvent",
            "cuMemHostAlloc",
        ];
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 1);
        for (function, nth) in functions.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
            for len in [case.n, 1 << 18] {
                let big = DeviceBuffer::<u32>::zeroed(&stream, len).unwrap();
                stream.synchronize().unwrap();
                let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN).function(function);
                simulator.add_rule(rule.nth(nth));
                let mut words = vec![7_u32; len];
                let result = big.copy_to_host(&mut words);
                let seen = words.clone();
                let up = buffer.copy_from_host(&vec![2; case.n]);
                simulator.clear_rules();
                let _ = stream.synchronize();
                if result.is_err() {
                    assert_eq!(words, seen, "{}: {function}", case.title);
                }
                if result.is_ok() {
                    case.expect_words(&words, 0);
                }
                let value = if up.is_ok() {
                    2
                } else {
                    buffer.to_vec().unwrap()[0]
                };
                case.expect(&buffer, value);
                buffer.copy_from_host(&vec![1; case.n]).unwrap();
                case.expect(&buffer, 1);
            }
        }
    });
}

/// Claim: page-locked memory of a copy that failed is never freed or handed out. Waits for
/// transfers fail: the error does not return the memory, and the pool hands out another block.
#[test]
fn transfers_that_fail_keep_their_memory() {
    Attack::new().injects_failures().leaks().run(|case| {
        let simulator = case.simulator.as_ref().unwrap();
        let stream = case.stream();
        let pool = case.pinned_pool();
        let source = case.filled(&stream, 3);
        for function in ["cuEventSynchronize", "cuEventQuery"] {
            let block = PinnedBuffer::<u32>::zeroed_in(&pool, case.n).unwrap();
            let address = block.as_ptr();
            let transfer = source.copy_to_pinned_async(block, &stream).unwrap();
            let rule = Rule::new(Status::CUDA_ERROR_UNKNOWN).function(function);
            simulator.add_rule(rule);
            let result = transfer.wait();
            simulator.clear_rules();
            match result {
                Ok(block) => case.expect_words(&block, 3),
                Err(error) => {
                    assert!(error.into_memory().is_none(), "{}", case.title);
                    let mut next = pool.take::<u32>(case.n).unwrap();
                    assert_ne!(next.as_ptr(), address, "{}", case.title);
                    next.fill(4);
                    stream.synchronize().unwrap();
                    case.expect_words(&next, 4);
                }
            }
        }
    });
}

/// Claim: memory is borrowed for a scope. Copies of two scopes on two streams overlap, in memory of
/// pools and of `Vec`s.
#[test]
fn scopes_on_two_streams_share_a_source() {
    Attack::new().run(|case| {
        let (one, other) = (case.stream(), case.stream());
        let mut buffer = case.filled(&one, 0);
        let (up, mut down) = (case.pinned(4), case.pinned(0));
        let mut last = case.pinned(0);
        case.hold_up(&one);
        one.copy_scope(|outer| {
            outer.copy_from_host(buffer.as_mut_slice(), &up)?;
            other.copy_scope(|inner| inner.copy_to_host(buffer.as_slice(), &mut down))?;
            case.expect_words(&down, 4);
            down.fill(1);
            buffer.fill(8)?;
            outer.copy_to_host(buffer.as_slice(), &mut last)
        })
        .unwrap();
        case.expect_words(&down, 1);
        case.expect_words(&last, 8);
    });
}

/// Claim: a copy of borrowed page-locked memory ends with its scope. The copies within the device
/// are taken out of the batch and queued after the scope, when the page-locked memory was changed
/// and returned to its pool.
#[test]
fn a_batch_does_not_leave_its_scope() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let flags = PinnedFlags::default();
        let pool = PinnedCachingPool::with_limit(&case.context, flags, 4 * case.n * 4);
        let source = case.filled(&stream, 7);
        let mut copied = case.filled(&stream, 0);
        let mut target = case.when_free(|| PinnedBuffer::from_host_in(&pool, &vec![1; case.n]));
        let mut taken = CopyBatch::new();
        stream
            .copy_scope(|scope| {
                let mut batch = scope.batch();
                batch.copy_to_host(&source, &mut target)?;
                batch.on_device().copy(&mut copied, &source)?;
                std::mem::swap(batch.on_device(), &mut taken);
                batch.queue()
            })
            .unwrap();
        // The copy to the host stayed in the scope.
        case.expect_words(&target, 7);
        target.fill(2);
        case.hold_up(&stream);
        taken.queue(&stream).unwrap();
        drop(target);
        let next = case.when_free(|| PinnedBuffer::from_host_in(&pool, &vec![3; case.n]));
        stream.synchronize().unwrap();
        case.expect_words(&next, 3);
        case.expect(&copied, 7);
    });
}
