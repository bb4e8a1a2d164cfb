//! Tests of idle threads of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Engine, Kind, POLL, Schedule, Work};

/// The time for which an operation keeps the engine busy.
const BUSY: Duration = Duration::from_millis(300);

/// An engine that has started all of its threads, which are idle now.
fn idle_engine(schedule: Schedule) -> (Engine, Vec<super::QueueId>) {
    let engine = Engine::new(schedule);
    let (group, _) = engine.group();
    let queues: Vec<_> = (0..8)
        .map(|_| engine.queue(group, Kind::NonBlocking))
        .collect();
    let nap = || Work::Device(Box::new(|| thread::sleep(Duration::from_millis(20))));
    let ops: Vec<_> = queues
        .iter()
        .map(|&queue| engine.submit(queue, &[], nap()))
        .collect();
    engine.wait(&ops);
    (engine, queues)
}

/// How often the threads of `engine` look for work while `during` runs.
fn polls(engine: &Engine, during: impl FnOnce()) -> u64 {
    let before = engine.shared.lock().polls;
    during();
    engine.shared.lock().polls - before
}

#[test]
fn idle_threads_sleep_while_an_operation_runs() {
    for schedule in [Schedule::Eager, Schedule::Late { seed: 1 }] {
        let (engine, queues) = idle_engine(schedule);
        let count = polls(&engine, || {
            let work = Work::Device(Box::new(|| thread::sleep(BUSY)));
            let op = engine.submit(queues[0], &[], work);
            engine.wait(&[op]);
        });
        assert!(count < 100, "{schedule:?}: {count} searches for work");
    }
}

#[test]
fn one_idle_thread_polls_a_waiting_operation() {
    let (engine, queues) = idle_engine(Schedule::Eager);
    let holds = Arc::new(AtomicBool::new(false));
    let condition = Arc::clone(&holds);
    let start = Instant::now();
    let count = polls(&engine, || {
        let work = Work::Poll(Box::new(move || condition.load(Ordering::Relaxed)));
        let op = engine.submit(queues[0], &[], work);
        thread::sleep(BUSY);
        holds.store(true, Ordering::Relaxed);
        engine.wait(&[op]);
    });
    let rounds = start.elapsed().as_nanos() / POLL.as_nanos();
    assert!(
        u128::from(count) < rounds + 100,
        "{count} polls in {rounds} intervals"
    );
}

#[test]
fn a_waiting_operation_is_polled_while_others_run() {
    for schedule in [Schedule::Eager, Schedule::Late { seed: 3 }] {
        let (engine, queues) = idle_engine(schedule);
        let holds = Arc::new(AtomicBool::new(false));
        let (condition, setter) = (Arc::clone(&holds), Arc::clone(&holds));
        let poll = Work::Poll(Box::new(move || condition.load(Ordering::Relaxed)));
        let polled = engine.submit(queues[0], &[], poll);
        let set = Work::Device(Box::new(move || setter.store(true, Ordering::Relaxed)));
        engine.submit(queues[1], &[], set);
        let long = Work::Device(Box::new(|| thread::sleep(BUSY * 4)));
        let long = engine.submit(queues[2], &[], long);
        let start = Instant::now();
        engine.wait(&[polled]);
        if schedule == Schedule::Eager {
            assert!(start.elapsed() < BUSY * 3, "{:?}", start.elapsed());
        }
        engine.wait(&[long]);
    }
}
