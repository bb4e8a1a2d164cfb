//! The status that the driver returns for invalid calls: compares the software device with codes
//! that were recorded on a GPU.
//!
//! Each call is made through the C API with one mistake that cuda.h or the manual mentions. Some
//! calls are valid, and their result is compared: it is recorded as 1,000,000 plus the number.
//! `codes.txt` lists the codes that a GPU returned; a call that is missing there has not been
//! measured, and is printed. Where the real driver crashed, the software device may return any
//! error, but must not accept the call.

#![expect(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    unused_unsafe,
    reason = "each is a call of the C API: pointers are to memory of the type and length that cuda.h asks for, or wrong \
              in the way that the call is about and that the driver documents an error for; some are made by functions"
)]

mod apart;
mod beside;
mod capture;
mod context;
mod copy;
mod device;
mod device_node;
mod fixture;
mod graph;
mod launch;
mod memory;
mod module;
mod nested;
mod nodes;
mod occupancy;
mod pool;
mod run;
mod stream;
mod texture;

use std::collections::{BTreeMap, BTreeSet};

use apart::KNOWN_APART;
use fixture::Case;

/// The codes of a GPU: `name code` in each line, or `crash` for a call that ended its process.
const CODES: &str = include_str!("codes.txt");

/// All invalid calls.
fn cases() -> Vec<Case> {
    [
        device::CASES,
        context::CASES,
        memory::CASES,
        copy::CASES,
        pool::CASES,
        stream::CASES,
        capture::CASES,
        beside::CASES,
        module::CASES,
        launch::CASES,
        graph::CASES,
        nested::CASES,
        occupancy::CASES,
        device_node::CASES,
        texture::CASES,
    ]
    .concat()
}

fn recorded() -> BTreeMap<&'static str, &'static str> {
    CODES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .collect()
}

/// The differences between two lists, as text.
fn differences(
    found: &BTreeMap<String, String>,
    expected: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    found
        .iter()
        .filter_map(|(name, code)| {
            let expected = expected(name)?;
            (*code != expected).then(|| format!("{name}: {code}, not {expected}"))
        })
        .collect()
}

#[test]
fn names_are_unique_and_records_are_of_calls() {
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len());
    for name in recorded().keys() {
        assert!(
            names.contains(name),
            "codes.txt names {name}, but no call has that name"
        );
    }
    assert!(cases.len() >= 200, "{}", cases.len());
}

#[test]
fn the_software_device_returns_the_codes_of_a_gpu() {
    let (codes, recorded) = (run::software(&cases()), recorded());
    let unmeasured = codes
        .keys()
        .filter(|name| !recorded.contains_key(name.as_str()));
    let unmeasured: Vec<&String> = unmeasured.collect();
    println!(
        "{} invalid calls, {} not measured",
        codes.len(),
        unmeasured.len()
    );
    for name in unmeasured {
        println!("unmeasured {name} {}", codes[name]);
    }
    let crashed = |name: &String| recorded.get(name.as_str()) == Some(&"crash");
    let (crashes, compared): (BTreeMap<_, _>, BTreeMap<_, _>) =
        codes.into_iter().partition(|(name, _)| crashed(name));
    let taken: Vec<&String> = crashes
        .iter()
        .filter_map(|(name, code)| (code == "0").then_some(name))
        .collect();
    assert!(
        taken.is_empty(),
        "accepted although a GPU crashes: {taken:?}"
    );

    let expected = |name: &str| recorded.get(name).map(|&code| code.to_owned());
    let known: BTreeSet<&str> = KNOWN_APART.iter().map(|&(name, _)| name).collect();
    assert_eq!(known.len(), KNOWN_APART.len(), "a name is listed twice");
    for name in &known {
        assert!(
            compared.contains_key(*name),
            "{name} is in KNOWN_APART, but is not compared"
        );
    }
    let (apart, same): (BTreeMap<_, _>, BTreeMap<_, _>) = compared
        .into_iter()
        .partition(|(name, _)| known.contains(name.as_str()));
    let apart_still = differences(&apart, expected);
    println!(
        "{} equal, {} known to differ, {} where a GPU crashes",
        same.len(),
        apart.len(),
        crashes.len()
    );
    assert_eq!(
        apart_still.len(),
        apart.len(),
        "KNOWN_APART lists calls that no longer differ; keep only these:\n{}",
        apart_still.join("\n")
    );
    let wrong = differences(&same, expected);
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Prints the codes of a GPU in the format of `codes.txt`, and the calls for which the software
/// device returns another code.
#[test]
#[ignore = "for a GPU"]
fn a_gpu_returns_the_recorded_codes() {
    let Some(measured) = run::gpu(cases().len()) else {
        return;
    };
    for (name, code) in &measured {
        println!("code {name} {code}");
    }
    let software = run::software(&cases());
    let apart = differences(&software, |name| measured.get(name).cloned());
    println!(
        "{} calls, {} with another code from the software device",
        measured.len(),
        apart.len()
    );
    for line in &apart {
        println!("apart {line}");
    }
    let recorded = recorded();
    let moved = differences(&measured, |name| {
        recorded.get(name).map(|&code| code.to_owned())
    });
    assert!(moved.is_empty(), "not as recorded:\n{}", moved.join("\n"));
}

/// Makes the calls from a given one on in this process, which a call may end.
#[test]
#[ignore = "started by the test above as a child process"]
fn a_child() {
    run::child(&cases());
}
