//! Helper threads: more hands for a copy through the host.
//!
//! C's driver copies pageable memory on the thread that asks. Here a few threads of the process,
//! started when first needed and gone when long idle, join in. Whoever asks never waits for a
//! helper that has not begun, so that copies on any number of threads go on by themselves.

use std::any::Any;
use std::hint;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::lock::{Condvar, Mutex, MutexGuard, rank};

/// More threads than these do not move bytes faster: a few fill the bus to the device.
const MOST_HELPERS: usize = 7;
/// Who posts a job wakes so many, and each who joins as many more: to wake one takes as long as to
/// copy some 100 KiB.
const WAKES: usize = 2;
/// So long a thread looks whether the last helper is done before it sleeps until then. Pieces are
/// shorter than this, and who sleeps wakes late.
const LOOKS: Duration = Duration::from_micros(50);
/// A helper with nothing to do ends after this.
const IDLE: Duration = Duration::from_secs(10);

static CREW: Crew = Crew {
    state: Mutex::new(State {
        jobs: Vec::new(),
        idle: 0,
        threads: 0,
        last: 0,
    }),
    wake: Condvar::new(),
    left: Condvar::new(),
};

struct Crew {
    state: Mutex<State, { rank::COPY_THREADS }>,
    /// A job was posted.
    wake: Condvar,
    /// The last helper has left a job.
    left: Condvar,
}

struct State {
    jobs: Vec<Job>,
    /// Helpers that wait for a job.
    idle: usize,
    threads: usize,
    /// The number of the last job.
    last: u64,
}

struct Job {
    id: u64,
    work: Work,
    /// So many more helpers may join.
    open: usize,
    /// So many are at work.
    inside: usize,
    panic: Option<Box<dyn Any + Send>>,
}

/// A closure on the stack of the thread that posted it.
#[derive(Clone, Copy)]
struct Work {
    closure: *const (),
    call: unsafe fn(*const ()),
}

// SAFETY: the closure must be one that other threads may call ← `Work::of` takes only those that
// are `Sync`.
unsafe impl Send for Work {}

impl Work {
    fn of<F: Fn() + Sync>(closure: &F) -> Self {
        /// # Safety
        ///
        /// `closure` is an `F`, alive for the call.
        unsafe fn call<F: Fn()>(closure: *const ()) {
            // SAFETY: it must be an `F`, alive ← the caller says so.
            let closure = unsafe { &*closure.cast::<F>() };
            closure();
        }
        Self {
            closure: std::ptr::from_ref(closure).cast(),
            call: call::<F>,
        }
    }
}

/// How many helpers there can be: one for each further CPU, up to a limit.
pub(crate) fn most_helpers() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    let cpus = *CPUS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get));
    (cpus - 1).min(MOST_HELPERS)
}

/// Runs `work` on this thread, and `help` on up to `helpers` others as they come free. Returns when
/// all that have begun are done; whoever returns from `help` has left nothing for others to do.
///
/// A panic of a helper goes on here.
pub(crate) fn together<R>(
    helpers: usize,
    help: &(impl Fn() + Sync),
    work: impl FnOnce() -> R,
) -> R {
    let helpers = helpers.min(most_helpers());
    if helpers == 0 {
        return work();
    }
    let posted = Posted::new(helpers, Work::of(help));
    let result = work();
    if let Some(panic) = posted.withdraw() {
        panic::resume_unwind(panic);
    }
    result
}

/// A job that others can see. When this goes nobody is at it any more.
struct Posted {
    id: u64,
}

impl Posted {
    fn new(helpers: usize, work: Work) -> Self {
        let mut state = CREW.lock();
        state.last += 1;
        let id = state.last;
        state.jobs.push(Job {
            id,
            work,
            open: helpers,
            inside: 0,
            panic: None,
        });
        let woken = state.idle.min(helpers);
        let started = (helpers - woken).min(most_helpers().saturating_sub(state.threads));
        state.threads += started;
        drop(state);
        let posted = Self { id };
        CREW.wake_up(woken);
        for _ in 0..started {
            let started = thread::Builder::new()
                .name(String::from("cuda-copy"))
                .spawn(|| CREW.help());
            if started.is_err() {
                CREW.lock().threads -= 1;
            }
        }
        posted
    }

    /// Takes the job back; the panic of a helper, if one did.
    fn withdraw(self) -> Option<Box<dyn Any + Send>> {
        let panic = self.end();
        std::mem::forget(self);
        panic
    }

    fn end(&self) -> Option<Box<dyn Any + Send>> {
        let start = Instant::now();
        let mut state = CREW.lock();
        loop {
            let at = state.jobs.iter().position(|job| job.id == self.id)?;
            let job = state.jobs.get_mut(at)?;
            job.open = 0;
            if job.inside == 0 {
                return state.jobs.swap_remove(at).panic;
            }
            state = if start.elapsed() < LOOKS {
                drop(state);
                (0..64).for_each(|_| hint::spin_loop());
                CREW.lock()
            } else {
                CREW.left.wait(state)
            };
        }
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        // On the way of a panic: nobody may use the closure when its stack frame is gone.
        let _ = self.end();
    }
}

impl Crew {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Wakes some of those that are `wanted`; they wake others.
    fn wake_up(&self, wanted: usize) {
        for _ in 0..wanted.min(WAKES) {
            self.wake.notify_one();
        }
    }

    /// What a helper does all day.
    fn help(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.iter_mut().find(|job| job.open > 0) {
                job.open -= 1;
                job.inside += 1;
                let (id, work) = (job.id, job.work);
                let wanted = job.open.min(state.idle);
                drop(state);
                self.wake_up(wanted);
                // SAFETY: the closure must be alive ← the job is not taken back while a helper is
                // inside.
                let call = || unsafe { (work.call)(work.closure) };
                let result = panic::catch_unwind(AssertUnwindSafe(call));
                state = self.lock();
                if let Some(job) = state.jobs.iter_mut().find(|job| job.id == id) {
                    job.open = 0;
                    job.inside -= 1;
                    job.panic = result.err().or(job.panic.take());
                    if job.inside == 0 {
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

    use super::{most_helpers, together};

    #[test]
    fn every_piece_of_work_is_done_once_whoever_does_it() {
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
                        together(round % 9, &work, work);
                        assert!(pieces.into_iter().all(|piece| piece.into_inner() == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_of_a_helper_reaches_the_one_who_asked() {
        if most_helpers() == 0 {
            return;
        }
        let begun = AtomicUsize::new(0);
        let caught = panic::catch_unwind(|| {
            let help = || {
                begun.store(1, Ordering::Release);
                panic::resume_unwind(Box::new("of a helper"));
            };
            together(1, &help, || {
                while begun.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
            });
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"of a helper"));
        // And the crew goes on.
        assert_eq!(together(3, &|| {}, || 7), 7);
    }
}
