//! The threads that help with a launch.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::device::Device;

/// Block 0 counts to a large number; the other blocks end at once.
const UNEVEN: &str = ".visible .entry uneven(.param .u64 rounds) {
    .reg .b32 %r<4>; .reg .pred %p;
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p, %r1, 0; @%p bra $end;
    ld.param.u32 %r2, [rounds]; mov.u32 %r3, 0;
    $next: add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, %r2; @%p bra $next;
    $end: ret; }";

#[test]
fn a_launch_does_not_wait_for_a_busy_pool() {
    /// The time for which the pool is busy, if the launch waits for it.
    const BUSY: Duration = Duration::from_secs(20);
    let device = Device::new(UNEVEN);
    let threads = rayon::current_num_threads();
    let (started, all_started) = mpsc::channel();
    let mut releases = Vec::new();
    for _ in 0..threads {
        let (release, released) = mpsc::channel::<()>();
        releases.push(release);
        let started = started.clone();
        rayon::spawn(move || {
            started.send(()).unwrap();
            let _ = released.recv_timeout(BUSY);
        });
    }
    for _ in 0..threads {
        all_started.recv_timeout(BUSY).unwrap();
    }
    let start = Instant::now();
    device
        .run_with(8, 32, &[10], |launch| launch.threads = 4)
        .unwrap();
    let elapsed = start.elapsed();
    drop(releases);
    assert!(elapsed < BUSY / 2, "{elapsed:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn helpers_without_work_use_no_cpu_time() {
    /// The CPU time that this thread has used.
    fn cpu_time() -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer must be to a `timespec` ← it is to a local.
        let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        assert_eq!(status, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(8)
        .build()
        .unwrap();
    let device = Device::new(UNEVEN);
    let before = pool.broadcast(|_| cpu_time());
    pool.install(|| {
        let run = device.run_with(64, 32, &[300_000], |launch| launch.threads = 8);
        run.unwrap();
    });
    let after = pool.broadcast(|_| cpu_time());
    let mut used: Vec<Duration> = before.iter().zip(&after).map(|(a, b)| *b - *a).collect();
    used.sort_unstable();
    let busiest = used.pop().unwrap();
    let others: Duration = used.iter().sum();
    assert!(
        others < busiest / 3,
        "busiest {busiest:?}, others {others:?}"
    );
}
