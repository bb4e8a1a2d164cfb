//! Random kernels: a proof for a range of numbers holds for each number in it.

use cuda_ptx::analysis::{Analysis, Argument, Buffer, Need, NumberRange};
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
    /// Those whose needs depend on the number.
    depending: u64,
    executed: u64,
}

#[test]
fn needs_hold_for_all_numbers_of_a_range() {
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
    let n = params["n"];
    if n >> 31 != 0 {
        return;
    }
    let range = match rng.u32(..3) {
        0 => (0, i32::MAX as u64),
        1 => (n / 2, (2 * n).min(i32::MAX as u64)),
        _ => (n.saturating_sub(rng.u64(..50)), n),
    };
    let range = NumberRange {
        parameter: 2,
        offset: 0,
        size: 4,
        low: range.0,
        high: range.1,
    };
    let Some(needs) = analysis.evaluate_ranges(&values, &[range]) else {
        return;
    };
    counts.proven += 1;
    counts.depending += u64::from(needs.iter().any(|need| !need.terms.is_empty()));
    for n in [range.low, range.high, rng.u64(range.low..=range.high), n] {
        params.insert("n", n);
        values.arguments[2] = Argument::scalar((n as u32).to_le_bytes());
        let of_parameter = |parameter: u32| {
            let needs = needs
                .iter()
                .filter(|need: &&Need| need.parameter == parameter);
            needs.map(|need| need.bytes(&[n]).expect("it fits")).max()
        };
        let places = [
            (params["x"], of_parameter(0).unwrap_or(0)),
            (params["y"], of_parameter(1).unwrap_or(0)),
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
                    "CUDA_SEED={seed}: access {} of thread {:?} of block {:?} for n = {n}\n\
                     {needs:?}\n{values:?}\n{text}",
                    executed.number,
                    thread.tid,
                    thread.ctaid
                );
            };
            program.run(&thread, STEPS, &mut rng, &mut visit);
        }
    }
}
