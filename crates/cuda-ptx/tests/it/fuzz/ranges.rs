//! Random kernels: a proof for ranges of numbers holds for all numbers in them.

use cuda_ptx::analysis::{Analysis, Argument, Buffer, NumberRange};
use fastrand::Rng;

use super::interpret::{Executed, Program, TILE, WINDOW};
use super::{STEPS, kernel_of, launch, programs, threads};

/// The number of programs, and that with `CUDA_FULL=1`.
const PROGRAMS: u64 = 1_500;
const FULL_PROGRAMS: u64 = 100_000;

/// Statistics of all programs.
#[derive(Debug, Default)]
struct Counts {
    proven: u64,
    /// The proven launches whose needed sizes depend on a number.
    depending: u64,
    executed: u64,
}

#[test]
fn needs_hold_for_all_numbers_of_the_ranges() {
    let (programs, first) = programs(PROGRAMS, FULL_PROGRAMS);
    let mut counts = Counts::default();
    for seed in first..first + programs {
        check(seed, &mut counts);
    }
    println!("{programs} programs: {counts:?}");
    if programs > 1000 {
        assert!(counts.proven > 10 && counts.depending > 3, "{counts:?}");
    }
}

fn check(seed: u64, counts: &mut Counts) {
    let text = kernel_of(seed);
    let module = cuda_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.functions.last().expect("a kernel");
    let analysis = Analysis::of(&module, function);
    let program = Program::new(&module);
    let mut rng = Rng::with_seed(!seed);
    let (mut values, mut params) = launch(&mut rng);
    for index in 0..2 {
        values.arguments[index] = Argument::buffer(Buffer {
            bytes: 1 << 62,
            align: 256,
            is_writable: true,
        });
        params.insert(["x", "y"][index], rng.u64(1..1 << 46) << 8);
    }
    // The numbers that are not negative, at least one of which gets a range.
    let kept = rng.u32(1..8);
    let numbers = [("n", 2, 4), ("m", 3, 4), ("w", 4, 8)];
    let mut names = Vec::new();
    let mut ranges = Vec::new();
    for (index, (name, parameter, size)) in numbers.into_iter().enumerate() {
        let value = params[name];
        let most = (1_u64 << (8 * size - 1)) - 1;
        if kept >> index & 1 == 0 || value > most {
            continue;
        }
        let (low, high) = match rng.u32(..4) {
            0 => (0, most),
            1 => (value / 2, value.saturating_mul(2).min(most)),
            2 => (1, (1 << (8 * size - 2)).max(value)),
            _ => (value.saturating_sub(rng.u64(..50)), value),
        };
        if value < low {
            continue;
        }
        names.push(name);
        ranges.push(NumberRange {
            parameter,
            offset: 0,
            size,
            low,
            high,
        });
    }
    if ranges.is_empty() {
        return;
    }
    let first: Vec<u64> = names.iter().map(|name| params[name]).collect();
    let Some(needs) = analysis.evaluate_ranges(&values, &ranges) else {
        return;
    };
    counts.proven += 1;
    counts.depending += u64::from(needs.iter().any(|need| !need.terms.is_empty()));
    for round in 0..6 {
        let numbers: Vec<u64> = (ranges.iter().zip(&first))
            .map(|(range, first)| match (round, rng.u32(..3)) {
                (0, _) => *first,
                (_, 0) => range.low,
                (_, 1) => range.high,
                _ => rng.u64(range.low..=range.high),
            })
            .collect();
        for ((name, range), number) in names.iter().zip(&ranges).zip(&numbers) {
            params.insert(name, *number);
            let bytes = &number.to_le_bytes()[..range.size as usize];
            values.arguments[range.parameter as usize] = Argument::scalar(bytes);
        }
        let of_parameter = |parameter: u32| {
            let needs = needs.iter().filter(|need| need.parameter == parameter);
            let mut bytes = needs.map(|need| need.bytes(&numbers));
            bytes.try_fold(0, |most, bytes| Some(bytes?.max(most)))
        };
        // For some numbers no buffer is large enough, so nothing is claimed.
        let (Some(x), Some(y)) = (of_parameter(0), of_parameter(1)) else {
            continue;
        };
        let places = [
            (params["x"], x),
            (params["y"], y),
            (TILE, 512),
            (TILE + WINDOW, 512),
        ];
        for thread in threads(&values, &params, &mut rng) {
            let mut visit = |executed: Executed| {
                counts.executed += 1;
                let is_inside = places.iter().any(|(base, bytes)| {
                    let offset = executed.address.wrapping_sub(*base);
                    offset
                        .checked_add(executed.size)
                        .is_some_and(|end| end <= *bytes)
                });
                assert!(
                    is_inside && executed.address.is_multiple_of(executed.size),
                    "CUDA_SEED={seed}: access {} of thread {:?} of block {:?} for {names:?} = \
                     {numbers:?}\n{needs:?}\n{values:?}\n{text}",
                    executed.number,
                    thread.tid,
                    thread.ctaid
                );
            };
            program.run(&thread, STEPS, &mut rng, &mut visit);
        }
    }
}
