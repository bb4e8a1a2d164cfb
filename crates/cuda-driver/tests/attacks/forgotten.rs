//! Owners that are forgotten instead of dropped.

use cuda_driver::memory::Unpooled;
use std::mem;

use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;
use cuda_driver::stream::ValueBatch;

use crate::support::Attack;

/// Claim: memory that a copy still uses is not handed out again. A download into a block of a
/// caching pool is forgotten; it must not write the next block that the pool hands out.
#[test]
fn forgotten_download_keeps_its_block() {
    Attack::new().leaks().run(|case| {
        let (stream, n) = (case.stream(), case.n);
        let pool = case.pinned_pool();
        let source = case.filled(&stream, 7);
        for round in 0..4 {
            case.hold_up(&stream);
            let block = PinnedBuffer::<u32>::zeroed_in(&pool, n).unwrap();
            mem::forget(source.copy_to_pinned_async(block, &stream).unwrap());
            let mut next = pool.take::<u32>(n).unwrap();
            next.fill(100 + round);
            stream.synchronize().unwrap();
            case.expect_words(&next, 100 + round);
        }
    });
}

/// Claim: an asynchronous copy owns its source until it is done. An upload is forgotten, and other
/// blocks that its pool hands out are overwritten: the device must have the words of the first
/// block.
#[test]
fn forgotten_upload_reads_its_own_words() {
    Attack::new().leaks().run(|case| {
        let (stream, n) = (case.stream(), case.n);
        let pool = case.pinned_pool();
        let mut target = case.filled(&stream, 0);
        for round in 1..5 {
            case.hold_up(&stream);
            let block = PinnedBuffer::from_host_in(&pool, &vec![round; n]).unwrap();
            mem::forget(target.copy_from_pinned_async(block, &stream).unwrap());
            let mut next = pool.take::<u32>(n).unwrap();
            next.fill(99);
            case.expect(&target, round);
        }
    });
}

/// Claim: a forgotten buffer is leaked, without any other effect: its uses stay ordered, and its
/// address is not given to another buffer.
#[test]
fn forgotten_buffers_are_not_handed_out() {
    Attack::new().leaks().run(|case| {
        let (owner, other) = (case.stream(), case.stream());
        let pool = CachingPool::new(&case.context);
        let mut result = case.filled(&owner, 0);
        let addresses: Vec<_> = (0..4)
            .map(|round| {
                let mut buffer =
                    DeviceBuffer::from_host_in(&pool, &owner, &vec![round; case.n]).unwrap();
                case.hold_up(&other);
                case.mix(&other, result.as_mut_slice(), buffer.as_slice())
                    .unwrap();
                let address = buffer.as_raw();
                buffer.fill(50).unwrap();
                mem::forget(buffer);
                address
            })
            .collect();
        for _ in 0..4 {
            let fresh = DeviceBuffer::<u32>::zeroed_in(&pool, &owner, case.n).unwrap();
            assert!(!addresses.contains(&fresh.as_raw()), "{}", case.title);
            mem::forget(fresh);
        }
        // 2 * (2 * (2 * (0 + 0) + 1) + 2) + 3
        case.expect(&result, 11);
    });
}

/// Claim: a use keeps its stream alive. Streams with queued work are forgotten: the work runs, and
/// later uses of the buffers are ordered after it.
#[test]
fn forgotten_streams_run_their_work() {
    Attack::new().leaks().run(|case| {
        let owner = case.stream();
        let (mut buffer, one) = (case.filled(&owner, 1), case.filled(&owner, 1));
        for _ in 0..5 {
            let stream = case.stream();
            case.hold_up(&stream);
            case.mix(&stream, buffer.as_mut_slice(), one.as_slice())
                .unwrap();
            mem::forget(stream);
        }
        case.expect(&buffer, 63);
    });
}

/// Claim: launches borrow nothing, and graphs keep the memory of their nodes alive. Executables and
/// graphs are forgotten while they run; their buffers are dropped, and others are allocated.
#[test]
fn forgotten_executables_hold_their_buffers() {
    Attack::new().leaks().run(|case| {
        let stream = case.stream();
        let mut result = case.filled(&stream, 0);
        let inner = case.filled(&stream, 5);
        let mut graph = case.graph();
        graph.add_copy(&[], &mut result, &inner).unwrap();
        drop(inner);
        let exec = graph.instantiate().unwrap();
        mem::forget(graph);
        case.launch_late(&exec, &stream);
        mem::forget(exec);
        let others: Vec<_> = (0..4).map(|_| case.filled(&stream, 9)).collect();
        case.expect(&result, 5);
        for other in &others {
            case.expect(other, 9);
        }
    });
}

/// Claim: host functions are independent of the objects that wait for them. Calls, completions and
/// events are forgotten: each closure runs once, and later work is ordered.
#[test]
fn forgotten_calls_and_completions_still_run() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    Attack::new().leaks().run(|case| {
        let (stream, other) = (case.stream(), case.stream());
        let count = Arc::new(AtomicU32::new(0));
        let mut buffer = case.filled(&stream, 0);
        for round in 0..6 {
            let counter = Arc::clone(&count);
            let add = move || {
                counter.fetch_add(1, Ordering::SeqCst);
            };
            mem::forget(stream.launch_host(add).unwrap());
            buffer.fill(round).unwrap();
            let event = case.event();
            event.record(&stream).unwrap();
            other.wait(&event).unwrap();
            mem::forget((event.completion(), stream.completion(), event));
        }
        other.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 6, "{}", case.title);
        case.expect(&buffer, 5);
    });
}

/// Claim: a batch that is not queued has no effect and blocks nothing.
#[test]
fn forgotten_batch_writes_nothing() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let words = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 4).unwrap();
        mem::forget(ValueBatch::new().write(&words, 0, 9_u32).unwrap());
        let batch = ValueBatch::new().write(&words, 1, 3_u32).unwrap();
        batch.queue(&stream).unwrap();
        assert_eq!(words.to_vec().unwrap(), [0, 3, 0, 0], "{}", case.title);
    });
}
