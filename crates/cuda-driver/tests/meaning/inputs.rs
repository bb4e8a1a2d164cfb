//! What the threads read and write: records of operands and results, and areas of memory.

use fastrand::Rng;

use crate::item::{Item, Place};
use crate::kernel::{AREA, CONST_AREA, record};
use crate::memory::bytes_of;
use crate::values::{Set, Sets, low_bits};

/// What the threads of a run read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) threads: usize,
    /// The words of a record.
    width: usize,
    /// For each thread: whether it executes the instruction, and the values of the sources.
    pub(crate) records: Vec<u64>,
    /// The areas in global memory.
    pub(crate) areas: Vec<u8>,
    /// The areas in shared and in local memory of each thread.
    pub(crate) fills: Vec<u8>,
    pub(crate) constants: Option<Vec<u8>>,
}

/// What the threads of a run have written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    width: usize,
    pub(crate) results: Vec<u64>,
    pub(crate) areas: Vec<u8>,
    pub(crate) dump: Vec<u8>,
}

impl Inputs {
    /// The records of operand sets.
    pub(crate) fn of_sets(item: &Item, sets: &Sets) -> Self {
        let width = 1 + record(&item.sources);
        let mut records = Vec::with_capacity(width * sets.sets.len());
        for (thread, set) in sets.sets.iter().enumerate() {
            // The carry flag of some instructions is set in every other thread.
            records.push(if set.is_active {
                1 + thread as u64 % 2
            } else {
                0
            });
            records.extend(&set.words);
        }
        Self {
            threads: sets.sets.len(),
            width,
            records,
            ..Self::default()
        }
    }

    /// Any operands and any contents of memory.
    pub(crate) fn random(item: &Item, threads: usize, rng: &mut Rng) -> Self {
        let sets = Sets::new(item, threads.next_multiple_of(64), rng);
        let mut inputs = Self::of_sets(item, &sets);
        inputs.threads = threads;
        inputs.records.truncate(threads * inputs.width);
        let mut bytes = |count: usize| {
            let mut bytes = vec![0; count];
            rng.fill(&mut bytes);
            bytes
        };
        inputs.areas = bytes(threads * AREA);
        inputs.fills = bytes(threads * 2 * AREA);
        let mut addresses = item.addresses.iter();
        if addresses.any(|address| address.space == Some(Place::Const)) {
            inputs.constants = Some(bytes(threads * CONST_AREA));
        }
        inputs
    }

    /// The spaces that have areas, with the bytes of each.
    pub(crate) fn places(&self) -> Vec<(Place, usize)> {
        let mut all = vec![Place::Global, Place::Shared, Place::Local];
        if self.constants.is_some() {
            all.push(Place::Const);
        }
        all.into_iter().map(|it| (it, bytes_of(it))).collect()
    }

    pub(crate) fn record(&self, thread: usize) -> &[u64] {
        &self.records[thread * self.width..][..self.width]
    }

    pub(crate) fn record_mut(&mut self, thread: usize) -> &mut [u64] {
        &mut self.records[thread * self.width..][..self.width]
    }

    pub(crate) fn is_active(&self, thread: usize) -> bool {
        self.record(thread)[0] != 0
    }

    /// The operand set of a thread.
    pub(crate) fn set(&self, thread: usize) -> Set {
        let record = self.record(thread);
        Set {
            case: 0,
            is_active: record[0] != 0,
            words: record[1..].to_vec(),
        }
    }

    pub(crate) fn byte(&self, place: Place, thread: usize, at: usize) -> u8 {
        match place {
            Place::Const => self
                .constants
                .as_ref()
                .map_or(0, |all| all[thread * CONST_AREA + at]),
            _ => memory(&self.areas, &self.fills, place, thread, at),
        }
    }

    pub(crate) fn byte_mut(&mut self, place: Place, thread: usize, at: usize) -> &mut u8 {
        match (place, &mut self.constants) {
            (Place::Const, Some(constants)) => &mut constants[thread * CONST_AREA + at],
            (Place::Shared, _) => &mut self.fills[thread * 2 * AREA + at],
            (Place::Local, _) => &mut self.fills[thread * 2 * AREA + AREA + at],
            _ => &mut self.areas[thread * AREA + at],
        }
    }

    /// Gives all bytes of the areas of a thread one value.
    pub(crate) fn fill(&mut self, thread: usize, value: u8) {
        self.areas[thread * AREA..][..AREA].fill(value);
        self.fills[thread * 2 * AREA..][..2 * AREA].fill(value);
    }

    /// Gives a thread the operands and the memory of another one.
    pub(crate) fn copy_thread(&mut self, from: usize, to: usize) {
        let width = self.width;
        let words = from * width..(from + 1) * width;
        self.records.copy_within(words, to * width);
        self.areas
            .copy_within(from * AREA..(from + 1) * AREA, to * AREA);
        let both = 2 * AREA;
        self.fills
            .copy_within(from * both..(from + 1) * both, to * both);
        if let Some(constants) = &mut self.constants {
            let bytes = from * CONST_AREA..(from + 1) * CONST_AREA;
            constants.copy_within(bytes, to * CONST_AREA);
        }
    }
}

fn memory(areas: &[u8], both: &[u8], place: Place, thread: usize, at: usize) -> u8 {
    match place {
        Place::Shared => both[thread * 2 * AREA + at],
        Place::Local => both[thread * 2 * AREA + AREA + at],
        _ => areas[thread * AREA + at],
    }
}

impl Outputs {
    pub(crate) fn new(item: &Item, results: Vec<u64>, areas: Vec<u8>, dump: Vec<u8>) -> Self {
        Self {
            width: record(&item.results).max(1),
            results,
            areas,
            dump,
        }
    }

    /// The words of the results of a thread.
    pub(crate) fn results(&self, thread: usize) -> &[u64] {
        &self.results[thread * self.width..][..self.width]
    }

    /// One number for each result, without the high half of those with 128 bits.
    pub(crate) fn values(&self, item: &Item, thread: usize) -> Vec<u64> {
        let words = self.results(thread);
        let mut slot = 0;
        let values = item.results.iter().map(|result| {
            let value = words[slot];
            slot += result.slots();
            low_bits(value, result.bits.min(64))
        });
        values.collect()
    }

    pub(crate) fn byte(&self, place: Place, thread: usize, at: usize) -> u8 {
        memory(&self.areas, &self.dump, place, thread, at)
    }
}
