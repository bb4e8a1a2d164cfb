//! Words on which streams wait, and which streams write.

use cuda_driver::memory::Unpooled;
use std::thread;

use cuda_driver::prelude::*;
use cuda_driver::stream::{ValueBatch, WaitCondition};

use crate::support::Attack;

const EQUAL: WaitCondition = WaitCondition::EQUAL;

fn words(stream: &Stream) -> DeviceBuffer<u32> {
    DeviceBuffer::zeroed_in(&Unpooled, stream, 8).unwrap()
}

/// Claim: freeing memory waits for streams that wait for a word in it. The buffer is dropped while
/// a stream waits, after the write that ends the wait was queued elsewhere; other buffers are
/// allocated meanwhile.
#[test]
fn word_is_dropped_under_its_waiter() {
    Attack::new().run(|case| {
        let (waiter, writer) = (case.stream(), case.stream());
        let mut x = case.filled(&waiter, 0);
        let one = case.filled(&waiter, 1);
        for _ in 0..4 {
            let flags = words(&writer);
            waiter.wait_value(&flags, 3, EQUAL, 1_u32).unwrap();
            case.mix(&waiter, x.as_mut_slice(), one.as_slice()).unwrap();
            case.hold_up(&writer);
            writer.write_value(&flags, 3, 1_u32).unwrap();
            drop(flags);
            let fresh = words(&writer);
            assert_eq!(fresh.to_vec().unwrap(), [0; 8], "{}", case.title);
        }
        case.expect(&x, 15);
    });
}

/// Claim: a write of a word is ordered with the buffer's other uses: earlier reads see the old
/// word, later reads the new one.
#[test]
fn writes_of_words_are_uses() {
    Attack::new().run(|case| {
        let (owner, writer, reader) = (case.stream(), case.stream(), case.stream());
        let flags = words(&owner);
        let mut seen = Vec::new();
        for value in 1..6 {
            let mut before = DeviceBuffer::<u32>::zeroed(&reader, 8).unwrap();
            let mut after = DeviceBuffer::<u32>::zeroed(&reader, 8).unwrap();
            case.hold_up(&reader);
            case.copy(&reader, before.as_mut_slice(), flags.as_slice())
                .unwrap();
            case.hold_up(&writer);
            writer.write_value(&flags, 2, value).unwrap();
            case.copy(&reader, after.as_mut_slice(), flags.as_slice())
                .unwrap();
            seen.push((before, after, value));
        }
        for (before, after, value) in seen {
            assert_eq!(before.to_vec().unwrap()[2], value - 1, "{}", case.title);
            assert_eq!(after.to_vec().unwrap()[2], value, "{}", case.title);
        }
    });
}

/// Claim: the operations of a batch run in order, and the stream uses their memory. Two streams run
/// in lock step, each waiting for the other's words, and all handles are dropped before they run.
#[test]
fn batches_without_owners_run_in_lock_step() {
    Attack::new().run(|case| {
        let (one, other) = (case.stream(), case.stream());
        let (mut x, y) = (case.filled(&one, 0), case.filled(&one, 1));
        let (a, b) = (words(&one), words(&other));
        let mut z = case.filled(&other, 0);
        // Operations that do not wait are queued first, so that both streams make progress as soon
        // as they can.
        for step in 1..5_u32 {
            case.mix(&one, x.as_mut_slice(), y.as_slice()).unwrap();
            let batch = ValueBatch::new().write(&a, 0, step).unwrap();
            batch.queue(&one).unwrap();
            let batch = ValueBatch::new()
                .wait(&a, 0, WaitCondition::GREATER_OR_EQUAL, step)
                .and_then(|batch| batch.write(&b, 1, step));
            batch.unwrap().queue(&other).unwrap();
            case.mix(&other, z.as_mut_slice(), y.as_slice()).unwrap();
            one.wait_value(&b, 1, WaitCondition::GREATER_OR_EQUAL, step)
                .unwrap();
        }
        drop((a, b, y));
        let fresh = words(&one);
        drop((one, other));
        case.expect(&x, 15);
        case.expect(&z, 15);
        assert_eq!(fresh.to_vec().unwrap(), [0; 8], "{}", case.title);
    });
}

/// Claim: words outside of the memory, or in memory on which streams cannot wait, are errors, and
/// nothing is queued.
#[test]
fn words_out_of_bounds_are_refused() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let flags = words(&stream);
        for index in [8, 9, usize::MAX, usize::MAX / 4 + 1] {
            assert!(
                stream.write_value(&flags, index, 1_u32).is_err(),
                "{}",
                case.title
            );
            assert!(stream.wait_value(&flags, index, EQUAL, 1_u32).is_err());
            assert!(ValueBatch::new().write(&flags, index, 1_u32).is_err());
            let part = flags.slice(4..6).unwrap();
            assert!(
                stream.write_value(part, index, 1_u32).is_err(),
                "{}",
                case.title
            );
        }
        assert!(
            stream
                .write_value(flags.slice(4..6).unwrap(), 2, 1_u32)
                .is_err()
        );
        let cast = flags.slice(..7).unwrap().cast::<u64>();
        assert!(cast.is_err(), "{}", case.title);
        assert_eq!(flags.to_vec().unwrap(), [0; 8], "{}", case.title);
    });
}

/// Claim: words are shared like atomics. Threads write and wait for words of one buffer at once.
#[test]
fn threads_signal_each_other() {
    Attack::new().run(|case| {
        let owner = case.stream();
        let flags = words(&owner);
        thread::scope(|scope| {
            for thread in 0..case.threads {
                let flags = &flags;
                scope.spawn(move || {
                    let stream = case.stream();
                    for round in 1..5_u32 {
                        stream.write_value(flags, thread, round).unwrap();
                        stream
                            .wait_value(flags, thread, WaitCondition::GREATER_OR_EQUAL, round)
                            .unwrap();
                    }
                });
            }
        });
        let got = flags.to_vec().unwrap();
        assert!(
            got[..case.threads].iter().all(|word| *word == 4),
            "{}: {got:?}",
            case.title
        );
    });
}
