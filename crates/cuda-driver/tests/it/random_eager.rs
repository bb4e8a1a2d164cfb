//! Random programs of eager calls, run at once and captured, on a device that delays and reorders
//! work as far as it is allowed to.
//!
//! `CUDA_FULL=1` runs all of them; `CUDA_SEED=n` runs the program of that seed. With
//! `CUDA_EAGER_DONE=path`, that file has the number of programs that earlier runs completed, and
//! the run continues after them.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use cuda_driver::Error;
use cuda_driver::graph::EagerCapture;
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
/// The number of buffers that the program creates. Some of them outlive it.
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
    New(usize, u32, Lifetime),
    /// A new temporary buffer with the contents of another buffer.
    Clone(usize, usize, Lifetime),
    Drop(usize),
}

/// Whether a buffer that a program creates may outlive it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lifetime {
    Temporary,
    Output,
}

fn lifetime(random: &mut Rng) -> Lifetime {
    match random.usize(..3) {
        0 => Lifetime::Output,
        _ => Lifetime::Temporary,
    }
}

fn pick(random: &mut Rng, among: &[usize]) -> usize {
    among[random.usize(..among.len())]
}

fn range(random: &mut Rng) -> Range<usize> {
    let (one, other) = (random.usize(..=WORDS), random.usize(..=WORDS));
    one.min(other)..one.max(other)
}

/// Returns the calls of the program with this seed. All temporary buffers and inputs are dropped at
/// its end.
fn program(random: &mut Rng) -> Vec<Op> {
    let mut exists = [true; ALL];
    exists[KEPT + INPUTS..].fill(false);
    let mut outlives = [false; ALL];
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
            7 if !exists[slot] => Op::New(slot, random.u32(..1000), lifetime(random)),
            8 if !exists[slot] => Op::Clone(slot, pick(random, &readable), lifetime(random)),
            _ if exists[slot] => Op::Drop(slot),
            _ => Op::New(slot, 7, lifetime(random)),
        });
        match ops.last() {
            Some(Op::New(slot, _, lifetime) | Op::Clone(slot, _, lifetime)) => {
                exists[*slot] = true;
                outlives[*slot] = *lifetime == Lifetime::Output;
            }
            Some(Op::Drop(slot)) => exists[*slot] = false,
            _ => {}
        }
    }
    let ends = |slot: &usize| exists[*slot] && !outlives[*slot];
    ops.extend((KEPT..ALL).filter(ends).map(Op::Drop));
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

/// Makes the calls, which `capture` captures, if given. Only then the inputs are dropped.
fn run(
    ops: &[Op],
    (stream, mix): (&Stream, &Function),
    all: &mut Buffers,
    capture: Option<&EagerCapture>,
) -> cuda_driver::Result<()> {
    type New = cuda_driver::Result<DeviceBuffer<u32>>;
    let create = |lifetime, new: &dyn Fn() -> New| match (capture, lifetime) {
        (Some(capture), Lifetime::Output) => capture.outputs(new),
        _ => new(),
    };
    for op in ops {
        match op {
            Op::Drop(slot) => {
                if capture.is_some() || *slot >= KEPT + INPUTS {
                    all[*slot] = None;
                }
                continue;
            }
            Op::New(slot, value, lifetime) => {
                let new = || DeviceBuffer::filled(stream, WORDS, *value);
                all[*slot] = Some(create(*lifetime, &new)?);
                continue;
            }
            Op::Clone(slot, from, lifetime) => {
                let from = all[*from].as_ref().unwrap();
                let new = create(*lifetime, &|| from.try_clone())?;
                all[*slot] = Some(new);
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
    let record = env::var_os("CUDA_EAGER_DONE").filter(|_| full);
    let record = record.as_deref().map(Path::new);
    let done = record.map_or(0, completed);
    let start = Instant::now();
    for seed in done..count {
        check(seed);
        let is_due = (seed + 1) % 100 == 0 || seed + 1 == count;
        if let Some(record) = record.filter(|_| is_due) {
            fs::write(record, (seed + 1).to_string()).expect("the record can be written");
        }
    }
    println!(
        "{count} of {FULL} random programs, {done} of them in earlier runs, in {:?}",
        start.elapsed()
    );
    if let Some(fixture) = gpu() {
        (0..ON_A_GPU).for_each(|seed| compare(seed, &fixture));
    }
}

/// Returns how many programs earlier runs completed, or 0 if they completed all.
fn completed(record: &Path) -> u64 {
    let text = fs::read_to_string(record).unwrap_or_default();
    let done = text.trim().parse().unwrap_or(0);
    if done < FULL { done } else { 0 }
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
    let graph = Graph::capture_eager(&stream, |capture| {
        run(&ops, (&stream, &mix), &mut captured, Some(capture))
    });
    let graph = graph.unwrap_or_else(|error| panic!("CUDA_SEED={seed}: {error}: {ops:?}"));
    let exec = graph.instantiate().unwrap();
    drop(graph);
    for output in captured.iter().skip(KEPT + INPUTS).flatten() {
        assert_eq!(output.to_vec(), Err(Error::NotYetWritten));
    }
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
        run(&ops, (&stream, &mix), &mut eager, None).unwrap();
        for all in [&mut eager, &mut captured] {
            let buffer = all[written].as_mut().unwrap();
            buffer
                .slice_mut(..5)
                .unwrap()
                .fill_on(value, &other)
                .unwrap();
        }
    }
    let is_compared = |at: &usize| captured[*at].is_some();
    for at in (0..ALL).filter(is_compared) {
        let words = |all: &Buffers| all[at].as_ref().unwrap().to_vec().unwrap();
        assert_eq!(
            words(&captured),
            words(&eager),
            "CUDA_SEED={seed}, buffer {at}: {ops:?}"
        );
    }
    drop(others);
}
