//! Memory that several threads write through aliases, and views that own their buffer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cuda_driver::launch::KernelArg;
use cuda_driver::memory::{CachingPool, SharedSlice};
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

/// The number of words: enough for two kernels that are not ordered to overlap in time.
const MANY: usize = 1 << 15;

fn filled(stream: &Stream, value: u32) -> DeviceBuffer<u32> {
    DeviceBuffer::from_host(stream, &[value; MANY]).unwrap()
}

/// A buffer that allows aliases.
fn aliased(stream: &Stream, value: u32) -> Arc<DeviceBuffer<u32>> {
    let mut buffer = filled(stream, value);
    buffer.allow_aliases().unwrap();
    Arc::new(buffer)
}

/// A writable alias of a buffer from `aliased`.
fn alias(buffer: &DeviceBuffer<u32>) -> DeviceSliceMut<'_, u32> {
    // SAFETY: one call must not receive overlapping views ← the programs below pass other buffers
    // beside an alias; nothing relies on unchanged elements, and aliases are allowed from the
    // start.
    unsafe { buffer.alias_mut() }.unwrap()
}

/// A number whose conversion takes long: a launch converts its arguments between waiting for
/// earlier uses and queueing the kernel.
struct Slow(u32);

// SAFETY: `Value` must be what the kernel expects ← it takes the number. No work is queued.
unsafe impl KernelArg for Slow {
    type Value = u32;

    fn value(&self) -> u32 {
        thread::sleep(Duration::from_micros(300));
        self.0
    }
}

fn config() -> LaunchConfig {
    LaunchConfig::for_num_elems(MANY).unwrap()
}

/// Launches a kernel that computes `x = 2 * x + y`. Other threads have time to come in between.
fn mix(case: &Case, stream: &Stream, x: &DeviceBuffer<u32>, y: &DeviceBuffer<u32>) {
    let args = (alias(x), y, Slow(MANY as u32));
    // SAFETY: the kernel uses MANY words of each ← both have as many.
    unsafe { stream.launch(case.mix_kernel(), config(), args) }.unwrap();
}

/// Claim: uses through aliases on several threads and streams run one after the other.
#[test]
fn aliases_on_several_threads_run_one_after_another() {
    Attack::new().run(|case| {
        let home = case.stream();
        let (x, one) = (aliased(&home, 0), filled(&home, 1));
        let threads = 1 + case.threads;
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let stream = case.stream();
                    for _ in 0..4 {
                        case.hold_up(&stream);
                        mix(case, &stream, &x, &one);
                    }
                });
            }
        });
        case.expect(&x, (1 << (4 * threads)) - 1);
    });
}

/// The results of `rounds` steps `a = 2 * a + b` and `rounds` steps `b = 2 * b + a`, in any order.
fn interleavings(a: u32, b: u32, rounds: (u32, u32), found: &mut BTreeSet<(u32, u32)>) {
    if rounds == (0, 0) {
        found.insert((a, b));
    }
    if rounds.0 > 0 {
        interleavings(2 * a + b, b, (rounds.0 - 1, rounds.1), found);
    }
    if rounds.1 > 0 {
        interleavings(a, 2 * b + a, (rounds.0, rounds.1 - 1), found);
    }
}

/// Claim: one thread adds `b` to `a` while another one adds `a` to `b`. Neither waits for the other
/// forever, and the result is that of some order of the launches.
#[test]
fn two_threads_add_two_buffers_to_each_other() {
    Attack::new().run(|case| {
        let home = case.stream();
        let (a, b) = (aliased(&home, 1), aliased(&home, 2));
        let add = |x: &Arc<DeviceBuffer<u32>>, y: &Arc<DeviceBuffer<u32>>| {
            let stream = case.stream();
            for _ in 0..3 {
                case.hold_up(&stream);
                mix(case, &stream, x, y);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| add(&a, &b));
            scope.spawn(|| add(&b, &a));
        });
        let (found_a, found_b) = (a.to_vec().unwrap(), b.to_vec().unwrap());
        let mut allowed = BTreeSet::new();
        interleavings(1, 2, (3, 3), &mut allowed);
        let pair = (found_a[0], found_b[0]);
        assert!(allowed.contains(&pair), "{}: {pair:?}", case.title);
        case.expect_words(&found_a, pair.0);
        case.expect_words(&found_b, pair.1);
    });
}

/// Claim: `a = b` and `b = a` at the same time leave equal buffers. Here the read is the first
/// argument of each launch, and the source of each copy.
#[test]
fn two_threads_copy_two_buffers_to_each_other() {
    Attack::new().run(|case| {
        let home = case.stream();
        for round in 0..8 {
            let (a, b) = (aliased(&home, 1), aliased(&home, 2));
            let copy = |from: &Arc<DeviceBuffer<u32>>, to: &Arc<DeviceBuffer<u32>>| {
                let stream = case.stream();
                case.hold_up(&stream);
                if round % 2 == 0 {
                    let args = (from.as_slice(), alias(to), Slow(MANY as u32));
                    // SAFETY: the kernel uses MANY words of each ← both have as many.
                    unsafe { stream.launch(case.copy_kernel(), config(), args) }.unwrap();
                } else {
                    alias(to).copy_from_on(from.as_slice(), &stream).unwrap();
                }
            };
            thread::scope(|scope| {
                scope.spawn(|| copy(&a, &b));
                scope.spawn(|| copy(&b, &a));
            });
            let value = a.to_vec().unwrap()[0];
            assert!(value == 1 || value == 2, "{}: {value}", case.title);
            case.expect(&a, value);
            case.expect(&b, value);
        }
    });
}

/// Claim: replays of graphs, aliases and ordinary views of one buffer are ordered. One graph writes
/// the buffer through an alias, another one reads it.
#[test]
fn aliases_and_replays_are_in_order() {
    Attack::new().run(|case| {
        let home = case.stream();
        let (x, one) = (aliased(&home, 0), filled(&home, 1));
        let mut seen = filled(&home, 0);
        let mut writing = case.graph();
        let args = (alias(&x), &one, MANY as u32);
        // SAFETY: the kernel uses MANY words of each ← both have as many.
        unsafe { writing.add_kernel(&[], case.mix_kernel(), config(), args) }.unwrap();
        let mut reading = case.graph();
        let args = (x.as_slice(), &mut seen, MANY as u32);
        // SAFETY: as above.
        unsafe { reading.add_kernel(&[], case.copy_kernel(), config(), args) }.unwrap();
        let (writing, reading) = (
            writing.instantiate().unwrap(),
            reading.instantiate().unwrap(),
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                let stream = case.stream();
                for _ in 0..4 {
                    case.launch_late(&writing, &stream);
                }
            });
            scope.spawn(|| {
                let stream = case.stream();
                for _ in 0..4 {
                    case.hold_up(&stream);
                    mix(case, &stream, &x, &one);
                }
            });
            scope.spawn(|| {
                let stream = case.stream();
                for _ in 0..4 {
                    case.launch_late(&reading, &stream);
                    // A state between two writes: 2^k - 1 everywhere.
                    let words = seen.to_vec().unwrap();
                    assert!(
                        (words[0] + 1).is_power_of_two(),
                        "{}: {}",
                        case.title,
                        words[0]
                    );
                    case.expect_words(&words, words[0]);
                }
            });
        });
        case.expect(&x, 255);
    });
}

/// Claim: copies from and to the host are ordered with aliases on other threads.
#[test]
fn host_copies_see_no_half_of_a_write() {
    Attack::new().run(|case| {
        let home = case.stream();
        // A copy of more than 64 KiB may be divided.
        let part = 4096;
        let x = SharedSlice::from(aliased(&home, 0)).slice(..part).unwrap();
        thread::scope(|scope| {
            for writer in 1..3 {
                let x = x.clone();
                scope.spawn(move || {
                    let stream = case.stream();
                    for round in 0..4 {
                        let value = 10 * writer + round;
                        // SAFETY: as in `alias`.
                        let mut view = unsafe { x.alias_mut() }.unwrap();
                        if round % 2 == 0 {
                            view.copy_from_host_on(&vec![value; part], &stream).unwrap();
                        } else {
                            case.hold_up(&stream);
                            view.fill_on(value, &stream).unwrap();
                        }
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..8 {
                    let words = x.to_vec().unwrap();
                    case.expect_words(&words, words[0]);
                }
            });
        });
        let last = x.to_vec().unwrap();
        assert!([13, 23].contains(&last[0]), "{}: {}", case.title, last[0]);
    });
}

/// Claim: memory of a shared view is freed after the last use by the last view or graph.
#[test]
fn shared_views_dropped_under_launches_stay() {
    Attack::new().run(|case| {
        let (stream, other) = (case.stream(), case.stream());
        let pool = CachingPool::with_limit(&case.context, 8 * case.n * 4);
        for round in 1..4 {
            let words = vec![round; case.n];
            let y = DeviceBuffer::from_host_in(&pool, &stream, &words).unwrap();
            let y = SharedSlice::from(y);
            let mut x = case.filled(&stream, 0);
            let graph = Graph::capture(&case.context, |scope| {
                let y = y.clone();
                let args = (&mut x, &y, case.n as u32);
                // SAFETY: the kernel uses n words of each ← both have n.
                unsafe { scope.launch(case.mix_kernel(), case.config(), args) }.map(drop)
            });
            let exec = graph.unwrap().instantiate().unwrap();
            case.hold_up(&other);
            case.mix(&other, x.as_mut_slice(), y.as_slice()).unwrap();
            drop(y);
            let mut fresh = Vec::new();
            for _ in 0..2 {
                let words = vec![60; case.n];
                fresh.push(DeviceBuffer::from_host_in(&pool, &stream, &words).unwrap());
            }
            case.launch_late(&exec, &other);
            drop(exec);
            fresh.push(DeviceBuffer::from_host_in(&pool, &stream, &vec![60; case.n]).unwrap());
            case.expect(&x, 3 * round);
            for buffer in &fresh {
                case.expect(buffer, 60);
            }
        }
    });
}

/// Claim: an argument in place is ordered like a write of its buffer, on any stream of its thread.
#[test]
fn arguments_in_place_are_ordered() {
    Attack::new().run(|case| {
        let streams = [case.stream(), case.stream(), case.stream()];
        let mut x = case.filled(&streams[0], 1);
        let mut expected = 1_u32;
        for _ in 0..3 {
            let same = x.in_place();
            for _ in 0..3 {
                let stream = &streams[case.pick(3)];
                case.hold_up(stream);
                let args = (same, same, case.n as u32);
                // SAFETY: the kernel uses n words, and permits that both are the same.
                unsafe { stream.launch(case.mix_kernel(), case.config(), args) }.unwrap();
                expected = expected.wrapping_mul(3);
            }
            case.expect(&x, expected);
        }
    });
}

/// Claim: work that other code queues on shared memory runs alone, although it is queued without a
/// lock, while other threads write the memory through aliases.
#[test]
fn work_of_other_code_beside_aliases() {
    Attack::new().run(|case| {
        let home = case.stream();
        let x = aliased(&home, 7);
        thread::scope(|scope| {
            for value in 0..case.threads as u32 {
                let (x, stream) = (&x, case.stream());
                scope.spawn(move || {
                    for _ in 0..4 {
                        alias(x).fill_on(value, &stream).unwrap();
                    }
                });
            }
            for _ in 0..4 {
                let stream = case.stream();
                let mut target = filled(&stream, 0);
                let (from, to, bytes) = (x.as_raw(), target.as_raw(), 4 * MANY);
                let queue = |_| {
                    thread::sleep(Duration::from_micros(300));
                    // SAFETY: both buffers have MANY words, which the stream may use meanwhile.
                    unsafe { stream.copy_raw(to, from, bytes, ()) }
                };
                // SAFETY: the copy is queued on the stream, reads `x` and writes `target`.
                unsafe { stream.using((&*x, &mut target), queue) }
                    .unwrap()
                    .unwrap();
                let words = target.to_vec().unwrap();
                case.expect_words(&words, words[0]);
            }
        });
    });
}
