//! A round: threads with random operations on the same buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use cuda_driver::memory::Transfer;
use cuda_driver::prelude::*;
use fastrand::Rng;

use crate::buffers::{Buffers, COUNT, WORDS, compare};
use crate::machine::Place;

const THREADS: u64 = 16;
/// The number of streams that a thread has on each device.
const STREAMS: usize = 2;
/// The number of graphs and of transfers that a thread keeps.
const KEPT: usize = 4;

/// The state that the threads of a round share.
pub(crate) struct Round<'a> {
    places: &'a [Place],
    buffers: Buffers,
    number: u64,
    /// How often host functions were queued, and how often they were called.
    queued: AtomicU64,
    called: Arc<AtomicU64>,
    is_failed: AtomicBool,
}

/// A thread of a round.
struct Worker<'a> {
    round: &'a Round<'a>,
    random: Rng,
    /// The streams of each device.
    streams: Vec<Vec<Stream>>,
    graphs: Vec<Kept>,
    transfers: Vec<(Transfer<PinnedBuffer<u32>>, Vec<u32>)>,
    name: String,
}

/// A graph that computes `x = 2 * x + y`, and then fills the second half of `y`.
struct Kept {
    exec: GraphExec,
    place: usize,
    /// The indices and the versions of `x` and `y`.
    buffers: [(usize, u64); 2],
    value: u32,
}

/// Sets a flag if the thread panics, so that the others stop.
struct OnPanic<'a>(&'a AtomicBool);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a> Round<'a> {
    pub(crate) fn new(places: &'a [Place], number: u64) -> Self {
        let mut random = Rng::with_seed(number);
        Self {
            buffers: Buffers::new(places, &mut random),
            places,
            number,
            queued: AtomicU64::new(0),
            called: Arc::default(),
            is_failed: AtomicBool::new(false),
        }
    }

    /// Runs the threads and compares all buffers with the model. Returns the number of operations.
    pub(crate) fn run(self, per_thread: u64) -> u64 {
        thread::scope(|scope| {
            for index in 0..THREADS {
                let round = &self;
                scope.spawn(move || {
                    let _guard = OnPanic(&round.is_failed);
                    Worker::new(round, index).run(per_thread);
                });
            }
        });
        let what = format!("round {}", self.number);
        self.buffers.check(&what);
        for place in self.places {
            place.context.synchronize().unwrap();
        }
        let (queued, called) = (&self.queued, &self.called);
        let counts = [&**called, queued].map(|it| it.load(Ordering::SeqCst));
        assert_eq!(counts[0], counts[1], "{what}: calls of host functions");
        per_thread * THREADS
    }
}

impl<'a> Worker<'a> {
    fn new(round: &'a Round<'a>, index: u64) -> Self {
        let stream = |place: &Place| Stream::new(&place.context, StreamFlags::NON_BLOCKING, 0);
        let places = round.places.iter();
        Self {
            random: Rng::with_seed(round.number.wrapping_mul(THREADS).wrapping_add(index)),
            streams: places
                .map(|place| (0..STREAMS).map(|_| stream(place).unwrap()).collect())
                .collect(),
            graphs: Vec::new(),
            transfers: Vec::new(),
            name: format!("round {}, thread {index}", round.number),
            round,
        }
    }

    fn run(mut self, operations: u64) {
        for _ in 0..operations {
            if self.round.is_failed.load(Ordering::Relaxed) {
                return;
            }
            match self.random.u32(..20) {
                0 => self.replace(),
                1..5 => self.mix(),
                5..8 => self.copy(),
                8..10 => self.fill(),
                10 => self.build_graph(),
                11..14 => self.launch_graph(),
                14 => self.host_function(),
                15 => self.upload(),
                16 => self.download(),
                17 => self.read(),
                18 => self.wait_for_event(),
                _ => self.replace_stream(),
            }
        }
        for (transfer, want) in self.transfers.drain(..) {
            compare(&transfer.wait().unwrap(), &want, &self.name);
        }
    }

    /// Returns a stream of a device.
    fn stream(&mut self, place: usize) -> Stream {
        self.streams[place][self.random.usize(..STREAMS)].clone()
    }

    fn place(&mut self) -> usize {
        self.random.usize(..self.round.places.len())
    }

    fn index(&mut self) -> usize {
        self.random.usize(..COUNT)
    }

    /// Returns the indices of two buffers.
    fn two(&mut self) -> (usize, usize) {
        let one = self.index();
        (one, (one + 1 + self.random.usize(..COUNT - 1)) % COUNT)
    }

    /// Returns a part of a buffer, often the whole.
    fn part(&mut self) -> (usize, usize) {
        if self.random.bool() {
            return (0, WORDS);
        }
        let start = self.random.usize(..WORDS);
        (start, 1 + self.random.usize(..WORDS - start))
    }

    /// Drops a buffer, which other threads and graphs may still use, and allocates another one.
    fn replace(&mut self) {
        let index = self.index();
        let mut slot = self.round.buffers.lock(index);
        *slot = crate::buffers::Slot::new(self.round.places, &mut self.random);
    }

    /// Launches a kernel on a device, with memory of any devices.
    fn mix(&mut self) {
        let ((x, y), (start, len)) = (self.two(), self.part());
        let at = self.place();
        let stream = self.stream(at);
        let (mut x, y) = self.round.buffers.lock_two(x, y);
        let place = &self.round.places[at];
        let from = y.buffer.slice(start..start + len).unwrap();
        {
            let mut to = x.buffer.slice_mut(start..start + len).unwrap();
            let to = to.for_peer(&place.context).unwrap();
            let from = from.for_peer(&place.context).unwrap();
            let config = LaunchConfig::for_num_elems(len as u32).unwrap();
            // SAFETY: the kernel reads `len` words of both and writes those of the first.
            unsafe { stream.launch(&place.mix, config, (to, from, len as u32)) }.unwrap();
        }
        x.mix(start, &y.model[start..start + len]);
    }

    /// Copies between two buffers of any devices.
    fn copy(&mut self) {
        let ((to, from), (start, len)) = (self.two(), self.part());
        let (mut to, from) = self.round.buffers.lock_two(to, from);
        let stream = self.stream(to.place);
        let (source, range) = (
            from.buffer.slice(start..start + len).unwrap(),
            start..start + len,
        );
        let mut view = to.buffer.slice_mut(range.clone()).unwrap();
        if self.random.bool() {
            view.copy_from_peer(source).unwrap();
        } else {
            view.copy_from_peer_on(source, &stream).unwrap();
        }
        to.model[range.clone()].copy_from_slice(&from.model[range]);
    }

    fn fill(&mut self) {
        let (index, (start, len)) = (self.index(), self.part());
        let value = self.random.u32(..);
        let mut slot = self.round.buffers.lock(index);
        let stream = self.stream(slot.place);
        let mut view = slot.buffer.slice_mut(start..start + len).unwrap();
        view.fill_on(value, &stream).unwrap();
        slot.model[start..start + len].fill(value);
    }

    /// Makes a graph for two buffers of a device.
    fn build_graph(&mut self) {
        let (one, two) = self.two();
        let value = self.random.u32(..);
        let (mut x, mut y) = self.round.buffers.lock_two(one, two);
        if x.place != y.place {
            return;
        }
        let place = &self.round.places[x.place];
        let mut graph = Graph::new(&place.context).unwrap();
        let config = LaunchConfig::for_num_elems(WORDS as u32).unwrap();
        let args = (&mut x.buffer, &y.buffer, WORDS as u32);
        // SAFETY: the kernel reads WORDS words of both and writes those of the first.
        let node = unsafe { graph.add_kernel(&[], &place.mix, config, args) }.unwrap();
        let half = y.buffer.slice_mut(WORDS / 2..).unwrap();
        graph.add_fill(&[node.edge()], half, value).unwrap();
        let kept = Kept {
            exec: graph.instantiate().unwrap(),
            place: x.place,
            buffers: [(one, x.version), (two, y.version)],
            value,
        };
        if self.graphs.len() == KEPT {
            self.graphs.swap_remove(self.random.usize(..KEPT));
        }
        self.graphs.push(kept);
    }

    /// Launches a graph, unless its buffers were replaced.
    fn launch_graph(&mut self) {
        if self.graphs.is_empty() {
            return self.build_graph();
        }
        let index = self.random.usize(..self.graphs.len());
        let stream = self.stream(self.graphs[index].place);
        let kept = &self.graphs[index];
        let [(one, x_version), (two, y_version)] = kept.buffers;
        let (mut x, mut y) = self.round.buffers.lock_two(one, two);
        if (x.version, y.version) != (x_version, y_version) {
            return;
        }
        kept.exec.launch(&stream).unwrap();
        x.mix(0, &y.model);
        y.model[WORDS / 2..].fill(kept.value);
    }

    fn host_function(&mut self) {
        let place = self.place();
        let called = Arc::clone(&self.round.called);
        let call = self.stream(place).launch_host(move || {
            called.fetch_add(1, Ordering::SeqCst);
        });
        drop(call.unwrap());
        self.round.queued.fetch_add(1, Ordering::SeqCst);
    }

    /// Overwrites a buffer from page-locked memory, which is dropped at once.
    fn upload(&mut self) {
        let (index, value) = (self.index(), self.random.u32(..));
        let words: Vec<u32> = (0..WORDS as u32).map(|i| value ^ i).collect();
        let mut slot = self.round.buffers.lock(index);
        let stream = self.stream(slot.place);
        let context = &self.round.places[slot.place].context;
        let pinned = PinnedBuffer::from_host(context, &words, PinnedFlags::empty()).unwrap();
        drop(slot.buffer.copy_from_pinned_async(pinned, &stream).unwrap());
        slot.model = words;
    }

    /// Copies a buffer to page-locked memory, which is compared later.
    fn download(&mut self) {
        let index = self.index();
        if self.transfers.len() == KEPT {
            let (transfer, want) = self.transfers.swap_remove(0);
            compare(&transfer.wait().unwrap(), &want, &self.name);
        }
        let slot = self.round.buffers.lock(index);
        let stream = self.stream(slot.place);
        let context = &self.round.places[slot.place].context;
        let pinned = PinnedBuffer::zeroed(context, WORDS, PinnedFlags::empty()).unwrap();
        let transfer = slot.buffer.copy_to_pinned_async(pinned, &stream).unwrap();
        self.transfers.push((transfer, slot.model.clone()));
    }

    fn read(&mut self) {
        let index = self.index();
        self.round.buffers.lock(index).check(&self.name);
    }

    /// Makes a stream of one device wait for a stream of another one.
    fn wait_for_event(&mut self) {
        let (one, two) = (self.place(), self.place());
        let event = self.stream(one).record_event().unwrap();
        self.stream(two).wait(&event).unwrap();
    }

    fn replace_stream(&mut self) {
        let (place, index) = (self.place(), self.random.usize(..STREAMS));
        let context = &self.round.places[place].context;
        let stream = Stream::new(context, StreamFlags::NON_BLOCKING, 0).unwrap();
        self.streams[place][index] = stream;
    }
}
