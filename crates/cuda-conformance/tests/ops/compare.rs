//! Compares results of devices with those of the host, and results of the GPU with those of the
//! software device.

use std::collections::BTreeSet;
use std::fmt::Write;

use test_needs::this_test;

use crate::fixture::{Fixture, fixtures, is_full};
use crate::input::inputs;
use crate::kernel::BLOCK;
use crate::operation::{Operation, Results, Rule, cut};

/// The number of threads for each operation.
fn count() -> usize {
    BLOCK * if is_full() { 256 } else { 8 }
}

/// An operation, its sources, and the results that it must give.
struct Case<'a> {
    operation: &'a Operation,
    sources: Vec<Vec<u64>>,
    expected: Vec<Results>,
}

impl Case<'_> {
    /// Counts the threads whose results differ, and describes the first difference.
    fn differences(
        &self,
        found: &[Results],
        expected: &[Results],
        rule: Rule,
    ) -> Option<(usize, String)> {
        let mut wrong = 0;
        let mut first = String::new();
        for ((sources, found), expected) in self.sources.iter().zip(found).zip(expected) {
            let right = self
                .operation
                .to
                .iter()
                .enumerate()
                .all(|(k, &ty)| rule.accepts(found[k], cut(ty, expected[k])));
            if right {
                continue;
            }
            wrong += 1;
            if first.is_empty() {
                let results = self.operation.to.len();
                let expected: Vec<u64> = self
                    .operation
                    .to
                    .iter()
                    .zip(expected)
                    .map(|(&ty, &value)| cut(ty, value))
                    .collect();
                write!(
                    first,
                    "for sources {sources:x?}: got {:x?}, expected {expected:x?}",
                    &found[..results]
                )
                .unwrap();
            }
        }
        (wrong > 0).then_some((wrong, first))
    }
}

/// The number of cases whose inputs and results are in memory at a time.
const AT_ONCE: usize = 32;

/// The number of cases that ran on a device, and their outcome.
#[derive(Clone, Copy, Default)]
struct Tally {
    cases: usize,
    wrong: usize,
    /// The cases that were compared with the software device: all of them, and those that are equal
    /// in every bit.
    compared: usize,
    same: usize,
    apart: usize,
}

/// Runs operations on every device. Fails with a list of all wrong results.
#[track_caller]
pub(crate) fn check(operations: &[Operation]) {
    let test = this_test();
    let names: BTreeSet<&str> = operations.iter().map(|one| one.name.as_str()).collect();
    println!(
        "{test}: {} instructions in {} cases, each on {} threads",
        names.len(),
        operations.len(),
        count()
    );
    let fixtures = fixtures();
    let mut tallies = vec![Tally::default(); fixtures.len()];
    let mut wrong = Vec::new();
    for operations in operations.chunks(AT_ONCE) {
        some(operations, &fixtures, &mut tallies, &mut wrong);
    }
    for (fixture, tally) in fixtures.iter().zip(tallies) {
        println!(
            "  {test} on {}: {} cases, {} wrong",
            fixture.name, tally.cases, tally.wrong
        );
        if fixture.is_gpu {
            println!(
                "    {} also ran on the software device: {} equal in every bit, {} wrong",
                tally.compared, tally.same, tally.apart
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn some(
    operations: &[Operation],
    fixtures: &[Fixture],
    tallies: &mut [Tally],
    wrong: &mut Vec<String>,
) {
    let cases: Vec<Case<'_>> = operations
        .iter()
        .map(|operation| {
            let sources = inputs(operation, count());
            let expected = operation.expected(&sources);
            Case {
                operation,
                sources,
                expected,
            }
        })
        .collect();
    let mut software: Option<Vec<Option<Vec<Results>>>> = None;
    for (fixture, tally) in fixtures.iter().zip(tallies) {
        let results = against_the_host(fixture, &cases, tally, wrong);
        if fixture.is_gpu
            && let Some(software) = &software
        {
            between_devices(fixture, &cases, software, &results, tally, wrong);
        }
        software.get_or_insert(results);
    }
}

fn against_the_host(
    fixture: &Fixture,
    cases: &[Case<'_>],
    tally: &mut Tally,
    wrong: &mut Vec<String>,
) -> Vec<Option<Vec<Results>>> {
    let mut results: Vec<Option<Vec<Results>>> = cases.iter().map(|_| None).collect();
    let has: Vec<usize> = (0..cases.len())
        .filter(|&k| fixture.has(cases[k].operation))
        .collect();
    let batch: Vec<_> = has
        .iter()
        .map(|&k| (cases[k].operation, &cases[k].sources[..]))
        .collect();
    let before = wrong.len();
    for (&k, found) in has.iter().zip(fixture.run(&batch)) {
        let (case, name) = (&cases[k], &cases[k].operation.name);
        match found {
            Ok(found) => {
                let rule = case.operation.rule;
                if let Some((count, first)) = case.differences(&found, &case.expected, rule) {
                    wrong.push(format!(
                        "{name} on {}: {count} threads differ; {first}",
                        fixture.name
                    ));
                }
                results[k] = Some(found);
            }
            Err(error) => wrong.push(format!("{name} on {}: {error}", fixture.name)),
        }
    }
    tally.cases += has.len();
    tally.wrong += wrong.len() - before;
    results
}

/// Compares two devices bit by bit, except where the ISA gives error bounds or does not define
/// which NaN results: then any NaN equals any other.
fn between_devices(
    fixture: &Fixture,
    cases: &[Case<'_>],
    software: &[Option<Vec<Results>>],
    results: &[Option<Vec<Results>>],
    tally: &mut Tally,
    wrong: &mut Vec<String>,
) {
    let before = wrong.len();
    for ((case, software), found) in cases.iter().zip(software).zip(results) {
        let (Some(software), Some(found)) = (software, found) else {
            continue;
        };
        tally.compared += 1;
        tally.same += usize::from(software == found);
        let rule = case.operation.rule.between_two();
        if let Some((count, first)) = case.differences(software, found, rule) {
            let name = &case.operation.name;
            wrong.push(format!(
                "{name}, the software device against {}: {count} threads differ; {first}",
                fixture.name
            ));
        }
    }
    tally.apart += wrong.len() - before;
}
