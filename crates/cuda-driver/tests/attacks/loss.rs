//! A device that is lost while work is in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use cuda_driver::error::Status;
use cuda_driver::graph::GraphHostBuffer;
use cuda_driver::memory::CachingPool;
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

const LOST: Status = Status::CUDA_ERROR_ILLEGAL_ADDRESS;

fn lose(case: &Case) {
    case.simulator.as_ref().unwrap().lose_device(0, LOST);
}

/// Claim: page-locked memory of a copy that failed is neither reused nor freed. Transfers are
/// waited for, dropped and polled after the loss; their blocks are not handed out.
#[test]
fn blocks_of_lost_copies_are_not_handed_out() {
    Attack::new().loses_device().run(|case| {
        let stream = case.stream();
        let pool = case.pinned_pool();
        let source = case.filled(&stream, 5);
        let blocks: Vec<_> = (0..3)
            .map(|_| PinnedBuffer::<u32>::zeroed_in(&pool, case.n).unwrap())
            .collect();
        let addresses: Vec<_> = blocks.iter().map(|block| block.as_ptr()).collect();
        let spare = PinnedBuffer::<u32>::zeroed_in(&pool, case.n).unwrap();
        let spare_at = spare.as_ptr();
        case.hold_up(&stream);
        let mut transfers = blocks
            .into_iter()
            .map(|block| source.copy_to_pinned_async(block, &stream).unwrap());
        let (waited, dropped) = (transfers.next().unwrap(), transfers.next().unwrap());
        let asked = transfers.next().unwrap();
        lose(case);
        if let Err(error) = waited.wait() {
            assert!(error.into_memory().is_none(), "{}", case.title);
        }
        drop((dropped, spare));
        let _ = asked.is_done();
        drop(asked);
        for _ in 0..4 {
            if let Ok(mut block) = pool.take::<u32>(case.n) {
                let at = block.as_ptr();
                assert!(at == spare_at || !addresses.contains(&at), "{}", case.title);
                block.fill(9);
                case.expect_words(&block, 9);
            }
        }
    });
}

/// Claim: every call on a lost device fails, drops do not panic, and futures and host functions
/// end. All kinds of owners are used and dropped after the loss, on several threads.
#[test]
fn everything_is_dropped_after_the_loss() {
    Attack::new().loses_device().run(|case| {
        let stream = case.stream();
        let pool = CachingPool::new(&case.context);
        let mut buffer = DeviceBuffer::from_host_in(&pool, &stream, &vec![1; case.n]).unwrap();
        let host = GraphHostBuffer::new(case.pinned(2)).unwrap();
        let mut graph = case.graph();
        graph.add_copy(&[], &mut buffer, &host).unwrap();
        let exec = graph.instantiate().unwrap();
        let drops = Arc::new(AtomicU32::new(0));
        struct Counts(Arc<AtomicU32>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let counts = Counts(Arc::clone(&drops));
        case.launch_late(&exec, &stream);
        let call = stream.launch_host(move || drop(counts)).unwrap();
        let completion = stream.completion();
        lose(case);
        // Work in flight may have finished before the loss.
        let _ = completion.wait();
        let _ = call.wait();
        assert!(stream.synchronize().is_err(), "{}", case.title);
        assert!(buffer.to_vec().is_err(), "{}", case.title);
        assert!(exec.launch(&stream).is_err(), "{}", case.title);
        assert!(
            DeviceBuffer::<u32>::zeroed_in(&pool, &stream, 8).is_err(),
            "{}",
            case.title
        );
        thread::scope(|scope| {
            scope.spawn(move || drop((buffer, exec)));
            scope.spawn(move || drop((graph, host, pool)));
            scope.spawn(move || drop(stream));
        });
        case.until("drops the closure", || drops.load(Ordering::SeqCst) == 1);
    });
}

/// Claim: after a copy of pageable memory has failed, it no longer writes the destination: the
/// slices belong to the program.
#[test]
fn slices_are_free_after_the_loss() {
    Attack::new().loses_device().injects_failures().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 7);
        let words = vec![3_u32; case.n];
        let mut back = vec![1_u32; case.n];
        case.hold_up(&stream);
        thread::scope(|scope| {
            scope.spawn(|| lose(case));
            for _ in 0..8 {
                if buffer.copy_from_host(&words).is_err() {
                    break;
                }
            }
        });
        assert!(buffer.copy_to_host(&mut back).is_err(), "{}", case.title);
        let mine = vec![2_u32; case.n];
        back.copy_from_slice(&mine);
        drop((buffer, stream));
        thread::sleep(std::time::Duration::from_millis(5));
        case.expect_words(&back, 2);
    });
}

/// Claim: the loss of one software device does not affect the other (on GPUs it may). One device is
/// lost while a copy between both is queued; the buffers of the other device are right.
#[test]
fn other_device_still_works() {
    Attack::new()
        .with_two_contexts()
        .loses_device()
        .run(|case| {
            let other = case.other();
            if other.context.device() == case.context.device() {
                return;
            }
            let (owner, there) = (case.stream(), other.stream());
            let source = case.filled(&owner, 4);
            let kept = other.filled(&there, 6);
            let mut target = other.filled(&there, 5);
            let one = other.filled(&there, 1);
            let _ = target.as_mut_slice().copy_from_peer(source.as_slice());
            lose(case);
            drop((source, owner));
            let second = other.stream();
            let mut fresh = other.filled(&second, 2);
            other
                .mix(&second, fresh.as_mut_slice(), one.as_slice())
                .unwrap();
            case.expect(&fresh, 5);
            case.expect(&kept, 6);
        });
}
