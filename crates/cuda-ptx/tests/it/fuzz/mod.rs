//! Random kernels: no thread leaves the bounds that the analysis proved.
//!
//! `CUDA_FULL=1` runs the full number of programs and `CUDA_PTX_PROGRAMS=n` runs n. `CUDA_SEED=n`
//! runs the program of that seed, or begins there if the number of programs is given.
//! `CUDA_PTX_COUNT=file` continues after the programs that the file counts, and adds to it, for
//! `CUDA_PTX_MINUTES=n` if that is given.

mod access;
mod arithmetic;
mod calls;
mod control;
pub(crate) mod count;
mod evaluate;
mod frames;
mod generate;
mod interpret;
mod ranges;

use std::collections::HashMap;

use cuda_ptx::Space;
use cuda_ptx::analysis::{Analysis, Argument, Buffer, LaunchValues, Outcome, Root, Verdict};
use fastrand::Rng;

pub(crate) use count::programs;
use interpret::{Executed, PLACES, Program, Thread, place_of};

/// The number of programs, and that with `CUDA_FULL=1`.
const PROGRAMS: u64 = 3_000;
const FULL_PROGRAMS: u64 = 10_000_000;
/// The steps of one thread, and the launches of one program.
const STEPS: u32 = 300;
const LAUNCHES: u32 = 1;

pub(crate) fn kernel_of(seed: u64) -> String {
    generate::kernel(Rng::with_seed(seed))
}

count::counts! {
    /// Statistics of all programs.
    struct Counts {
        programs,
        accesses,
        proven,
        unreached,
        threads,
        executed,
        /// Executions of proven accesses.
        proven_executed,
        /// Executions that reached the last proven byte.
        at_end,
    }
}

#[test]
fn counts_are_read_as_they_are_written() {
    let mut counts = Counts::default();
    for ((_, number), value) in count::Counted::numbers(&mut counts).into_iter().zip(7..) {
        *number = value;
    }
    assert_eq!(count::parse::<Counts>(&count::text(counts)), counts);
    assert_eq!((counts.programs, counts.at_end), (7, 14));
}

#[test]
fn proven_accesses_stay_in_their_bounds() {
    let (programs, first) = programs(PROGRAMS, FULL_PROGRAMS);
    let counts: Counts = count::run(first, programs, check);
    println!("{}", count::text(counts));
    if programs > 100 {
        let reached = counts.accesses - counts.unreached;
        assert!(
            counts.proven * 5 > reached,
            "few accesses are proven: {counts:?}"
        );
        assert!(
            counts.at_end * 50 > counts.proven_executed,
            "bounds are loose: {counts:?}"
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
    for _ in 0..LAUNCHES {
        let (launch, params) = launch(&mut rng);
        let verdict = analysis.evaluate(&launch);
        let outcomes = match &verdict {
            Verdict::Refused(refusal) if refusal.reason.contains("table") => return,
            Verdict::Refused(refusal) => panic!("CUDA_SEED={seed}: {refusal}\n{text}"),
            verdict => &verdict.contract().expect("not refused").accesses,
        };
        counts.accesses += outcomes.len() as u64;
        for access in outcomes {
            match access.outcome {
                Outcome::Proven { .. } => counts.proven += 1,
                Outcome::Unreached => counts.unreached += 1,
                _ => {}
            }
        }
        let sizes: Vec<u64> = launch.arguments[..2].iter().map(size).collect();
        for thread in threads(&launch, &params, &mut rng) {
            counts.threads += 1;
            let mut visit = |executed: Executed| {
                counts.executed += 1;
                let outcome = &outcomes[executed.number].outcome;
                let space = &outcomes[executed.number].space;
                let (base, length, low, high) = match outcome {
                    Outcome::Checked { .. } => return,
                    Outcome::Unreached => {
                        panic!("CUDA_SEED={seed}: an unreached access was executed\n{text}")
                    }
                    Outcome::Proven {
                        root: Root::Buffer { parameter, .. },
                        low,
                        high,
                    } => {
                        let name = ["x", "y"][*parameter as usize];
                        (params[name], sizes[*parameter as usize], low, high)
                    }
                    Outcome::Proven {
                        root: Root::Variable(name),
                        low,
                        high,
                    } if *space == Some(Space::Param) => {
                        let (base, length) = interpret::parameter_place(name);
                        (base, length, low, high)
                    }
                    Outcome::Proven {
                        root: Root::Variable(name),
                        low,
                        high,
                    } => {
                        // A function that is called has a copy of its variables.
                        let number = place_of(name).expect("a variable of the kernel");
                        let place = &PLACES[number];
                        let window = if space.is_some() { 0 } else { place.window };
                        (thread.variables[number] + window, place.size, low, high)
                    }
                    other => panic!("outcome {other:?}"),
                };
                let offset = executed.address.wrapping_sub(base);
                let is_inside = offset >= *low
                    && offset
                        .checked_add(executed.size)
                        .is_some_and(|end| end <= *high)
                    && *high <= length;
                let is_aligned = executed.address.is_multiple_of(executed.size);
                assert!(
                    is_inside && is_aligned,
                    "CUDA_SEED={seed}: access {} of thread {:?} of block {:?}: offset {offset}, \
                     {} bytes\n{launch:?}\n{verdict}\n{text}",
                    executed.number,
                    thread.tid,
                    thread.ctaid,
                    executed.size
                );
                counts.proven_executed += 1;
                counts.at_end += u64::from(offset + executed.size == *high);
            };
            let result = program.run(&thread, STEPS, &mut rng, &mut visit);
            result.unwrap_or_else(|error| panic!("CUDA_SEED={seed}: {error}\n{text}"));
        }
    }
}

/// The size of the buffer of an argument.
fn size(argument: &Argument) -> u64 {
    argument
        .buffers()
        .next()
        .map_or(0, |(_, buffer)| buffer.bytes)
}

/// A random launch, and the values of its parameters.
fn launch(rng: &mut Rng) -> (LaunchValues, HashMap<&'static str, u64>) {
    let edges = [
        0,
        1,
        3,
        31,
        64,
        100,
        1000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
    ];
    let scalar = |rng: &mut Rng| {
        let edge: u64 = edges[rng.usize(..edges.len())];
        match rng.u32(..4) {
            0 => edge.wrapping_sub(rng.u64(..300)) as u32,
            1 => rng.u32(..300),
            _ => edge as u32,
        }
    };
    let (n, m) = (scalar(rng), scalar(rng));
    let w = match rng.u32(..4) {
        0 => u64::from(scalar(rng)),
        1 => rng.u64(..),
        2 => u64::from(scalar(rng)) << rng.u32(..33),
        _ => rng.u64(..100),
    };
    let mut params = HashMap::from([("n", n.into()), ("m", m.into()), ("w", w)]);
    let mut arguments = Vec::new();
    for name in ["x", "y"] {
        let bytes = match rng.u32(..4) {
            0 => u64::from(n) * [1, 2, 4, 8, 16][rng.usize(..5)],
            1 => rng.u64(..5000),
            2 => 1 << 40,
            _ => 1 << rng.u32(..40),
        };
        let align = [1, 4, 16, 256][rng.usize(..4)];
        let base = match rng.u32(..3) {
            0 => align,
            1 => (u64::MAX - bytes) / align * align,
            _ => rng.u64(1..1 << 46) / align * align + align,
        };
        params.insert(name, base);
        arguments.push(Argument::buffer(Buffer {
            bytes,
            align,
            is_writable: true,
        }));
    }
    arguments.push(Argument::scalar(n.to_le_bytes()));
    arguments.push(Argument::scalar(m.to_le_bytes()));
    arguments.push(Argument::scalar(w.to_le_bytes()));
    let grid = [
        [1, 1, 1],
        [2, 1, 1],
        [5, 1, 1],
        [0x7fff_ffff, 1, 1],
        [70000, 2, 1],
    ][rng.usize(..5)];
    let block = [[1, 1, 1], [8, 1, 1], [32, 2, 1], [1024, 1, 1], [6, 4, 1]][rng.usize(..5)];
    let launch = LaunchValues {
        cluster: None,
        grid,
        block,
        dynamic_shared: 0,
        arguments,
    };
    (launch, params)
}

/// All threads of a small grid; some of a large one, with those at its corners.
fn threads<'a>(
    launch: &LaunchValues,
    params: &'a HashMap<&'static str, u64>,
    rng: &mut Rng,
) -> Vec<Thread<'a>> {
    let (grid, block) = (launch.grid, launch.block);
    let count = |sizes: [u32; 3]| sizes.iter().map(|&size| u64::from(size)).product::<u64>();
    let total = count(grid) * count(block);
    let split = |index: u64, sizes: [u32; 3]| {
        let (x, y) = (u64::from(sizes[0]), u64::from(sizes[1]));
        [
            (index % x) as u32,
            (index / x % y) as u32,
            (index / x / y) as u32,
        ]
    };
    let indices: Vec<u64> = match total {
        0..=48 => (0..total).collect(),
        _ => (0..20)
            .map(|_| rng.u64(..total))
            .chain([0, 1, total - 2, total - 1])
            .collect(),
    };
    let variables = [0, 1, 2].map(|number: usize| PLACES[number].addresses[rng.usize(..3)]);
    let threads = indices.into_iter().map(|index| Thread {
        tid: split(index % count(block), block),
        ntid: block,
        ctaid: split(index / count(block), grid),
        nctaid: grid,
        params,
        variables,
    });
    threads.collect()
}
