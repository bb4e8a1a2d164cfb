//! Random programs with memory of pools at several locations, compared with a model.

use std::env;
use std::mem;

use cuda_driver::memory::{ManagedBatch, ManagedBuffer, MemoryLocation, MemoryPool, PoolKind};
use cuda_driver::prelude::*;
use cuda_sim::Machine;

use crate::support::{Fixture, everywhere_since, has_version, late, software};

const LEN: usize = 96;

/// Memory of `LEN` words from a pool.
enum Words {
    Pinned(PinnedBuffer<u32>),
    Managed(ManagedBuffer<u32>),
    Device(DeviceBuffer<u32>),
}

impl Words {
    fn view(&self) -> Option<DeviceSlice<'_, u32>> {
        match self {
            Self::Pinned(_) => None,
            Self::Managed(buffer) => Some(buffer.as_slice()),
            Self::Device(buffer) => Some(buffer.as_slice()),
        }
    }

    fn view_mut(&mut self) -> Option<DeviceSliceMut<'_, u32>> {
        match self {
            Self::Pinned(_) => None,
            Self::Managed(buffer) => Some(buffer.as_mut_slice()),
            Self::Device(buffer) => Some(buffer.as_mut_slice()),
        }
    }

    fn to_vec(&self) -> Vec<u32> {
        match self {
            Self::Pinned(buffer) => buffer.to_vec(),
            Self::Managed(buffer) => buffer.as_slice().to_vec().unwrap(),
            Self::Device(buffer) => buffer.to_vec().unwrap(),
        }
    }
}

struct Program<'a> {
    fixture: &'a Fixture,
    state: u64,
    streams: [Stream; 3],
    /// Pools of page-locked memory of the host and of a NUMA node.
    pinned: [MemoryPool; 2],
    /// Pools of memory of the device, and of managed memory on the host.
    on_device: [MemoryPool; 2],
    managed: MemoryPool,
    /// The locations of prefetches, none if the device makes no prefetches.
    locations: Vec<MemoryLocation>,
}

impl<'a> Program<'a> {
    fn new(fixture: &'a Fixture, seed: u64) -> Self {
        let device = fixture.context.device();
        let here = MemoryLocation::Device(device.clone());
        let node = MemoryLocation::HostNuma(device.host_numa_node().unwrap().unwrap_or(0));
        let pool = |at: &MemoryLocation| MemoryPool::at(at, PoolKind::Pinned, device).unwrap();
        let managed = |at: &MemoryLocation| MemoryPool::at(at, PoolKind::Managed, device).unwrap();
        let locations = if device.has_concurrent_managed_access().unwrap() {
            vec![here.clone(), MemoryLocation::Host]
        } else {
            Vec::new()
        };
        Self {
            fixture,
            state: seed,
            streams: [(); 3].map(|()| fixture.stream()),
            pinned: [&MemoryLocation::Host, &node].map(pool),
            on_device: [pool(&here), managed(&MemoryLocation::Host)],
            managed: managed(&here),
            locations,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) as usize % bound
    }

    fn allocate(&mut self) -> Words {
        let (stream, kind, pool) = (self.below(3), self.below(3), self.below(2));
        let stream = &self.streams[stream];
        match kind {
            0 => {
                let pool = &self.pinned[pool];
                Words::Pinned(PinnedBuffer::zeroed_in_pool(pool, stream, LEN).unwrap())
            }
            1 => Words::Managed(ManagedBuffer::zeroed_in(&self.managed, stream, LEN).unwrap()),
            _ => {
                let pool = &self.on_device[pool];
                Words::Device(DeviceBuffer::zeroed_in(pool, stream, LEN).unwrap())
            }
        }
    }

    /// Copies `source` to `target`.
    fn copy(&mut self, target: &mut Words, source: &Words) {
        let stream = self.below(3);
        let stream = &self.streams[stream];
        match (target, source) {
            (Words::Pinned(target), Words::Pinned(source)) => target.copy_from_slice(source),
            (Words::Pinned(target), source) => {
                source.view().unwrap().copy_to_pinned(target).unwrap();
            }
            (target, Words::Pinned(source)) => {
                let mut target = target.view_mut().unwrap();
                target.copy_from_pinned(source).unwrap();
            }
            (target, source) => {
                let mut target = target.view_mut().unwrap();
                target.copy_from_on(source.view().unwrap(), stream).unwrap();
            }
        }
    }

    /// Discards a part of managed memory and writes it, and moves other parts.
    fn move_pages(&mut self, target: &mut DeviceSliceMut<'_, u32>, value: u32) -> usize {
        let (stream, at) = (self.below(3), 1 + self.below(LEN - 2));
        let (one, other) = (self.below(2), self.below(2));
        let stream = &self.streams[stream];
        let (mut lost, kept) = target.reborrow().split_at_mut(at).unwrap();
        let mut batch = ManagedBatch::new();
        match self.locations.get(one) {
            Some(location) => batch.discard_and_prefetch(lost.reborrow(), location),
            None => batch.discard(lost.reborrow()),
        }
        if let Some(location) = self.locations.get(other) {
            batch.prefetch(&kept, location);
        }
        batch.queue(stream).unwrap();
        lost.fill_on(value, stream).unwrap();
        at
    }

    fn run(mut self) {
        let mut slots: Vec<(Words, Vec<u32>)> = Vec::new();
        for _ in 0..5 {
            slots.push((self.allocate(), vec![0; LEN]));
        }
        for value in 1..40_u32 {
            let (at, step, from) = (self.below(5), self.below(6), self.below(4));
            let (mut target, mut model) = slots.swap_remove(at);
            match (step, &mut target) {
                (0, _) => {
                    target = self.allocate();
                    model.fill(0);
                }
                (1, Words::Pinned(target)) => {
                    target.fill(value);
                    model.fill(value);
                }
                (1, Words::Managed(target)) => {
                    let read = target.with_host(|words| {
                        let read = words.to_vec();
                        words[value as usize] = value;
                        read
                    });
                    assert_eq!(read.unwrap(), model, "{}", self.fixture.name);
                    model[value as usize] = value;
                }
                (2, Words::Managed(target)) => {
                    let end = self.move_pages(&mut target.as_mut_slice(), value);
                    model[..end].fill(value);
                }
                (3, Words::Pinned(pinned)) => {
                    // The pool has the memory again when the copy is complete.
                    let stream = self.below(3);
                    let empty =
                        PinnedBuffer::zeroed_in_pool(&self.pinned[0], &self.streams[0], LEN);
                    let pinned = mem::replace(pinned, empty.unwrap());
                    let words = mem::replace(&mut model, vec![0; LEN]);
                    let (to, held) = &mut slots[from];
                    if let Some(mut to) = to.view_mut() {
                        let copy = to.copy_from_pinned_async(pinned, &self.streams[stream]);
                        drop(copy.unwrap());
                        *held = words;
                    }
                }
                (4, target) => {
                    if let Some(mut target) = target.view_mut() {
                        let stream = self.below(3);
                        target.fill_on(value, &self.streams[stream]).unwrap();
                        model.fill(value);
                    }
                }
                (_, target) => {
                    let (source, words) = &slots[from];
                    self.copy(target, source);
                    model.clone_from(words);
                }
            }
            slots.push((target, model));
        }
        for (words, model) in &slots {
            assert_eq!(&words.to_vec(), model, "{}", self.fixture.name);
        }
    }
}

#[test]
fn random_programs_with_pools_match_a_model() {
    if !has_version((13, 0)) {
        return;
    }
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    for seed in 0..if is_full { 20_000 } else { 100 } {
        let builder = match seed % 2 {
            0 => late(seed),
            _ => late(seed).machine(Machine::named("one-gtx1650-exclusive").unwrap()),
        };
        let fixture = software(builder);
        Program::new(&fixture, seed).run();
    }
    for fixture in everywhere_since((13, 0)) {
        (0..10).for_each(|seed| Program::new(&fixture, seed).run());
    }
}
