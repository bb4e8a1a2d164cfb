//! A minimal runtime that polls a future on this thread, which sleeps until it is woken; and
//! helpers with time limits.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The time limit for operations that should be immediate.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the output of `future`; panics if it takes longer than `limit`.
pub(crate) fn block_on<F: Future>(future: F, limit: Duration) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let left = limit.checked_sub(start.elapsed());
        thread::park_timeout(left.expect("the future must be ready in time"));
    }
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits until `is_so` returns true; panics after `limit`.
pub(crate) fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `work`, which must end within a few seconds.
pub(crate) fn in_time(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        // The thread has ended; a panic in it fails the test.
        _ => worker.join().unwrap(),
    }
}
