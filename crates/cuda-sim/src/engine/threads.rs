//! The worker threads that run operations.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::lock::{lock, unpoisoned, wait};

use super::Shared;
use super::graph::{State, Task};

/// The largest number of operations that run at once, besides host functions. It is more than one
/// because a kernel may wait for another one.
const MAX_THREADS: usize = 6;

/// The worker threads. They start when there is work for them and live as long as the engine.
#[derive(Debug, Default)]
pub(super) struct Threads {
    device: Mutex<Vec<JoinHandle<()>>>,
    host: Mutex<bool>,
    idle: Arc<AtomicUsize>,
}

/// Starts a thread if too few are idle for the ready operations. `host` says that one of them may
/// be a host function, which needs the host thread.
pub(super) fn ensure(shared: &Arc<Shared>, state: &State, host: bool) {
    let threads = &shared.threads;
    if host {
        let mut started = lock(&threads.host);
        if !*started {
            // The host thread is not joined, because a host function may block forever. The thread
            // ends after the host function that it is running.
            *started = spawn("cuda-sim host", shared, None).is_some();
        }
    }
    if threads.idle.load(Ordering::Acquire) >= state.useful_threads(MAX_THREADS) {
        return;
    }
    let mut device = lock(&threads.device);
    if device.len() < MAX_THREADS {
        device.extend(spawn(
            "cuda-sim device",
            shared,
            Some(Arc::clone(&threads.idle)),
        ));
    }
}

impl Threads {
    /// Waits for the device threads to end; [`State::stop`] must have been called.
    pub(super) fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.device));
        for thread in threads {
            if thread.thread().id() != thread::current().id() {
                // A panic in an operation was reported where it happened.
                let _ = thread.join();
            }
        }
    }
}

fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    idle: Option<Arc<AtomicUsize>>,
) -> Option<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    if let Some(idle) = &idle {
        idle.fetch_add(1, Ordering::AcqRel);
    }
    let counter = idle.clone();
    let started = thread::Builder::new()
        .name(String::from(name))
        .spawn(move || serve(&shared, idle.as_deref()));
    match started {
        Ok(thread) => Some(thread),
        Err(error) => {
            if let Some(counter) = counter {
                counter.fetch_sub(1, Ordering::AcqRel);
            }
            eprintln!("cuda-sim: no thread for queued work: {error}");
            None
        }
    }
}

/// The loop of a worker thread. `idle` counts the idle device threads; it is `None` for the host
/// thread.
fn serve(shared: &Arc<Shared>, idle: Option<&AtomicUsize>) {
    let mut state = shared.lock();
    loop {
        let task = state.next_task(idle.is_none());
        // `next_task` may have completed waiting operations.
        if state.take_completed() {
            shared.done.notify_all();
        }
        let mut wakes = state.take_announcement();
        if !matches!(task, Task::Sleep(_)) && !state.polling {
            // This thread is about to be busy, so another one looks for work in time.
            wakes |= state.idle_time(false).is_some();
        }
        if wakes {
            shared.work.notify_all();
        }
        match task {
            Task::Stop => break,
            // One thread that wakes up in time is enough.
            Task::Sleep(Some(time)) if !state.polling => {
                state.polling = true;
                let woken = shared.work.wait_timeout(state, time);
                (state, _) = unpoisoned(woken);
                state.polling = false;
            }
            Task::Sleep(_) => {
                state = wait(&shared.work, state);
            }
            Task::Run(op, work) => {
                set_busy(idle, true);
                drop(state);
                guarded(work);
                state = shared.lock();
                state.complete(op);
                set_busy(idle, false);
                // Several operations may have waited for this one.
                ensure(shared, &state, false);
                shared.done.notify_all();
                shared.work.notify_all();
            }
            Task::Expand(op, work) => {
                set_busy(idle, true);
                drop(state);
                let plan = catch_unwind(AssertUnwindSafe(work));
                state = shared.lock();
                state.expand(op, plan.unwrap_or_default());
                set_busy(idle, false);
                ensure(shared, &state, false);
                shared.done.notify_all();
                shared.work.notify_all();
            }
        }
    }
}

/// Subtracts a device thread from the idle count if it is `busy`, or adds it again.
fn set_busy(idle: Option<&AtomicUsize>, busy: bool) {
    match idle {
        Some(idle) if busy => idle.fetch_sub(1, Ordering::AcqRel),
        Some(idle) => idle.fetch_add(1, Ordering::AcqRel),
        None => 0,
    };
}

/// Runs `work` and catches a panic, which the panic hook reports on stderr.
pub(super) fn guarded(work: Box<dyn FnOnce() + Send>) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        eprintln!("cuda-sim: an operation on a stream panicked");
    }
}
