//! A thread pool for copies through host memory.
//!
//! The driver copies pageable memory on the calling thread. Here a few worker threads of the
//! process join in; they are started on demand and end after being idle. The caller never waits for
//! a worker that has not started on its job, so copies on any number of threads make progress by
//! themselves.

use std::any::Any;
use std::hint;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::lock::{Condvar, Mutex, MutexGuard, rank};

/// The maximum number of workers. More do not copy faster: a few saturate the bus to the device.
const MAX_WORKERS: usize = 7;
/// Wake-ups fan out: the poster of a job and each worker that joins wake this many workers, because
/// one wake-up takes as long as copying about 100 KiB.
const WAKE_FANOUT: usize = 2;
/// How long the poster spins for the last worker before it sleeps. Pieces take less time than this,
/// and a sleeping thread wakes up late.
const SPIN_TIME: Duration = Duration::from_micros(50);
/// A worker ends after being idle for this long.
const IDLE: Duration = Duration::from_secs(10);

static POOL: Pool = Pool {
    state: Mutex::new(State {
        jobs: Vec::new(),
        idle: 0,
        threads: 0,
        last: 0,
    }),
    wake: Condvar::new(),
    left: Condvar::new(),
};

struct Pool {
    state: Mutex<State, { rank::COPY_THREADS }>,
    /// Notified when a job is posted.
    wake: Condvar,
    /// Notified when the last worker has left a job.
    left: Condvar,
}

struct State {
    jobs: Vec<Job>,
    /// The number of workers that wait for a job.
    idle: usize,
    threads: usize,
    /// The id of the last job.
    last: u64,
}

struct Job {
    id: u64,
    work: Work,
    /// The number of workers that may still join.
    open: usize,
    /// The number of workers that are running the job.
    running: usize,
    panic: Option<Box<dyn Any + Send>>,
}

/// A closure on the stack of the thread that posted it.
#[derive(Clone, Copy)]
struct Work {
    closure: *const (),
    call: unsafe fn(*const ()),
}

// SAFETY: the closure must be callable from other threads ← `Work::of` takes only closures that are
// `Sync`.
unsafe impl Send for Work {}

impl Work {
    fn of<F: Fn() + Sync>(closure: &F) -> Self {
        /// # Safety
        ///
        /// `closure` points to an `F` that is alive during the call.
        unsafe fn call<F: Fn()>(closure: *const ()) {
            // SAFETY: `closure` must point to a live `F` ← the caller guarantees it.
            let closure = unsafe { &*closure.cast::<F>() };
            closure();
        }
        Self {
            closure: std::ptr::from_ref(closure).cast(),
            call: call::<F>,
        }
    }
}

/// Returns the maximum number of workers: one for each CPU but the first, up to a limit.
pub(crate) fn max_workers() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    let cpus = *CPUS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get));
    (cpus - 1).min(MAX_WORKERS)
}

/// Runs `work` on this thread, and `help` on up to `workers` workers as they become available.
/// Returns when every call that has started has returned. When a call of `help` returns, there must
/// be no work left that another worker could start.
///
/// A panic of a worker is resumed on this thread.
pub(crate) fn run_with_workers<R>(
    workers: usize,
    help: &(impl Fn() + Sync),
    work: impl FnOnce() -> R,
) -> R {
    let workers = workers.min(max_workers());
    if workers == 0 {
        return work();
    }
    let posted = PostedJob::new(workers, Work::of(help));
    let result = work();
    if let Some(panic) = posted.withdraw() {
        panic::resume_unwind(panic);
    }
    result
}

/// A posted job. Dropping this waits until no worker runs the job.
struct PostedJob {
    id: u64,
}

impl PostedJob {
    fn new(workers: usize, work: Work) -> Self {
        let mut state = POOL.lock();
        state.last += 1;
        let id = state.last;
        state.jobs.push(Job {
            id,
            work,
            open: workers,
            running: 0,
            panic: None,
        });
        let woken = state.idle.min(workers);
        let started = (workers - woken).min(max_workers().saturating_sub(state.threads));
        state.threads += started;
        drop(state);
        let posted = Self { id };
        POOL.wake_up(woken);
        for _ in 0..started {
            let started = thread::Builder::new()
                .name(String::from("cuda-copy"))
                .spawn(|| POOL.serve());
            if started.is_err() {
                POOL.lock().threads -= 1;
            }
        }
        posted
    }

    /// Removes the job. Returns the panic of a worker, if there was one.
    fn withdraw(self) -> Option<Box<dyn Any + Send>> {
        let panic = self.end();
        std::mem::forget(self);
        panic
    }

    fn end(&self) -> Option<Box<dyn Any + Send>> {
        let start = Instant::now();
        let mut state = POOL.lock();
        loop {
            let at = state.jobs.iter().position(|job| job.id == self.id)?;
            let job = state.jobs.get_mut(at)?;
            job.open = 0;
            if job.running == 0 {
                return state.jobs.swap_remove(at).panic;
            }
            state = if start.elapsed() < SPIN_TIME {
                drop(state);
                (0..64).for_each(|_| hint::spin_loop());
                POOL.lock()
            } else {
                POOL.left.wait(state)
            };
        }
    }
}

impl Drop for PostedJob {
    fn drop(&mut self) {
        // Reached during a panic: the closure must not be used after its stack frame is gone.
        let _ = self.end();
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Wakes some of the `wanted` workers, which in turn wake others.
    fn wake_up(&self, wanted: usize) {
        for _ in 0..wanted.min(WAKE_FANOUT) {
            self.wake.notify_one();
        }
    }

    /// The loop of a worker.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.iter_mut().find(|job| job.open > 0) {
                job.open -= 1;
                job.running += 1;
                let (id, work) = (job.id, job.work);
                let wanted = job.open.min(state.idle);
                drop(state);
                self.wake_up(wanted);
                // SAFETY: the closure must be alive ← its job is not removed while a worker is
                // running it.
                let call = || unsafe { (work.call)(work.closure) };
                let result = panic::catch_unwind(AssertUnwindSafe(call));
                state = self.lock();
                if let Some(job) = state.jobs.iter_mut().find(|job| job.id == id) {
                    job.open = 0;
                    job.running -= 1;
                    job.panic = result.err().or(job.panic.take());
                    if job.running == 0 {
                        self.left.notify_all();
                    }
                }
                continue;
            }
            state.idle += 1;
            let (woken, waited) = self.wake.wait_timeout(state, IDLE);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.iter().all(|job| job.open == 0) {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::{max_workers, run_with_workers};

    #[test]
    fn each_piece_of_work_runs_once() {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..200_usize {
                        let pieces: Vec<AtomicUsize> =
                            (0..round % 17).map(|_| AtomicUsize::new(0)).collect();
                        let next = AtomicUsize::new(0);
                        let work = || {
                            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed))
                            {
                                piece.fetch_add(1, Ordering::Relaxed);
                            }
                        };
                        run_with_workers(round % 9, &work, work);
                        assert!(pieces.into_iter().all(|piece| piece.into_inner() == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_of_a_worker_reaches_the_caller() {
        if max_workers() == 0 {
            return;
        }
        let begun = AtomicUsize::new(0);
        let caught = panic::catch_unwind(|| {
            let help = || {
                begun.store(1, Ordering::Release);
                panic::resume_unwind(Box::new("of a helper"));
            };
            run_with_workers(1, &help, || {
                while begun.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
            });
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"of a helper"));
        // The pool still works afterwards.
        assert_eq!(run_with_workers(3, &|| {}, || 7), 7);
    }
}
