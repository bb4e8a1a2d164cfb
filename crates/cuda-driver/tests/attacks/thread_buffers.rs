//! Buffers that stay on their thread, and what they leave behind.

use std::cell::RefCell;
use std::mem;
use std::thread;

use cuda_driver::memory::ThreadBuffer;
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

fn filled(case: &Case, value: u32) -> ThreadBuffer<u32> {
    ThreadBuffer::filled(&case.context.thread_stream(), case.n, value).unwrap()
}

/// Launches `x = 2 * x + y`.
fn mix(case: &Case, stream: &Stream, x: &mut ThreadBuffer<u32>, y: &ThreadBuffer<u32>) {
    let args = (x, y, case.n as u32);
    // SAFETY: the kernel uses `n` words of each ← both have as many.
    unsafe { stream.launch(case.mix_kernel(), case.config(), args) }.unwrap();
}

/// Claim: a thread that gets a buffer by `into_shared` waits for its uses on the first thread, on
/// whichever streams they were.
#[test]
fn shared_buffers_bring_their_uses_along() {
    Attack::new().run(|case| {
        thread::scope(|scope| {
            for _ in 0..case.threads {
                scope.spawn(|| {
                    let (own, other) = (case.context.thread_stream(), case.stream());
                    let (mut x, y) = (filled(case, 1), filled(case, 2));
                    case.hold_up(&other);
                    for _ in 0..3 {
                        let on_own = case.pick(2) == 0;
                        mix(case, if on_own { &own } else { &other }, &mut x, &y);
                    }
                    let x = x.into_shared();
                    // The memory may be used again before the kernels have run.
                    drop(y);
                    let next = filled(case, 77);
                    thread::scope(|scope| scope.spawn(|| case.expect(&x, 22)).join().unwrap());
                    drop(next);
                });
            }
        });
    });
}

/// Claim: the end of a thread frees its buffers after their uses on other streams.
#[test]
fn buffers_in_thread_locals_end_with_their_thread() {
    thread_local! {
        static KEPT: RefCell<Vec<ThreadBuffer<u32>>> = const { RefCell::new(Vec::new()) };
    }
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut result = case.filled(&stream, 0);
        thread::scope(|scope| {
            let run = || {
                let source = filled(case, 5);
                case.hold_up(&stream);
                let args = (&mut result, &source, case.n as u32);
                // SAFETY: the kernel uses `n` words of each ← both have as many.
                unsafe { stream.launch(case.mix_kernel(), case.config(), args) }.unwrap();
                KEPT.with_borrow_mut(|kept| kept.push(source));
            };
            scope.spawn(run).join().unwrap();
        });
        // This buffer may get the freed memory.
        let next = case.filled(&stream, 9);
        case.expect(&result, 5);
        case.expect(&next, 9);
    });
}

/// Claim: a buffer that is forgotten keeps its memory, and other buffers get other memory.
#[test]
fn forgotten_buffers_keep_their_memory() {
    Attack::new().leaks().run(|case| {
        let stream = case.stream();
        let source = filled(case, 3);
        let mut result = case.filled(&stream, 1);
        case.hold_up(&stream);
        let args = (&mut result, &source, case.n as u32);
        // SAFETY: the kernel uses `n` words of each ← both have as many.
        unsafe { stream.launch(case.mix_kernel(), case.config(), args) }.unwrap();
        mem::forget(source);
        let other = filled(case, 50);
        case.expect(&result, 5);
        assert_eq!(other.to_vec().unwrap(), vec![50; case.n]);
    });
}

/// Claim: replays of a graph on another thread are ordered with the uses of this thread.
#[test]
fn replays_elsewhere_wait_for_this_thread() {
    Attack::new().run(|case| {
        let mut source = filled(case, 1);
        let mut result = case.filled(&case.stream(), 0);
        let mut graph = Graph::new(&case.context).unwrap();
        let args = (&mut result, &source, case.n as u32);
        // SAFETY: the kernel uses `n` words of each ← both have as many.
        unsafe { graph.add_kernel(&[], case.mix_kernel(), case.config(), args) }.unwrap();
        let exec = graph.instantiate().unwrap();
        for value in [4, 6] {
            source.fill(value).unwrap();
            let stream = case.stream();
            let replay = || {
                case.hold_up(&stream);
                exec.launch(&stream).unwrap();
            };
            thread::scope(|scope| scope.spawn(replay).join().unwrap());
        }
        source.fill(90).unwrap();
        case.expect(&result, 2 * 4 + 6);
    });
}
