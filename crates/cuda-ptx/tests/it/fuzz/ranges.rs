//! Random kernels: a proof for ranges of numbers and of the grid holds for all numbers in them.

use cuda_ptx::analysis::{Analysis, Argument, Buffer, NumberRange, OpenNumber};
use fastrand::Rng;

use super::interpret::{Executed, PLACES, Program, parameter_place};
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
    /// The proven launches with a range of the grid, and those whose needed sizes depend on it.
    grids: u64,
    depending_on_grid: u64,
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
        assert!(
            counts.grids > 10 && counts.depending_on_grid > 3,
            "{counts:?}"
        );
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
    // The numbers that are not negative, and the grid: at least one gets a range.
    let kept = rng.u32(..8);
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
        let number = OpenNumber::Argument {
            parameter,
            offset: 0,
            size,
        };
        ranges.push(NumberRange { number, low, high });
    }
    for (axis, name) in ["nctaid.x", "nctaid.y", "nctaid.z"].into_iter().enumerate() {
        if rng.u32(..3) != 0 {
            continue;
        }
        let value = u64::from(values.grid[axis]);
        let low = [1, value.div_ceil(2), value][rng.usize(..3)];
        let high = match rng.u32(..3) {
            0 => 2 * value,
            _ => 1 << rng.u32(..[31, 12, 12][axis]),
        };
        names.push(name);
        ranges.push(NumberRange {
            number: OpenNumber::Blocks { axis },
            low,
            high: high.max(value),
        });
    }
    if ranges.is_empty() {
        return;
    }
    let first: Vec<u64> = (names.iter().zip(&ranges))
        .map(|(name, range)| match range.number {
            OpenNumber::Argument { .. } => params[name],
            OpenNumber::Blocks { axis } => values.grid[axis].into(),
        })
        .collect();
    let Some(needs) = analysis.evaluate_ranges(&values, &ranges) else {
        return;
    };
    counts.proven += 1;
    let depends = |is_of: &dyn Fn(OpenNumber) -> bool| {
        let mut terms = needs.iter().flat_map(|need| &need.terms);
        u64::from(terms.any(|term| is_of(ranges[term.0].number)))
    };
    let is_grid = |number| matches!(number, OpenNumber::Blocks { .. });
    counts.depending += depends(&|number| !is_grid(number));
    counts.depending_on_grid += depends(&is_grid);
    counts.grids += u64::from(ranges.iter().any(|range| is_grid(range.number)));
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
            match range.number {
                OpenNumber::Argument {
                    parameter, size, ..
                } => {
                    params.insert(name, *number);
                    let bytes = &number.to_le_bytes()[..size as usize];
                    values.arguments[parameter as usize] = Argument::scalar(bytes);
                }
                OpenNumber::Blocks { axis } => values.grid[axis] = *number as u32,
            }
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
        for thread in threads(&values, &params, &mut rng) {
            let variables = PLACES.iter().zip(thread.variables);
            let variables = variables.flat_map(|(place, address)| {
                [0, place.window].map(|window| (address + window, place.size))
            });
            let buffers = [(params["x"], x), (params["y"], y)];
            let parameters = params.keys().map(|name| parameter_place(name));
            let places = buffers.into_iter().chain(variables).chain(parameters);
            let places: Vec<(u64, u64)> = places.collect();
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
            let result = program.run(&thread, STEPS, &mut rng, &mut visit);
            result.unwrap_or_else(|error| panic!("CUDA_SEED={seed}: {error}\n{text}"));
        }
    }
}
