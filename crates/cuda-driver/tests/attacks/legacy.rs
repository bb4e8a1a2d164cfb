//! Streams that are blocked until the program has seen a result: nothing else may wait for them.

use cuda_driver::memory::Unpooled;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cuda_driver::memory::{ManagedBuffer, MemoryPool, PitchedBuffer};
use cuda_driver::prelude::*;
use cuda_driver::stream::{ValueBatch, WaitCondition};

use crate::support::{Attack, Case};

/// The time limit for a result that depends on no blocked stream.
const SOON: Duration = Duration::from_secs(5);

fn blocking(case: &Case) -> Stream {
    Stream::new(&case.context, StreamFlags::empty(), 0).unwrap()
}

/// Blocks a stream, queues a use of a buffer on another one, lets `meddle` queue something in the
/// legacy stream, and reads the buffer on a third stream, which must wait only for the use.
fn expect_progress(case: &Case, meddle: impl FnOnce(&Stream)) {
    let (held, user, reader) = (blocking(case), blocking(case), case.stream());
    let writer = case.stream();
    let flags = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &writer, 1).unwrap();
    let mut buffer = case.filled(&writer, 1);
    let one = case.filled(&writer, 1);
    let mut result = case.filled(&reader, 0);
    case.context.synchronize().unwrap();
    held.wait_value(&flags, 0, WaitCondition::EQUAL, 1_u32)
        .unwrap();
    case.mix(&user, buffer.as_mut_slice(), one.as_slice())
        .unwrap();
    meddle(&case.context.legacy_stream());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            case.copy(&reader, result.as_mut_slice(), buffer.as_slice())
                .unwrap();
            case.expect(&result, 3);
            let _ = sender.send(());
        });
        let in_time = receiver.recv_timeout(SOON);
        // Unblocks the stream, so that a failure does not hang.
        writer.write_value(&flags, 0, 1_u32).unwrap();
        assert!(
            in_time.is_ok(),
            "{}: the copy waits for a blocked stream",
            case.title
        );
    });
}

/// Claim: uses on blocking streams can be waited for separately, although the legacy stream waits
/// for a blocked stream. An event is recorded on the legacy stream.
#[test]
fn event_in_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        let event = case.event();
        expect_progress(case, |legacy| event.record(legacy).unwrap());
    });
}

/// Attacks the claim above by creating a completion of the legacy stream.
#[test]
fn completion_of_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        expect_progress(case, |legacy| drop(legacy.completion()));
    });
}

/// Attacks the claim above by joining the legacy stream to another one.
#[test]
fn join_with_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        let own = case.stream();
        expect_progress(case, |legacy| own.join(legacy).unwrap());
    });
}

/// Attacks the claim above by forking a stream from the legacy stream.
#[test]
fn fork_of_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        expect_progress(case, |legacy| drop(legacy.fork().unwrap()));
    });
}

/// An executable that fills `buffer` with 1.
fn filling(case: &Case, buffer: &mut DeviceBuffer<u32>) -> GraphExec {
    let mut graph = case.graph();
    graph.add_fill(&[], buffer, 1_u32).unwrap();
    graph.instantiate().unwrap()
}

/// Attacks the claim above by allocating from a pool on the legacy stream.
#[test]
fn allocation_in_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        let pool = MemoryPool::new(case.context.device()).unwrap();
        expect_progress(case, |legacy| {
            drop(DeviceBuffer::<u32>::zeroed_in(&pool, legacy, 8).unwrap())
        });
    });
}

/// Attacks the claim above by uploading an executable on the legacy stream.
#[test]
fn upload_in_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 0);
        let exec = filling(case, &mut buffer);
        expect_progress(case, |legacy| exec.upload(legacy).unwrap());
    });
}

/// Attacks the claim above by launching an executable on the legacy stream.
#[test]
fn graph_in_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 0);
        let exec = filling(case, &mut buffer);
        expect_progress(case, |legacy| exec.launch(legacy).unwrap());
        case.expect(&buffer, 1);
    });
}

/// Attacks the claim above by launching a kernel on the legacy stream.
#[test]
fn kernel_in_the_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let (mut buffer, one) = (case.filled(&stream, 0), case.filled(&stream, 1));
        expect_progress(case, |legacy| {
            case.mix(legacy, buffer.as_mut_slice(), one.as_slice())
                .unwrap();
        });
        case.expect(&buffer, 1);
    });
}

/// Attacks the claim above by queueing a host function, a copy and words on the legacy stream.
#[test]
fn calls_on_the_legacy_stream_block_no_other_work() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let one = case.filled(&stream, 1);
        let words = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &stream, 2).unwrap();
        let pinned = case.pinned(0);
        expect_progress(case, |legacy| {
            drop(legacy.launch_host(|| {}).unwrap());
            drop(one.copy_to_pinned_async(pinned, legacy).unwrap());
            let batch = ValueBatch::new().write(&words, 0, 1_u32).unwrap();
            batch.queue(legacy).unwrap();
            legacy.write_value(&words, 1, 1_u32).unwrap();
        });
        assert_eq!(words.to_vec().unwrap(), [1, 1], "{}", case.title);
    });
}

/// Attacks the claim above without queueing anything in the legacy stream while the other stream is
/// blocked; but the program has used the legacy stream before.
#[test]
fn used_legacy_stream_blocks_no_other_work() {
    Attack::new().run(|case| {
        let legacy = case.context.legacy_stream();
        let mut buffer = case.filled(&legacy, 1);
        buffer.fill(2).unwrap();
        expect_progress(case, |_| ());
        case.expect(&buffer, 2);
    });
}

/// Claim: a blocked stream delays the deferred drops of its own context, and no others. Owners of
/// all kinds are dropped in a host function while a stream that uses them is blocked. Owners of
/// another context must be freed in time.
#[test]
fn blocked_stream_delays_no_other_deferred_drop() {
    Attack::new().with_two_contexts().run(|case| {
        let (held, writer, host) = (case.stream(), case.stream(), case.stream());
        // Not the owning stream of a buffer that is dropped, because that stream waits for the uses
        // of the buffer.
        let release = case.stream();
        let flags = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &release, 1).unwrap();
        let mut result = case.filled(&held, 0);
        let plain = DeviceBuffer::<u32>::zeroed_in(&Unpooled, &writer, case.n).unwrap();
        let managed = ManagedBuffer::from_host(&writer, &vec![2_u32; case.n]).unwrap();
        let pitched = PitchedBuffer::from_host(&writer, (8, 8), &[3_u32; 64]).unwrap();
        let mut rows = PitchedBuffer::<u32>::zeroed(&held, (8, 8)).unwrap();
        let alive = Arc::new(());
        let exec = {
            let kept = Arc::clone(&alive);
            let mut graph = case.other().graph();
            let host = move || {
                let _kept = &kept;
            };
            graph.add_host(&[], host).unwrap();
            graph.instantiate().unwrap()
        };
        let there = case.other().stream();
        exec.launch(&there).unwrap();
        case.other().context.synchronize().unwrap();
        case.context.synchronize().unwrap();
        held.wait_value(&flags, 0, WaitCondition::EQUAL, 1_u32)
            .unwrap();
        case.copy(&held, result.as_mut_slice(), plain.as_slice())
            .unwrap();
        case.mix(&held, result.as_mut_slice(), managed.as_slice())
            .unwrap();
        rows.as_mut_slice().copy_from(&pitched.as_slice()).unwrap();
        host.launch_host(move || drop((plain, managed, pitched)))
            .unwrap()
            .wait()
            .unwrap();
        there
            .launch_host(move || drop(exec))
            .unwrap()
            .wait()
            .unwrap();
        let start = std::time::Instant::now();
        while Arc::strong_count(&alive) > 1 && start.elapsed() < SOON {
            thread::sleep(Duration::from_millis(1));
        }
        let left = Arc::strong_count(&alive) - 1;
        release.write_value(&flags, 0, 1_u32).unwrap();
        case.expect(&result, 2);
        case.expect_words(&rows.to_vec().unwrap(), 3);
        assert_eq!(
            left, 0,
            "{}: a deferred drop waits for a stream of another context",
            case.title
        );
    });
}
