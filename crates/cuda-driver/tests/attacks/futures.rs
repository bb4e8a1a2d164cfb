//! Futures that are polled, woken and dropped in unusual ways.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;

use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

/// Counts wake-ups.
struct Wakes(Arc<AtomicU32>);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker");
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    pin!(future).poll(&mut TaskContext::from_waker(waker))
}

fn finish<F: Future + Unpin>(case: &Case, mut future: F) -> F::Output {
    let wakes = Arc::new(AtomicU32::new(0));
    let waker = Waker::from(Arc::new(Wakes(Arc::clone(&wakes))));
    loop {
        let before = wakes.load(Ordering::SeqCst);
        if let Poll::Ready(output) = poll(&mut future, &waker) {
            return output;
        }
        case.until("wakes", || wakes.load(Ordering::SeqCst) > before);
    }
}

/// Claim: the work runs regardless of its futures. They are dropped before and after they were
/// polled and done.
#[test]
fn futures_are_dropped_at_every_point() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let mut buffer = case.filled(&stream, 0);
        let waker = Waker::from(Arc::new(Wakes(Arc::default())));
        for round in 1..6 {
            case.hold_up(&stream);
            let block = PinnedBuffer::from_host(
                &case.context,
                &vec![round; case.n],
                PinnedFlags::default(),
            );
            let mut transfer = buffer
                .copy_from_pinned_async(block.unwrap(), &stream)
                .unwrap();
            let mut completion = stream.completion();
            let mut call = stream.launch_host(|| {}).unwrap();
            if round % 2 == 0 {
                let _ = poll(&mut transfer, &waker);
                let _ = poll(&mut completion, &waker);
                let _ = poll(&mut call, &waker);
            }
            if round % 3 == 0 {
                finish(case, completion).unwrap();
                finish(case, transfer).unwrap();
                finish(case, call).unwrap();
            }
            case.expect(&buffer, round);
        }
    });
}

/// Claim: a waker is code of the program, and may panic. Wakers of completions, calls and transfers
/// panic: other futures still complete.
#[test]
fn wakers_panic() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let source = case.filled(&stream, 5);
        let panics = Waker::from(Arc::new(Panics));
        {
            case.hold_up(&stream);
            let mut completion = stream.completion();
            let mut transfer = source
                .copy_to_pinned_async(case.pinned(0), &stream)
                .unwrap();
            let mut call = stream.launch_host(|| {}).unwrap();
            let pending = [
                poll(&mut completion, &panics).is_pending(),
                poll(&mut call, &panics).is_pending(),
                poll(&mut transfer, &panics).is_pending(),
            ];
            let _ = pending;
            finish(case, stream.completion()).unwrap();
            case.until("is done", || call.is_done());
            if pending[2] {
                case.expect_words(&finish(case, transfer).unwrap(), 5);
            }
        }
    });
}

/// Claim: a future may be polled on any thread, with any waker, and the last waker is woken.
#[test]
fn futures_move_between_threads() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let source = case.filled(&stream, 8);
        for _ in 0..3 {
            case.hold_up(&stream);
            let mut transfers: Vec<_> = (0..case.threads)
                .map(|_| {
                    source
                        .copy_to_pinned_async(case.pinned(0), &stream)
                        .unwrap()
                })
                .collect();
            let waker = Waker::from(Arc::new(Wakes(Arc::default())));
            let done: Vec<_> = transfers
                .iter_mut()
                .map(|transfer| poll(transfer, &waker).is_ready())
                .collect();
            thread::scope(|scope| {
                for (transfer, done) in transfers.into_iter().zip(done) {
                    scope.spawn(move || {
                        if !done {
                            case.expect_words(&finish(case, transfer).unwrap(), 8);
                        }
                    });
                }
            });
        }
    });
}

/// Claim: memory that a future gave up is not handed out before its copy is done. Transfers are
/// polled and dropped, and a pool that a waker owns hands out their blocks.
#[test]
fn polled_transfers_are_dropped_into_their_pool() {
    Attack::new().run(|case| {
        let stream = case.stream();
        let pool = case.pinned_pool();
        let source = case.filled(&stream, 6);
        let waker = Waker::from(Arc::new(Wakes(Arc::default())));
        for round in 0..5 {
            case.hold_up(&stream);
            let mut transfer = source
                .copy_to_pinned_async(PinnedBuffer::zeroed_in(&pool, case.n).unwrap(), &stream)
                .unwrap();
            if let Poll::Ready(block) = poll(&mut transfer, &waker) {
                case.expect_words(&block.unwrap(), 6);
            }
            drop(transfer);
            let mut next = pool.take::<u32>(case.n).unwrap();
            next.fill(round);
            stream.synchronize().unwrap();
            case.expect_words(&next, round);
        }
    });
}
