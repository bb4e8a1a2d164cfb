//! `successes COUNT`: Makes the calls of this number of random inputs, and prints how often each
//! function was called and succeeded, and for a function that never succeeds, its most frequent
//! status. Such a function is hardly tested.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;

use cuda_fuzz::{calls_observed, random};

#[derive(Default)]
struct Function {
    calls: u64,
    successes: u64,
    errors: BTreeMap<String, u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = env::args().nth(1).ok_or("successes COUNT")?.parse()?;
    let mut functions = BTreeMap::<&str, Function>::new();
    for seed in 1..=count {
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
        match errors.iter().max_by_key(|(_, count)| **count) {
            Some((error, _)) if *successes == 0 => println!(": {error}"),
            _ => println!(),
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
