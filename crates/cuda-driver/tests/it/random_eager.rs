//! Random programs of eager calls, run at once and captured, on a device that delays and reorders
//! work as far as it is allowed to.
//!
//! `CUDA_FULL=1` runs all of them; `CUDA_SEED=n` runs the program of that seed.

use std::env;
use std::ops::Range;
use std::time::Instant;

use cuda_driver::launch::Queue;
use cuda_driver::prelude::*;
use fastrand::Rng;

use crate::support::{Fixture, MIX, gpu, late, software};

/// The number of programs with `CUDA_FULL=1`.
const FULL: u64 = 20_000;
/// The number of programs in an ordinary run.
const REDUCED: u64 = 80;
/// The number of programs on a GPU.
const ON_A_GPU: u64 = 200;
/// The number of words in each buffer.
const WORDS: usize = 24;
/// The number of buffers that outlive the program.
const KEPT: usize = 3;
/// The number of buffers that the program only reads, and that are dropped when they are no longer
/// needed.
const INPUTS: usize = 2;
/// The number of temporary buffers.
const TEMPORARIES: usize = 4;
const ALL: usize = KEPT + INPUTS + TEMPORARIES;

/// A call of a program. Buffers are numbered: those that are kept, the inputs, the temporary ones.
#[derive(Debug)]
enum Op {
    /// `x = 2 * x + y`.
    Mix(usize, usize),
    /// A copy of words to the same place.
    Copy(usize, usize, Range<usize>),
    Fill(usize, Range<usize>, u32),
    /// A fill with a value that takes several driver calls.
    Triples(usize, [u32; 3]),
    /// A copy by other code.
    Other(usize, usize),
    /// A closure that does nothing.
    Host,
    /// A new temporary buffer with this value.
    New(usize, u32),
    /// A new temporary buffer with the contents of another buffer.
    Clone(usize, usize),
    Drop(usize),
}

fn pick(random: &mut Rng, among: &[usize]) -> usize {
    among[random.usize(..among.len())]
}

fn range(random: &mut Rng) -> Range<usize> {
    let (one, other) = (random.usize(..=WORDS), random.usize(..=WORDS));
    one.min(other)..one.max(other)
}

/// Returns the calls of the program with this seed. All temporary buffers are dropped at its end.
fn program(random: &mut Rng) -> Vec<Op> {
    let mut exists = [true; ALL];
    exists[KEPT + INPUTS..].fill(false);
    let mut ops = Vec::new();
    for _ in 0..4 + random.usize(..20) {
        let readable: Vec<usize> = (0..ALL).filter(|at| exists[*at]).collect();
        let is_written = |at: &usize| !(KEPT..KEPT + INPUTS).contains(at);
        let writable: Vec<usize> = readable.iter().copied().filter(is_written).collect();
        let x = pick(random, &writable);
        let others: Vec<usize> = readable.iter().copied().filter(|it| *it != x).collect();
        let y = pick(random, &others);
        let slot = KEPT + INPUTS + random.usize(..TEMPORARIES);
        ops.push(match random.usize(..10) {
            0 | 1 => Op::Mix(x, y),
            2 => Op::Copy(x, y, range(random)),
            3 => Op::Fill(x, range(random), random.u32(..1000)),
            4 => Op::Triples(x, [1, 2, random.u32(..1000)]),
            5 => Op::Other(x, y),
            6 => Op::Host,
            7 if !exists[slot] => Op::New(slot, random.u32(..1000)),
            8 if !exists[slot] => Op::Clone(slot, pick(random, &readable)),
            _ if exists[slot] => Op::Drop(slot),
            _ => Op::New(slot, 7),
        });
        match ops.last() {
            Some(Op::New(slot, _) | Op::Clone(slot, _)) => exists[*slot] = true,
            Some(Op::Drop(slot)) => exists[*slot] = false,
            _ => {}
        }
    }
    ops.extend((KEPT..ALL).filter(|slot| exists[*slot]).map(Op::Drop));
    ops
}

/// The buffers of one run.
type Buffers = [Option<DeviceBuffer<u32>>; ALL];

fn buffers(stream: &Stream) -> Buffers {
    std::array::from_fn(|at| {
        (at < KEPT + INPUTS).then(|| {
            let words: Vec<u32> = (0..WORDS).map(|word| (10 * at + word) as u32).collect();
            DeviceBuffer::from_host(stream, &words).unwrap()
        })
    })
}

/// Makes the calls. An input is dropped only if `drops_inputs` is set.
fn run(
    ops: &[Op],
    (stream, mix): (&Stream, &Function),
    all: &mut Buffers,
    drops_inputs: bool,
) -> cuda_driver::Result<()> {
    for op in ops {
        match op {
            Op::Drop(slot) => {
                if drops_inputs || *slot >= KEPT + INPUTS {
                    all[*slot] = None;
                }
                continue;
            }
            Op::New(slot, value) => {
                all[*slot] = Some(DeviceBuffer::filled(stream, WORDS, *value)?);
                continue;
            }
            Op::Clone(slot, from) => {
                let from = all[*from].as_ref().unwrap();
                all[*slot] = Some(from.try_clone()?);
                continue;
            }
            Op::Host => {
                Queue::host(stream, || ())?;
                continue;
            }
            _ => {}
        }
        let (Op::Mix(x, _)
        | Op::Copy(x, ..)
        | Op::Fill(x, ..)
        | Op::Triples(x, _)
        | Op::Other(x, _)) = op
        else {
            continue;
        };
        let mut taken = all[*x].take().unwrap();
        let result = write(op, (stream, mix), &mut taken, all);
        all[*x] = Some(taken);
        result?;
    }
    Ok(())
}

/// Makes a call that writes `x`.
fn write(
    op: &Op,
    (stream, mix): (&Stream, &Function),
    x: &mut DeviceBuffer<u32>,
    all: &Buffers,
) -> cuda_driver::Result<()> {
    match op {
        Op::Mix(_, y) => {
            let y = all[*y].as_ref().unwrap();
            let config = LaunchConfig::for_num_elems(WORDS as u32)?;
            // SAFETY: the kernel uses WORDS words of each; each has WORDS.
            unsafe { stream.launch(mix, config, (x, y, WORDS as u32)) }
        }
        Op::Copy(_, y, range) => {
            let y = all[*y].as_ref().unwrap().slice(range.clone())?;
            x.slice_mut(range.clone())?.copy_from_on(y, stream)
        }
        Op::Fill(_, range, value) => x.slice_mut(range.clone())?.fill_on(*value, stream),
        Op::Triples(_, value) => x.as_mut_slice().cast::<[u32; 3]>()?.fill_on(*value, stream),
        Op::Other(_, y) => {
            let y = all[*y].as_ref().unwrap();
            let (to, from) = (x.as_raw(), y.as_raw());
            let library = stream.context().driver().library();
            let queue = |raw| {
                // SAFETY: both buffers have as many bytes.
                unsafe { library.cuMemcpyDtoDAsync_v2(to, from, 4 * WORDS, raw) }
            };
            // SAFETY: the copy reads `y` and writes `x`, on the stream that it receives.
            let status = unsafe { stream.using((x, y), queue) }?;
            assert!(status.is_success());
            Ok(())
        }
        _ => Ok(()),
    }
}

#[test]
fn captured_random_programs_match_eager_ones() {
    if let Ok(seed) = env::var("CUDA_SEED") {
        return check(seed.parse().expect("CUDA_SEED must be a number"));
    }
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if full { FULL } else { REDUCED };
    let start = Instant::now();
    (0..count).for_each(check);
    println!("{count} of {FULL} random programs in {:?}", start.elapsed());
    if let Some(fixture) = gpu() {
        (0..ON_A_GPU).for_each(|seed| compare(seed, &fixture));
    }
}

fn check(seed: u64) {
    compare(seed, &software(late(seed)));
}

/// Runs a program both ways several times, with other uses of its buffers between the runs.
fn compare(seed: u64, fixture: &Fixture) {
    let mut random = Rng::with_seed(seed);
    let ops = program(&mut random);
    let mix = fixture.kernel(MIX, "mix");
    let (stream, other) = (fixture.stream(), fixture.stream());
    let mut eager = buffers(&stream);
    let mut captured = buffers(&stream);
    let graph = Graph::capture_eager(&stream, |_| run(&ops, (&stream, &mix), &mut captured, true));
    let graph = graph.unwrap_or_else(|error| panic!("CUDA_SEED={seed}: {error}: {ops:?}"));
    let exec = graph.instantiate().unwrap();
    drop(graph);
    // The memory of the dropped inputs must not be free.
    let others: Vec<_> = (0..INPUTS)
        .map(|_| DeviceBuffer::filled(&stream, WORDS, 0xBAD_u32).unwrap())
        .collect();
    for _ in 0..3 {
        let (written, value) = (random.usize(..KEPT), random.u32(..1000));
        let launched = if random.usize(..2) == 0 {
            &stream
        } else {
            &other
        };
        exec.launch(launched).unwrap();
        run(&ops, (&stream, &mix), &mut eager, false).unwrap();
        for all in [&mut eager, &mut captured] {
            let buffer = all[written].as_mut().unwrap();
            buffer
                .slice_mut(..5)
                .unwrap()
                .fill_on(value, &other)
                .unwrap();
        }
    }
    for at in 0..KEPT {
        let words = |all: &Buffers| all[at].as_ref().unwrap().to_vec().unwrap();
        assert_eq!(
            words(&captured),
            words(&eager),
            "CUDA_SEED={seed}, buffer {at}: {ops:?}"
        );
    }
    drop(others);
}
