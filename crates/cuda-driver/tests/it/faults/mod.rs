//! The fault matrix: injects every status code into every function that the safe layer calls, at
//! the first, middle and last call of programs that use the whole API. Each case must not panic,
//! hang or leak, and must report the error unless `rules` allows otherwise.
//!
//! `CUDA_FULL=1` runs all status codes. `CUDA_FAULTS=SCENARIO` and `CUDA_FAULTS=SCENARIO/FUNCTION`
//! run a part.

mod aborts;
mod fixture;
mod matrix;
mod reach;
mod rules;
mod scenarios;

use std::env;
use std::time::Instant;

use cuda_driver::error::Status;

use crate::support::skipped;
use fixture::run;
use matrix::{cases_of, run_all};

/// Returns every status code of `cuda.h` except success.
fn all_statuses() -> Vec<Status> {
    (1..=999)
        .map(Status)
        .filter(|status| status.name().is_some())
        .collect()
}

/// The status codes for the middle and the last call unless `CUDA_FULL=1` is set.
const FEW: [Status; 1] = [Status::CUDA_ERROR_UNKNOWN];

/// The status codes for the first call, one of each category: memory, arguments, devices, a lost
/// device, a destroyed context, and one without special handling.
const SOME: [Status; 6] = [
    Status::CUDA_ERROR_OUT_OF_MEMORY,
    Status::CUDA_ERROR_INVALID_VALUE,
    Status::CUDA_ERROR_NOT_SUPPORTED,
    Status::CUDA_ERROR_ILLEGAL_ADDRESS,
    Status::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    Status::CUDA_ERROR_UNKNOWN,
];

/// More threads than processors, because cases wait for the periodic background threads of the
/// library. Fewer than a process has software drivers, so that other tests find a free one.
const THREADS: usize = 24;

#[test]
fn a_call_that_fails_is_reported_and_leaks_nothing() {
    if !reach::has_sources() {
        skipped("the fault matrix: the library sources are missing");
        return;
    }
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let only = env::var("CUDA_FAULTS").unwrap_or_default();
    let (only, call) = only.split_once('/').unwrap_or((&only, ""));
    let all = all_statuses();
    let (first, later) = if is_full {
        (&all[..], &all[..])
    } else {
        (&SOME[..], &FEW[..])
    };
    let start = Instant::now();
    let mut cases = Vec::new();
    let mut full = 0;
    // Calls that scenarios make in the role of other code are left out.
    let called = reach::called();
    let scenarios = scenarios::all();
    for scenario in scenarios
        .iter()
        .filter(|it| only.is_empty() || it.name == only)
    {
        let ended = run(scenario, None);
        assert!(
            ended.wrong.is_empty(),
            "{}: {:?}",
            scenario.name,
            ended.wrong
        );
        let mut trace = ended.trace;
        trace.retain(|entry| called.contains(entry.function.name));
        full += cases_of(scenario, &trace, &all, &all).len();
        let mut own = cases_of(scenario, &trace, first, later);
        own.retain(|case| !rules::is_none(scenario.name, &case.fault));
        own.retain(|case| call.is_empty() || case.fault.call.name == call);
        cases.extend(own);
    }
    let report = run_all(cases, THREADS);
    let lines = report.lines();
    println!(
        "{} of {full} cases in {} scenarios, {} of which did not reach the call, in {:.1} s",
        report.cases,
        scenarios.len(),
        report.missed,
        start.elapsed().as_secs_f64()
    );
    assert!(
        lines.is_empty(),
        "{} kinds of failures:\n{}",
        lines.len(),
        lines.join("\n")
    );
}
