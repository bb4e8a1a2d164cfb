//! Random programs in which streams, graphs and another API use the same memory, compared with a
//! model. The other API is a thread that reads and writes the files of memory and semaphores.

use std::collections::BTreeSet;
#[cfg(unix)]
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cuda_driver::memory::ExternalMemory;
use cuda_driver::prelude::*;
use cuda_driver::stream::ExternalSemaphore;

use crate::external::{import, random_programs, semaphore, set_value, value};
use crate::other_api::{File, file};
use crate::support::{Fixture, MIX};

const LEN: usize = 300;
const REGIONS: usize = 3;
const STREAMS: usize = 3;
const STEPS: usize = 40;
const LIMIT: Duration = Duration::from_secs(20);

/// A step of the other API: `x = 3 * x + add` for every word of a region.
struct Step {
    /// The streams to wait for, and their values.
    after: Vec<(usize, u64)>,
    region: usize,
    add: u32,
    /// The value to signal.
    then: u64,
}

/// Runs the steps in order, on the file of the memory.
fn other_api(memory: File, done: Vec<File>, own: File) -> (Sender<Step>, JoinHandle<()>) {
    let (sender, steps) = mpsc::channel::<Step>();
    let thread = thread::spawn(move || {
        for step in steps {
            for (stream, wanted) in step.after {
                let start = Instant::now();
                while value(&done[stream]) < wanted {
                    assert!(
                        start.elapsed() < LIMIT,
                        "stream {stream} is not at {wanted}"
                    );
                    thread::yield_now();
                }
            }
            let at = offset(step.region) as u64;
            let mut bytes = vec![0; 4 * LEN];
            memory.read_exact_at(&mut bytes, at).unwrap();
            for word in bytes.chunks_exact_mut(4) {
                let old = u32::from_le_bytes(word[..4].try_into().unwrap());
                word.copy_from_slice(&changed(old, step.add).to_le_bytes());
            }
            memory.write_all_at(&bytes, at).unwrap();
            set_value(&own, step.then);
        }
    });
    (sender, thread)
}

fn changed(word: u32, add: u32) -> u32 {
    word.wrapping_mul(3).wrapping_add(add)
}

/// The offset of a region in the memory, which is not a multiple of a page.
fn offset(region: usize) -> usize {
    region * 4 * LEN
}

struct Program<'a> {
    fixture: &'a Fixture,
    random: fastrand::Rng,
    mix: Function,
    streams: Vec<Stream>,
    /// The semaphore that each stream signals, and its value.
    done: Vec<(Arc<ExternalSemaphore>, u64)>,
    /// The semaphore of the other API.
    other: Arc<ExternalSemaphore>,
    steps: Sender<Step>,
    queued: u64,
    memory: ExternalMemory,
    regions: Vec<DeviceBuffer<u32>>,
    /// The step of the other API that each stream has waited for.
    seen: Vec<u64>,
    /// The last step of the other API on each region, and the streams that used it since.
    last: Vec<u64>,
    users: Vec<BTreeSet<usize>>,
    model: Vec<Vec<u32>>,
}

impl Program<'_> {
    fn region(&mut self) -> usize {
        self.random.usize(..REGIONS)
    }

    /// Notes that a stream uses a region, behind the last step of the other API on it.
    fn uses(&mut self, stream: usize, region: usize) {
        let needed = self.last[region];
        if self.seen[stream] < needed {
            self.streams[stream]
                .wait_external(&self.other, needed)
                .unwrap();
            self.seen[stream] = needed;
        }
        self.users[region].insert(stream);
    }

    fn step(&mut self) {
        let (stream, region) = (self.random.usize(..STREAMS), self.region());
        match self.random.u32(..7) {
            0 => {
                self.uses(stream, region);
                let value = self.random.u32(..);
                let on = &self.streams[stream];
                self.regions[region].fill_on(value, on).unwrap();
                self.model[region].fill(value);
            }
            1 | 2 => self.mix(stream, region),
            3 => self.other_step(region),
            4 => self.graph(stream, region),
            5 => self.map_again(stream, region),
            _ => {
                // The copy runs on the owning stream.
                let owner = self.regions[region].stream();
                let owner = self.streams.iter().position(|it| it == owner).unwrap();
                self.uses(owner, region);
                assert_eq!(self.regions[region].to_vec().unwrap(), self.model[region]);
            }
        }
    }

    /// `x = 2 * x + y` for two regions.
    fn mix(&mut self, stream: usize, x: usize) {
        let y = (x + 1 + self.random.usize(..REGIONS - 1)) % REGIONS;
        self.uses(stream, x);
        self.uses(stream, y);
        let config = LaunchConfig::for_num_elems(LEN as u32).unwrap();
        let [to, from] = self.regions.get_disjoint_mut([x, y]).unwrap();
        let args = (to, &*from, LEN as u32);
        // SAFETY: the kernel must stay within the buffers ← it accesses `LEN` words of each.
        unsafe { self.streams[stream].launch(&self.mix, config, args) }.unwrap();
        let [to, from] = self.model.get_disjoint_mut([x, y]).unwrap();
        for (to, from) in to.iter_mut().zip(from) {
            *to = to.wrapping_mul(2).wrapping_add(*from);
        }
    }

    /// The other API changes a region, behind all its uses.
    fn other_step(&mut self, region: usize) {
        let mut after = Vec::new();
        for stream in std::mem::take(&mut self.users[region]) {
            let (semaphore, count) = &mut self.done[stream];
            *count += 1;
            let on = &self.streams[stream];
            on.signal_external(semaphore, *count).unwrap();
            after.push((stream, *count));
        }
        self.queue_step(region, after);
    }

    fn queue_step(&mut self, region: usize, after: Vec<(usize, u64)>) {
        let add = self.random.u32(..);
        self.queued += 1;
        let then = self.queued;
        let step = Step {
            after,
            region,
            add,
            then,
        };
        self.steps.send(step).unwrap();
        self.last[region] = then;
        for word in &mut self.model[region] {
            *word = changed(*word, add);
        }
    }

    /// The other API changes a region, then a graph fills another one and passes it to the other
    /// API.
    fn graph(&mut self, stream: usize, region: usize) {
        self.other_step(region);
        let (semaphore, count) = &mut self.done[stream];
        *count += 1;
        let (value, count) = (self.random.u32(..), *count);
        let mut graph = Graph::new(&self.fixture.context).unwrap();
        let waits = graph.add_external_wait(&[], &self.other, 0).unwrap();
        let fills = graph.add_fill(&[waits.edge()], &mut self.regions[region], value);
        let fills = fills.unwrap();
        let signals = graph
            .add_external_signal(&[fills.edge()], semaphore, 0)
            .unwrap();
        let exec = graph.instantiate().unwrap();
        exec.set_external_wait(waits, &self.other, self.queued)
            .unwrap();
        exec.set_external_signal(signals, semaphore, count).unwrap();
        exec.launch(&self.streams[stream]).unwrap();
        self.model[region].fill(value);
        // The other streams have not used the region since its last step.
        self.users[region].clear();
        self.queue_step(region, vec![(stream, count)]);
    }

    /// Drops the buffer of a region, and maps the region again with another owner.
    fn map_again(&mut self, stream: usize, region: usize) {
        drop(self.regions.remove(region));
        let on = &self.streams[stream];
        let again = self.memory.map(on, offset(region), LEN).unwrap();
        self.regions.insert(region, again);
    }
}

fn run(fixture: &Fixture, seed: u64) {
    let bytes = offset(REGIONS);
    let file = file(bytes as u64);
    let memory = import(fixture, &file, bytes).unwrap();
    let streams: Vec<_> = (0..STREAMS).map(|_| fixture.stream()).collect();
    let (done, done_files): (Vec<_>, Vec<_>) = streams
        .iter()
        .map(|_| semaphore(fixture, true))
        .map(|(semaphore, file)| ((Arc::new(semaphore), 0), file))
        .unzip();
    let (other, own) = semaphore(fixture, true);
    let (steps, thread) = other_api(file.try_clone().unwrap(), done_files, own);
    let map = |region| memory.map(&streams[region], offset(region), LEN).unwrap();
    let mut program = Program {
        fixture,
        random: fastrand::Rng::with_seed(seed),
        mix: fixture.kernel(MIX, "mix"),
        regions: (0..REGIONS).map(map).collect(),
        streams,
        done,
        other: Arc::new(other),
        steps,
        queued: 0,
        memory,
        seen: vec![0; STREAMS],
        last: vec![0; REGIONS],
        users: vec![BTreeSet::new(); REGIONS],
        model: vec![vec![0; LEN]; REGIONS],
    };
    for _ in 0..STEPS {
        program.step();
    }
    let model = std::mem::take(&mut program.model);
    // Drops the buffers, which waits for their uses, and ends the steps of the other API.
    drop(program);
    thread.join().unwrap();
    for (region, words) in model.iter().enumerate() {
        let mut bytes = vec![0; 4 * LEN];
        file.read_exact_at(&mut bytes, offset(region) as u64)
            .unwrap();
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let got: Vec<_> = bytes.chunks_exact(4).map(word).collect();
        assert_eq!(&got, words, "region {region}, seed {seed}");
    }
}

#[test]
fn random_programs_with_another_api_match_a_model() {
    random_programs(run);
}
