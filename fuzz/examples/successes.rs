//! `successes COUNT [FIRST]`: Makes the calls of this number of random inputs, from this seed on,
//! and prints how often each function was called and succeeded. For a function that never succeeded
//! it prints the reason if it cannot, and otherwise its most frequent status. Such a function is
//! hardly tested.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;

use cuda_fuzz::{calls_observed, random};

/// Functions that cannot succeed, and the reason.
const CANNOT: &[(&str, &str)] = &[
    ("cuGetExportTable", "there are no tables"),
    (
        "cuIpcOpenEventHandle",
        "the handle is of the same process, which is refused",
    ),
    (
        "cuIpcOpenMemHandle_v2",
        "the handle is of the same process, which is refused",
    ),
    (
        "cuIpcCloseMemHandle",
        "it needs memory of cuIpcOpenMemHandle",
    ),
    (
        "cuLibraryGetManaged",
        "the host cannot access variables of the software device",
    ),
    (
        "cuLibraryGetUnifiedFunction",
        "the software devices have no pointers to unified functions",
    ),
];

#[derive(Default)]
struct Function {
    calls: u64,
    successes: u64,
    errors: BTreeMap<String, u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = env::args()
        .nth(1)
        .ok_or("successes COUNT [FIRST]")?
        .parse()?;
    let first = env::args().nth(2).map_or(Ok(1), |first| first.parse())?;
    let mut functions = BTreeMap::<&str, Function>::new();
    for seed in first..first + count {
        calls_observed(&random(seed), &mut |name, status| {
            let function = functions.entry(name).or_default();
            function.calls += 1;
            if status.is_success() {
                function.successes += 1;
            } else {
                *function.errors.entry(status.to_string()).or_default() += 1;
            }
        });
    }
    for (name, function) in &functions {
        let Function {
            calls,
            successes,
            errors,
        } = function;
        print!("{name:<48} {calls:>8} calls {successes:>8} succeeded");
        let reason = CANNOT.iter().find(|(known, _)| known == name);
        let frequent = errors.iter().max_by_key(|(_, count)| **count);
        match (reason, frequent) {
            _ if *successes > 0 => println!(),
            (Some((_, reason)), _) => println!(": {reason}"),
            (None, Some((error, _))) => println!(": {error}"),
            (None, None) => println!(),
        }
    }
    let sum = |number: fn(&Function) -> u64| functions.values().map(number).sum::<u64>();
    let never = functions
        .values()
        .filter(|function| function.successes == 0);
    println!(
        "{count} inputs, {} calls, {} succeeded; {} functions, {} of them never succeeded",
        sum(|function| function.calls),
        sum(|function| function.successes),
        functions.len(),
        never.count()
    );
    Ok(())
}
