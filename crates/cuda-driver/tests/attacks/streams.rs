//! Streams of all kinds, and pieces of buffers on them.

use std::thread;

use cuda_driver::prelude::*;
use cuda_driver::stream::StreamPool;

use crate::support::Attack;

/// Claim: halves of one buffer may be written on two streams at once, and "the last write" is the
/// set of both. The pieces are written, split again, read as a whole, and written as a whole.
#[test]
fn pieces_on_several_streams_join_in_the_whole() {
    Attack::new().run(|case| {
        let pool = StreamPool::new(&case.context, 4, 0).unwrap();
        let owner = case.stream();
        let (mut x, one) = (case.filled(&owner, 0), case.filled(&owner, 1));
        let mut model = vec![0_u32; case.n];
        for round in 0..6 {
            let cut = 1 + case.pick(case.n - 1);
            let (low, high) = x.as_mut_slice().split_at_mut(cut).unwrap();
            for (piece, range) in [(low, 0..cut), (high, cut..case.n)] {
                let stream = pool.next();
                case.hold_up(stream);
                let add = one.slice(range.clone()).unwrap();
                if case.pick(3) > 0 {
                    case.mix(stream, piece, add).unwrap();
                    model[range]
                        .iter_mut()
                        .for_each(|word| *word = 2 * *word + 1);
                }
            }
            if round % 2 == 0 {
                case.mix(pool.next(), x.as_mut_slice(), one.as_slice())
                    .unwrap();
                model.iter_mut().for_each(|word| *word = 2 * *word + 1);
            }
        }
        assert_eq!(x.to_vec().unwrap(), model, "{}", case.title);
    });
}

/// Claim: two readers on two streams are done before a third stream writes. Many readers of many
/// pieces are dropped with their streams before the buffer is written, and again before it is
/// freed.
#[test]
fn readers_are_done_before_writers_and_frees() {
    Attack::new().run(|case| {
        let owner = case.stream();
        let mut results = Vec::new();
        for round in 1..4 {
            let mut x = case.filled(&owner, round);
            for value in [round, 50] {
                for _ in 0..5 {
                    let reader = case.stream();
                    let mut result = case.filled(&reader, 0);
                    case.hold_up(&reader);
                    case.copy(&reader, result.as_mut_slice(), x.as_slice())
                        .unwrap();
                    results.push((result, value));
                }
                x.fill(50).unwrap();
            }
        }
        let fresh = case.filled(&owner, 99);
        for (result, value) in &results {
            case.expect(result, *value);
        }
        case.expect(&fresh, 99);
    });
}

/// Claim: the per-thread stream is a queue of the calling thread. Threads use buffers there and end
/// at once, while the work is queued; others read the buffers.
#[test]
fn threads_end_with_work_on_their_streams() {
    Attack::new().run(|case| {
        let owner = case.stream();
        let (mut x, one) = (case.filled(&owner, 0), case.filled(&owner, 1));
        for round in 0..6 {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let own = case.context.per_thread_stream();
                    case.hold_up(&own);
                    let add = DeviceBuffer::from_host(&own, &one.to_vec().unwrap()).unwrap();
                    case.mix(&own, x.as_mut_slice(), add.as_slice()).unwrap();
                });
            });
            if round % 2 == 0 {
                case.expect(&x, (1 << (round + 1)) - 1);
            }
        }
        case.expect(&x, 63);
    });
}

/// Claim: the same handle denotes another queue on each thread. A per-thread stream is passed to
/// threads, which use pieces of one buffer on it at once.
#[test]
fn one_per_thread_handle_on_many_threads() {
    Attack::new().run(|case| {
        let own = case.context.per_thread_stream();
        let (mut x, one) = (case.filled(&own, 0), case.filled(&own, 1));
        let size = case.n.div_ceil(case.threads);
        for _ in 0..3 {
            thread::scope(|scope| {
                for mut piece in x.chunks_mut(size).unwrap() {
                    let (own, one) = (own.clone(), &one);
                    scope.spawn(move || {
                        for _ in 0..3 {
                            let add = one.slice(..piece.len()).unwrap();
                            case.mix(&own, piece.reborrow(), add).unwrap();
                        }
                    });
                }
            });
            // On this thread's queue of the same handle.
            case.mix(&own, x.as_mut_slice(), one.as_slice()).unwrap();
        }
        case.expect(&x, (1 << 12) - 1);
    });
}

/// Claim: uses of buffers are ordered between all kinds of streams. Buffers are used on blocking,
/// non-blocking, legacy and per-thread streams in a random order, and dropped in between.
#[test]
fn kinds_of_streams_are_mixed() {
    Attack::new().run(|case| {
        let flags = StreamFlags::empty();
        let streams = [
            case.stream(),
            case.context.legacy_stream(),
            Stream::new(&case.context, flags, 0).unwrap(),
            case.context.per_thread_stream(),
            case.context.default_stream().unwrap(),
        ];
        let mut x = case.filled(&streams[0], 0);
        let mut expected = 0_u32;
        for round in 0..16 {
            let (owner, stream) = (&streams[case.pick(5)], &streams[case.pick(5)]);
            let add = case.filled(owner, round);
            case.hold_up(stream);
            case.mix(stream, x.as_mut_slice(), add.as_slice()).unwrap();
            expected = expected.wrapping_mul(2).wrapping_add(round);
        }
        case.expect(&x, expected);
    });
}

/// Claim: a copy is a use of both buffers, on the owning stream of its target. The source is
/// written and dropped, and its memory handed out again, before the copy has run.
#[test]
fn copy_source_is_written_and_dropped() {
    Attack::new().run(|case| {
        let (owner, there) = (case.stream(), case.stream());
        for round in 1..4 {
            let mut source = case.filled(&owner, round);
            let (mut first, mut second) = (case.filled(&there, 0), case.filled(&there, 0));
            case.hold_up(&there);
            first.as_mut_slice().copy_from(source.as_slice()).unwrap();
            source.fill(50).unwrap();
            second.as_mut_slice().copy_from(source.as_slice()).unwrap();
            drop(source);
            let fresh = case.filled(&owner, 90);
            case.expect(&first, round);
            case.expect(&second, 50);
            case.expect(&fresh, 90);
        }
    });
}
