//! Random programs with growable buffers on late schedules, compared with vectors.
//!
//! `CUDA_FULL=1` runs all of them; `CUDA_SEED=n` runs the program of that seed.

use std::env;

use cuda_driver::Error;
use cuda_driver::error::Status;
use cuda_driver::graph::{Graph, GraphExec};
use cuda_driver::memory::GrowableBuffer;
use cuda_driver::prelude::*;
use cuda_sim::Rule;

use crate::support::{COPY, has_virtual_memory, late, software};

const FULL: u64 = 20_000;
const REDUCED: u64 = 150;
const STEPS: usize = 40;
/// The maximum length in elements: four pieces of 2 MiB.
const MOST: usize = 1 << 21;

/// A growable buffer, and the elements that it should have.
struct Pair {
    buffer: GrowableBuffer<u32>,
    model: Vec<u32>,
}

/// A copy of the first elements of one buffer to those of another, as a graph.
struct Replay {
    exec: GraphExec,
    from: usize,
    to: usize,
    len: usize,
}

#[test]
fn random_programs_with_growable_buffers_match_vectors() {
    if let Ok(seed) = env::var("CUDA_SEED") {
        return run(seed.parse().expect("CUDA_SEED must be a number"));
    }
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if full { FULL } else { REDUCED };
    for seed in 0..count {
        run(seed);
    }
    println!("{count} of {FULL} random programs with growable buffers");
}

fn run(seed: u64) {
    let fixture = software(late(seed).unmap_waits(false));
    if !has_virtual_memory(&fixture.context) {
        return;
    }
    let simulator = fixture.simulator.clone().unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let streams = [fixture.stream(), fixture.stream(), fixture.stream()];
    let kernel = fixture.kernel(COPY, "copy");
    let mut pairs: Vec<Pair> = (0..3)
        .map(|index| Pair {
            buffer: GrowableBuffer::new(&streams[index], MOST).unwrap(),
            model: Vec::new(),
        })
        .collect();
    let addresses: Vec<_> = pairs.iter().map(|pair| pair.buffer.as_raw()).collect();
    let mut replays: Vec<Replay> = Vec::new();
    if seed % 4 == 3 {
        let fails = Rule::new(Status::CUDA_ERROR_OUT_OF_MEMORY);
        simulator.add_rule(fails.function("cuMemCreate").random(0.3, seed));
    }
    for step in 0..STEPS {
        let at = random.usize(..pairs.len());
        let stream = &streams[random.usize(..streams.len())];
        match random.u32(..8) {
            0 | 1 => {
                let len = random.usize(..=MOST);
                let pair = &mut pairs[at];
                match pair.buffer.grow_to(len) {
                    Ok(()) => {
                        let len = len.max(pair.model.len());
                        pair.model.resize(len, 0);
                    }
                    Err(Error::OutOfMemory { .. }) if seed % 4 == 3 => {}
                    Err(error) => panic!("seed {seed}, step {step}: {error}"),
                }
            }
            2 => {
                let len = random.usize(..=MOST);
                let pair = &mut pairs[at];
                match pair.buffer.shrink_to(len) {
                    Ok(()) => pair.model.truncate(len),
                    Err(Error::StillInUse { .. }) => {}
                    Err(error) => panic!("seed {seed}, step {step}: {error}"),
                }
            }
            3 => {
                let pair = &mut pairs[at];
                let start = random.usize(..=pair.model.len());
                let value = random.u32(..);
                let mut part = pair.buffer.slice_mut(start..).unwrap();
                part.fill_on(value, stream).unwrap();
                pair.model[start..].fill(value);
            }
            4 => {
                let Some((from, to, len)) = two(&mut pairs, at, &mut random) else {
                    continue;
                };
                let config = LaunchConfig::for_num_elems(len).unwrap();
                let args = (&from.buffer, &mut to.buffer, len);
                // SAFETY: the kernel reads and writes `len` words, and both buffers have as many.
                unsafe { stream.launch(&kernel, config, args) }.unwrap();
                let len = len as usize;
                to.model[..len].copy_from_slice(&from.model[..len]);
            }
            5 if replays.len() < 3 => {
                let to_index = (at + 1) % pairs.len();
                let Some((from, to, len)) = two(&mut pairs, at, &mut random) else {
                    continue;
                };
                let len = len as usize;
                let graph = Graph::capture(&fixture.context, |scope| {
                    let from = from.buffer.slice(..len)?;
                    scope.copy(to.buffer.slice_mut(..len)?, from).map(drop)
                });
                let exec = graph.unwrap().instantiate().unwrap();
                let (from, to) = (at, to_index);
                replays.push(Replay {
                    exec,
                    from,
                    to,
                    len,
                });
            }
            6 if !replays.is_empty() => {
                let index = random.usize(..replays.len());
                let replay = &replays[index];
                replay.exec.launch(stream).unwrap();
                let source = pairs[replay.from].model[..replay.len].to_vec();
                pairs[replay.to].model[..replay.len].copy_from_slice(&source);
                if random.bool() {
                    replays.swap_remove(index);
                }
            }
            _ => {
                let pair = &pairs[at];
                let len = pair.model.len();
                let start = random.usize(..=len);
                let end = (start + 1000).min(len);
                let read = pair.buffer.slice(start..end).unwrap().to_vec().unwrap();
                let expected = &pair.model[start..end];
                assert!(read == expected, "seed {seed}, step {step}: {start}..{end}");
            }
        }
    }
    for (pair, address) in pairs.into_iter().zip(addresses) {
        assert_eq!(pair.buffer.as_raw(), address, "seed {seed}");
        assert!(pair.buffer.to_vec().unwrap() == pair.model, "seed {seed}");
        if random.bool() {
            pair.buffer.close().unwrap();
        }
    }
    drop(replays);
    drop((streams, kernel, fixture));
    let start = std::time::Instant::now();
    while !simulator.live().is_empty() {
        let live = simulator.live();
        assert!(start.elapsed().as_secs() < 10, "seed {seed}: {live}");
        std::thread::yield_now();
    }
}

/// Returns the buffer at `at`, the next one, and a number of elements that both have.
fn two<'a>(
    pairs: &'a mut [Pair],
    at: usize,
    random: &mut fastrand::Rng,
) -> Option<(&'a Pair, &'a mut Pair, u32)> {
    let next = (at + 1) % pairs.len();
    let [from, to] = pairs.get_disjoint_mut([at, next]).ok()?;
    let both = from.model.len().min(to.model.len()).min(5000);
    (both > 0).then(|| {
        let len = random.usize(1..=both);
        (&*from, to, u32::try_from(len).unwrap_or(1))
    })
}
