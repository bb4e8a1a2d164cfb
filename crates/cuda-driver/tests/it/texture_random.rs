//! Random programs with copies, textures, surfaces and graphs on several streams, compared with a
//! sequential model on a device that delays and reorders work as far as it is allowed to.
//!
//! `CUDA_FULL=1` runs all of them; `CUDA_SEED=n` runs the program of that seed.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::memory::PitchedBuffer;
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, Texture};

use crate::support::{Fixture, gpu, late, software};
use crate::texture::{Kernels, N, WIDTH, plain, plane};

/// The number of programs with `CUDA_FULL=1`.
const FULL: u64 = 20_000;
/// The number of programs in an ordinary run.
const REDUCED: u64 = 150;

const STREAMS: usize = 3;
const ARRAYS: usize = 4;
const STEPS: usize = 40;

/// An array, some textures of it, and its words.
struct Slot {
    array: Array<u32>,
    texture: Option<Texture>,
    model: Vec<u32>,
}

struct Machine<'a> {
    fixture: &'a Fixture,
    kernels: &'a Kernels,
    streams: Vec<Stream>,
    slots: Vec<Slot>,
    random: fastrand::Rng,
}

impl Machine<'_> {
    /// Returns two different slots, and the index of the first.
    fn two(&mut self) -> (&mut Slot, &mut Slot) {
        let one = self.random.usize(..ARRAYS);
        let two = (one + self.random.usize(1..ARRAYS)) % ARRAYS;
        let [one, two] = self.slots.get_disjoint_mut([one, two]).unwrap();
        (one, two)
    }

    fn step(&mut self) {
        let stream = self.streams[self.random.usize(..STREAMS)].clone();
        let at = self.random.usize(..ARRAYS);
        let add = self.random.u32(..1000);
        match self.random.u32(..11) {
            0 => {
                let words = vec![add; N as usize];
                let slot = &mut self.slots[at];
                slot.array
                    .as_mut_slice()
                    .copy_from_host_on(&words, &stream)
                    .unwrap();
                slot.model = words;
            }
            // Some rows from a buffer that is dropped at once.
            1 => {
                let row = self.random.usize(..4);
                let width = WIDTH as usize;
                let rows =
                    PitchedBuffer::from_host(&stream, (width, 1), &vec![add; width]).unwrap();
                let slot = &mut self.slots[at];
                let mut part = slot.array.region_mut(.., row..=row, ..).unwrap();
                part.copy_from_on(&rows, &stream).unwrap();
                slot.model[row * width..][..width].fill(add);
            }
            2 => {
                let (one, two) = self.two();
                one.array
                    .as_mut_slice()
                    .copy_from_on(&two.array, &stream)
                    .unwrap();
                one.model.clone_from(&two.model);
            }
            3 | 4 => {
                let kernels = self.kernels;
                let (one, two) = self.two();
                let texture = two.texture.get_or_insert_with(|| plain(&two.array));
                kernels.mix(&stream, texture, &mut one.array, add).unwrap();
                one.model = mixed(&two.model, add);
            }
            5 => {
                let slot = &mut self.slots[at];
                self.kernels.update(&stream, &mut slot.array, add).unwrap();
                slot.model = mixed(&slot.model, add);
            }
            6 => {
                let mut out = DeviceBuffer::<u32>::zeroed(&stream, N as usize).unwrap();
                let slot = &self.slots[at];
                self.kernels.store(&stream, &slot.array, &mut out).unwrap();
                assert_eq!(out.to_vec().unwrap(), slot.model);
            }
            7 => {
                let slot = &mut self.slots[at];
                slot.texture = match slot.texture.take() {
                    Some(_) => None,
                    None => Some(plain(&slot.array)),
                };
            }
            // An array with textures is replaced while it is in use.
            8 => {
                let slot = &mut self.slots[at];
                slot.array = plane(&stream, add);
                slot.texture = None;
                slot.model = vec![add; N as usize];
            }
            9 => {
                let (kernels, context) = (self.kernels, self.fixture.context.clone());
                let launches = self.random.usize(1..3);
                let (one, two) = self.two();
                let texture = plain(&two.array);
                let graph = Graph::capture(&context, |scope| {
                    kernels.mix(scope, &texture, &mut one.array, add)?;
                    scope.copy(&mut two.array, &one.array).map(drop)
                })
                .unwrap();
                drop(texture);
                let exec = graph.instantiate().unwrap();
                for _ in 0..launches {
                    exec.launch(&stream).unwrap();
                    one.model = mixed(&two.model, add);
                    two.model.clone_from(&one.model);
                }
            }
            _ => {
                let slot = &self.slots[at];
                assert_eq!(slot.array.to_vec().unwrap(), slot.model);
            }
        }
    }
}

fn mixed(from: &[u32], add: u32) -> Vec<u32> {
    let words = from.iter();
    words
        .map(|word| word.wrapping_mul(2).wrapping_add(add))
        .collect()
}

fn run(fixture: &Fixture, kernels: &Kernels, seed: u64) {
    let streams: Vec<Stream> = (0..STREAMS).map(|_| fixture.stream()).collect();
    let slots = (0..ARRAYS)
        .map(|index| Slot {
            array: plane(&streams[index % STREAMS], index as u32),
            texture: None,
            model: vec![index as u32; N as usize],
        })
        .collect();
    let mut machine = Machine {
        fixture,
        kernels,
        streams,
        slots,
        random: fastrand::Rng::with_seed(seed),
    };
    for _ in 0..STEPS {
        machine.step();
    }
    for slot in &machine.slots {
        let found = slot.array.to_vec().unwrap();
        assert_eq!(found, slot.model, "seed {seed} on {}", fixture.name);
    }
}

/// Fails unless all arrays, textures and surfaces are destroyed. What graphs kept is destroyed by a
/// worker thread.
fn expect_nothing_left(fixture: &Fixture, seed: u64) {
    let Some(simulator) = &fixture.simulator else {
        return;
    };
    let start = Instant::now();
    loop {
        let live = simulator.live();
        if (live.arrays, live.textures, live.surfaces) == (0, 0, 0) {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "seed {seed} leaks: {live:?}"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn random_texture_programs_match_the_model() {
    if let Ok(seed) = env::var("CUDA_SEED") {
        let seed = seed.parse().expect("CUDA_SEED must be a number");
        let fixture = software(late(seed));
        return run(&fixture, &Kernels::new(&fixture.context), seed);
    }
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if is_full { FULL } else { REDUCED };
    for seed in 0..count {
        let fixture = software(late(seed));
        run(&fixture, &Kernels::new(&fixture.context), seed);
        expect_nothing_left(&fixture, seed);
    }
    println!("{count} of {FULL} random programs with textures");
    if let Some(fixture) = gpu() {
        let kernels = Kernels::new(&fixture.context);
        (0..100).for_each(|seed| run(&fixture, &kernels, seed));
    }
}
