//! Random programs of two processes against a model.
//!
//! Both processes generate the same program from its seed, and both have the model: the words of
//! each shared buffer. Each step runs in one of the processes. Between steps of different
//! processes, streams wait for events; the host waits only for a message.
//!
//! `CUDA_SEED=n` runs the program of that seed.

use std::env;
use std::time::Instant;

use cuda_driver::event::IpcEventHandle;
use cuda_driver::memory::{
    DeviceSlice, DeviceSliceMut, ExportedBuffer, ImportedPool, IpcMemoryHandle, MemoryHandle,
    MemoryPool, PoolPointer, Unpooled,
};
use cuda_driver::prelude::*;

use super::{Link, Peer, Place, Role, count};
use crate::other_api::borrow;
use crate::support::{COPY, Fixture};

/// The maximum number of buffers, and the number of steps of a program.
const SLOTS: usize = 4;
const STEPS: u32 = 60;

/// The messages that pass the turn, and that say that all events are closed.
const PASS: [u8; 1] = [1];
const CLOSED: [u8; 1] = [2];

/// The pool of one process.
enum Pool {
    Own(MemoryPool),
    Imported(ImportedPool),
}

/// A buffer of both processes.
enum Shared {
    Own(ExportedBuffer<u32>),
    Opened(DeviceBuffer<u32>),
}

impl Shared {
    fn buffer(&self) -> &DeviceBuffer<u32> {
        match self {
            Self::Own(buffer) => buffer,
            Self::Opened(buffer) => buffer,
        }
    }

    fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, u32> {
        match self {
            Self::Own(buffer) => buffer.as_mut_slice(),
            Self::Opened(buffer) => buffer.as_mut_slice(),
        }
    }
}

/// One process, and its part of the programs.
struct Player {
    role: Role,
    link: Link,
    pool: Pool,
    streams: [Stream; 2],
    kernel: Function,
    /// One event for each stream of this process, and for each one of the other process.
    own: [Event; 2],
    others: [Event; 2],
    /// The process that runs the steps now.
    turn: Role,
    /// The buffers, and the words that they should have.
    slots: [Option<(Shared, Vec<u32>)>; SLOTS],
    seed: u64,
}

impl Player {
    fn new(fixture: &Fixture, mut link: Link, role: Role) -> Self {
        let (context, device) = (&fixture.context, fixture.context.device());
        let pool = if role == Role::Exporter {
            let pool = MemoryPool::exportable(device).unwrap();
            link.send_handle(borrow(&pool.export().unwrap())).unwrap();
            Pool::Own(pool)
        } else {
            let descriptor = link.receive_handle().unwrap();
            // SAFETY: the handle must be one of a pool ← the other process sends it.
            let pool = unsafe { ImportedPool::import(device, borrow(&descriptor)) };
            Pool::Imported(pool.unwrap())
        };
        let own = [(); 2].map(|()| Event::interprocess(context).unwrap());
        for event in &own {
            link.send(&event.ipc_handle().unwrap().to_bytes()).unwrap();
        }
        let others = [(); 2].map(|()| {
            let handle = IpcEventHandle::from_bytes(link.receive().unwrap());
            // SAFETY: the handle must be that of an event which the other process keeps ← `close`
            // waits for this process.
            unsafe { Event::open_ipc(context, &handle) }.unwrap()
        });
        Self {
            role,
            link,
            pool,
            streams: [fixture.stream(), fixture.stream()],
            kernel: fixture.kernel(COPY, "copy"),
            own,
            others,
            turn: Role::Exporter,
            slots: Default::default(),
            seed: 0,
        }
    }

    /// Orders the following steps, which run in the process `to`, after those before.
    fn pass_to(&mut self, to: Role) {
        if self.turn == to {
            return;
        }
        self.turn = to;
        if self.role == to {
            assert_eq!(self.link.receive().unwrap(), PASS);
            for stream in &self.streams {
                self.others
                    .iter()
                    .for_each(|event| stream.wait(event).unwrap());
            }
        } else {
            for (event, stream) in self.own.iter().zip(&self.streams) {
                event.record(stream).unwrap();
            }
            self.link.send(&PASS).unwrap();
        }
    }

    /// The exporter allocates a buffer, and the importer opens it.
    fn create(&mut self, slot: usize, stream: usize, words: Vec<u32>, is_pooled: bool) {
        self.pass_to(Role::Exporter);
        let stream = self.streams[stream].clone();
        if let Pool::Own(pool) = &self.pool {
            let buffer = if is_pooled {
                DeviceBuffer::from_host_in(pool, &stream, &words).unwrap()
            } else {
                DeviceBuffer::from_host_in(&Unpooled, &stream, &words).unwrap()
            };
            let buffer = buffer.export().unwrap();
            let memory = match buffer.handle() {
                MemoryHandle::Pool(pointer) => pointer.to_bytes(),
                MemoryHandle::Ipc(handle) => handle.to_bytes(),
                other => panic!("{other:?}"),
            };
            self.slots[slot] = Some((Shared::Own(buffer), words));
            self.pass_to(Role::Importer);
            self.link.send(&memory).unwrap();
        } else if let Pool::Imported(pool) = &self.pool {
            let pool = pool.clone();
            self.pass_to(Role::Importer);
            let memory = self.link.receive().unwrap();
            let len = words.len();
            let buffer = if is_pooled {
                // SAFETY: the other process must keep the memory, and not use it meanwhile ← it
                // frees the memory after this process has closed it, and events order the uses.
                unsafe { pool.open(&stream, &PoolPointer::from_bytes(memory), len) }
            } else {
                // SAFETY: as for memory of the pool.
                unsafe { IpcMemoryHandle::from_bytes(memory).open(&stream, 0, len) }
            };
            self.slots[slot] = Some((Shared::Opened(buffer.unwrap()), words));
        }
    }

    /// The importer closes the buffer, and then the exporter frees it.
    fn remove(&mut self, slot: usize) {
        self.pass_to(Role::Importer);
        let Some((buffer, words)) = self.slots[slot].take() else {
            return;
        };
        match buffer {
            Shared::Opened(buffer) => {
                assert_eq!(buffer.to_vec().unwrap(), words, "seed {}", self.seed);
                buffer.close().unwrap();
                for stream in &self.streams {
                    stream.synchronize().unwrap();
                }
                self.pass_to(Role::Exporter);
            }
            Shared::Own(buffer) => {
                self.pass_to(Role::Exporter);
                assert_eq!(buffer.to_vec().unwrap(), words, "seed {}", self.seed);
                // SAFETY: no process may have the memory open ← the other one has closed it.
                unsafe { buffer.reclaim() }.close().unwrap();
            }
        }
    }

    /// Runs the program of a seed.
    fn run(&mut self, seed: u64) {
        self.seed = seed;
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..STEPS {
            let step = random.u32(..12);
            let [slot, from] = [random.usize(..SLOTS), random.usize(..SLOTS)];
            let (stream, value) = (random.usize(..2), random.u32(..));
            let role = [Role::Exporter, Role::Importer][random.usize(..2)];
            let is_pooled = random.u32(..4) > 0;
            let len = random.usize(1..600);
            let parts = [random.f64(), random.f64()];
            if self.slots[slot].is_none() {
                let words = (0..len as u32).map(|index| value.wrapping_add(index));
                self.create(slot, stream, words.collect(), is_pooled);
            } else if step == 0 {
                self.remove(slot);
            } else {
                self.pass_to(role);
                if self.role == role {
                    self.touch(step, [from, slot], stream, value, parts);
                }
                self.model(step, [from, slot], value, parts);
            }
        }
        (0..SLOTS).for_each(|slot| self.remove(slot));
    }

    /// Runs a step in this process.
    fn touch(
        &mut self,
        step: u32,
        [from, to]: [usize; 2],
        stream: usize,
        value: u32,
        parts: [f64; 2],
    ) {
        let stream = &self.streams[stream];
        let source = if step < 7 && from != to {
            self.slots[from].take()
        } else {
            None
        };
        if let Some((target, words)) = &mut self.slots[to] {
            let (start, end) = range(words.len(), parts);
            let mut target_words = target.as_mut_slice().into_slice(start..end).unwrap();
            match (step, &source) {
                (1..7, Some((source, words))) => {
                    let len = words.len().min(end - start);
                    let source = source.buffer().slice(..len).unwrap();
                    let mut target = target_words.slice_mut(..len).unwrap();
                    if step < 4 {
                        launch(&self.kernel, stream, source, target);
                    } else {
                        target.copy_from_on(source, stream).unwrap();
                    }
                }
                (7 | 8, _) => target_words.fill_on(value, stream).unwrap(),
                (9, _) => {
                    let words = vec![value; end - start];
                    target_words.copy_from_host(&words).unwrap();
                }
                (10 | 11, _) => {
                    let got = target.buffer().to_vec().unwrap();
                    assert_eq!(got, *words, "seed {}", self.seed);
                }
                _ => {}
            }
        }
        if source.is_some() {
            self.slots[from] = source;
        }
    }

    /// Runs a step on the model.
    fn model(&mut self, step: u32, [from, to]: [usize; 2], value: u32, parts: [f64; 2]) {
        let source = match &self.slots[from] {
            Some((_, words)) if from != to => Some(words.clone()),
            _ => None,
        };
        if let Some((_, words)) = &mut self.slots[to] {
            let (start, end) = range(words.len(), parts);
            match (step, source) {
                (1..7, Some(source)) => {
                    let len = source.len().min(end - start);
                    words[start..start + len].copy_from_slice(&source[..len]);
                }
                (7..=9, _) => words[start..end].fill(value),
                _ => {}
            }
        }
    }

    /// Waits for the other process, which then no longer has the events of this one.
    fn close(mut self) {
        for event in self.others {
            event.close().unwrap();
        }
        for stream in &self.streams {
            stream.synchronize().unwrap();
        }
        self.link.send(&CLOSED).unwrap();
        assert_eq!(self.link.receive().unwrap(), CLOSED);
        for event in self.own {
            event.close().unwrap();
        }
        match self.pool {
            Pool::Own(pool) => pool.close().unwrap(),
            Pool::Imported(pool) => pool.close().unwrap(),
        }
    }
}

/// Returns a range of at least one of `len` words.
fn range(len: usize, [one, two]: [f64; 2]) -> (usize, usize) {
    let [one, two] = [one, two].map(|part| (part * len as f64) as usize);
    (one.min(two).min(len - 1), one.max(two).min(len - 1) + 1)
}

fn launch(
    kernel: &Function,
    stream: &Stream,
    source: DeviceSlice<'_, u32>,
    target: DeviceSliceMut<'_, u32>,
) {
    let len = u32::try_from(source.len()).unwrap();
    let config = LaunchConfig::for_num_elems(len).unwrap();
    // SAFETY: the kernel must stay within the views ← the kernel of `COPY` reads and writes `len`
    // words, and both views have as many.
    unsafe { stream.launch(kernel, config, (source, target, len)) }.unwrap();
}

/// Runs this process's part of `programs` programs.
pub(super) fn run(fixture: &Fixture, link: Link, role: Role, programs: u32) {
    let mut player = Player::new(fixture, link, role);
    let seed = env::var("CUDA_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    match seed {
        Some(seed) => player.run(seed),
        None => (0..programs.into()).for_each(|seed| player.run(seed)),
    }
    player.close();
}

fn programs(place: Place, programs: u32) {
    let Some(fixture) = place.open() else {
        return;
    };
    let start = Instant::now();
    let (mut peer, link) = Peer::start(place, Role::Player, programs);
    run(&fixture, link, Role::Exporter, programs);
    peer.wait();
    println!(
        "{}: note: {programs} programs of {STEPS} steps in two processes, {:.1} s",
        fixture.name,
        start.elapsed().as_secs_f64()
    );
    if let Some(simulator) = &fixture.simulator {
        fixture.context.synchronize().unwrap();
        let live = simulator.live();
        assert_eq!((live.allocations, live.pools), (0, 0), "{live}");
    }
}

#[test]
fn random_programs_on_software_devices() {
    programs(Place::Eager, count(2000, 20));
    programs(Place::Late(11), count(2000, 20));
}

#[test]
fn random_programs_on_a_gpu() {
    programs(Place::Gpu, count(200, 10));
}
