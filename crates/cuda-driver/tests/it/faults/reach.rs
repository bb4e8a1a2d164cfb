//! Which functions the safe layer calls, and that the scenarios call each.

use std::collections::BTreeSet;

use super::rig::run;
use super::scenarios;
use crate::support::skipped;

/// Those that no scenario calls.
const NOT_REACHED: &[(&str, &str)] = &[];

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Whether the sources of the library are here: on a machine that only runs the tests they are not.
pub(super) fn has_sources() -> bool {
    std::path::Path::new(SOURCES).is_dir()
}

/// The names `cuXxx(` in the sources of the library, where it calls the driver.
pub(super) fn called() -> BTreeSet<String> {
    let mut open = vec![std::path::PathBuf::from(SOURCES)];
    let mut names = BTreeSet::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let code = line.trim_start();
            if code.starts_with("//") || code.starts_with("#[") {
                continue;
            }
            for (at, _) in code.match_indices("cu") {
                let before = code[..at].chars().next_back();
                if before.is_some_and(|it| it.is_alphanumeric() || matches!(it, '_' | ':' | '"')) {
                    continue;
                }
                let is_part = |it: &char| it.is_alphanumeric() || *it == '_';
                let name: String = code[at..].chars().take_while(is_part).collect();
                let is_function = cuda_sys::FUNCTIONS.iter().any(|it| it.name == name);
                if is_function {
                    names.insert(name);
                }
            }
        }
    }
    names
}

#[test]
fn the_scenarios_call_all_that_the_library_calls() {
    if !has_sources() {
        skipped("what the scenarios call: the sources of the library are not here");
        return;
    }
    let mut reached = BTreeSet::new();
    for scenario in scenarios::all() {
        let ended = run(scenario, None);
        assert!(
            ended.wrong.is_empty(),
            "{}: {:?}",
            scenario.name,
            ended.wrong
        );
        reached.extend(
            ended
                .trace
                .iter()
                .map(|entry| entry.function.name.to_owned()),
        );
    }
    let called = called();
    let excepted: BTreeSet<String> = NOT_REACHED
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let missing: Vec<&String> = called
        .difference(&reached)
        .filter(|it| !excepted.contains(*it))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let needless: Vec<&String> = excepted
        .iter()
        .filter(|it| reached.contains(*it) || !called.contains(*it))
        .collect();
    assert!(needless.is_empty(), "{needless:?}");
    println!(
        "{} of {} functions are reached",
        called.len() - excepted.len(),
        called.len()
    );
    assert!(called.len() > 150);
}
