//! All cases of all scenarios, and the worker threads that run them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::Status;
use cuda_sim::TraceEntry;

use super::fixture::{Fault, Scenario, Wrong, is_named, run};

/// A case that takes longer counts as hung, even under instrumentation and on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A scenario with one injected fault.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) scenario: &'static Scenario,
    pub(super) fault: Fault,
}

/// The scenario, the call and the description of the failure.
type Failure = (&'static str, &'static str, String);

/// The results of all cases.
#[derive(Default)]
pub(super) struct Report {
    pub(super) cases: usize,
    /// The number of cases in which the failing call was not made.
    pub(super) missed: usize,
    /// The failed cases, grouped by scenario, call and description.
    pub(super) failures: BTreeMap<Failure, Vec<(u64, Status)>>,
}

/// Returns cases that fail the first call of each function in `trace` with each status of `first`,
/// and its middle and last calls with each status of `later`.
pub(super) fn cases_of(
    scenario: &'static Scenario,
    trace: &[TraceEntry],
    first: &[Status],
    later: &[Status],
) -> Vec<Case> {
    let mut calls: BTreeMap<&str, _> = BTreeMap::new();
    for entry in trace {
        calls.insert(entry.function.name, entry.function);
    }
    let mut cases = Vec::new();
    for call in calls.into_values() {
        let named = trace
            .iter()
            .filter(|entry| is_named(call.name, entry.function));
        let own: Vec<u64> = (1..)
            .zip(named)
            .filter(|(_, entry)| entry.function.name == call.name)
            .map(|(nth, _)| nth)
            .collect();
        let mut chosen = vec![own[0], own[own.len() / 2], own[own.len() - 1]];
        chosen.dedup();
        for nth in chosen {
            let statuses = if nth == own[0] { first } else { later };
            for &status in statuses {
                let fault = Fault {
                    call,
                    nth,
                    is_last: nth == own[own.len() - 1],
                    status,
                };
                cases.push(Case { scenario, fault });
            }
        }
    }
    cases
}

struct Shared {
    cases: Vec<Case>,
    next: AtomicUsize,
    done: AtomicUsize,
    report: Mutex<Report>,
}

/// The case that a worker is running, with its start time.
type At = Arc<Mutex<Option<(usize, Instant)>>>;

impl Shared {
    fn work(&self, at: &At) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = self.cases.get(index) else {
                return;
            };
            *lock(at) = Some((index, Instant::now()));
            let ended = run(case.scenario, Some(&case.fault));
            if lock(at).take().is_none() {
                // The case was reported as hung, and another worker has replaced this one.
                return;
            }
            let mut report = lock(&self.report);
            report.cases += 1;
            report.missed += usize::from(!ended.was_hit);
            for wrong in ended.wrong {
                report.add(case, &wrong);
            }
            drop(report);
            self.done.fetch_add(1, Ordering::Release);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Report {
    fn add(&mut self, case: &Case, wrong: &Wrong) {
        let Fault {
            call, nth, status, ..
        } = case.fault;
        let what = match wrong {
            Wrong::Panicked(words) => format!("panicked: {words}"),
            Wrong::Hung => String::from("hung"),
            Wrong::Error(words) => format!("returned another error: {words}"),
            Wrong::Swallowed => String::from("succeeded"),
            Wrong::Later(words) => format!("broke a later run: {words}"),
            Wrong::Left(what) => format!("left {what}"),
            Wrong::Current => String::from("left a context current"),
        };
        let key = (case.scenario.name, call.name, what);
        if !self.failures.contains_key(&key) {
            let name = status.name().unwrap_or("?");
            println!("wrong: {}: {} (call {nth}: {name}) {}", key.0, key.1, key.2);
        }
        self.failures.entry(key).or_default().push((nth, status));
    }

    /// Returns one line per kind of failure.
    pub(super) fn lines(&self) -> Vec<String> {
        self.failures
            .iter()
            .map(|((scenario, call, what), cases)| {
                let (nth, status) = cases[0];
                let name = status.name().unwrap_or("?");
                format!(
                    "{scenario}: {call} (call {nth}: {name}, {} cases) {what}",
                    cases.len()
                )
            })
            .collect()
    }
}

/// Runs the cases on `threads` workers.
pub(super) fn run_all(cases: Vec<Case>, threads: usize) -> Report {
    let count = cases.len();
    let shared = Arc::new(Shared {
        cases,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        report: Mutex::default(),
    });
    let start = || {
        let at = At::default();
        let (shared, own) = (Arc::clone(&shared), Arc::clone(&at));
        thread::spawn(move || shared.work(&own));
        at
    };
    let mut workers: Vec<At> = (0..threads).map(|_| start()).collect();
    while shared.done.load(Ordering::Acquire) < count {
        thread::sleep(Duration::from_millis(20));
        for at in &mut workers {
            let mut now = lock(at);
            let Some((index, _)) = now.filter(|(_, since)| since.elapsed() > PATIENCE) else {
                continue;
            };
            *now = None;
            drop(now);
            let mut report = lock(&shared.report);
            report.cases += 1;
            let case = &shared.cases[index];
            report.add(case, &Wrong::Hung);
            println!(
                "hung: {}, call {} of {}, {:?}",
                case.scenario.name,
                case.fault.nth,
                case.fault.call.name,
                case.fault.status.name()
            );
            drop(report);
            shared.done.fetch_add(1, Ordering::Release);
            *at = start();
        }
    }
    std::mem::take(&mut *lock(&shared.report))
}
