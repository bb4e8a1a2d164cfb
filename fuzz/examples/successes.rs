//! `successes COUNT`: Makes the calls of this number of random inputs, and prints how often each
//! function was called and succeeded. A function that never succeeds is hardly tested.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;

use cuda_fuzz::calls_observed;

/// The length of an input, as in `run.py`.
const LENGTH: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = env::args().nth(1).ok_or("successes COUNT")?.parse()?;
    // For each function: calls, and those that succeeded.
    let mut functions = BTreeMap::<&str, [u64; 2]>::new();
    for seed in 1..=count {
        calls_observed(&random(seed), &mut |name, succeeded| {
            let [calls, successes] = functions.entry(name).or_default();
            *calls += 1;
            *successes += u64::from(succeeded);
        });
    }
    for (name, [calls, successes]) in &functions {
        println!("{name:<48} {calls:>8} calls {successes:>8} succeeded");
    }
    let never = functions.values().filter(|[_, successes]| *successes == 0);
    println!(
        "{count} inputs, {} functions, {} of them never succeeded",
        functions.len(),
        never.count()
    );
    Ok(())
}

/// Returns the random bytes of an input.
fn random(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    words.flat_map(u64::to_le_bytes).take(LENGTH).collect()
}
