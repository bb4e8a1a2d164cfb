//! The buffers that all threads use, and what they must contain.

use std::sync::{Mutex, MutexGuard};

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use fastrand::Rng;

use crate::machine::Place;

/// The number of buffers.
pub(crate) const COUNT: usize = 40;
/// The length of each buffer in words.
pub(crate) const WORDS: usize = 600;

/// A buffer and what it must contain.
pub(crate) struct Slot {
    pub(crate) buffer: DeviceBuffer<u32>,
    pub(crate) model: Vec<u32>,
    /// The index of its device.
    pub(crate) place: usize,
    /// Changes when the buffer is replaced.
    pub(crate) version: u64,
}

impl Slot {
    /// Allocates a buffer in a random way on a random device.
    pub(crate) fn new(places: &[Place], random: &mut Rng) -> Self {
        let index = random.usize(..places.len());
        let place = &places[index];
        let stream = Stream::new(&place.context, StreamFlags::NON_BLOCKING, 0).unwrap();
        let value = random.u32(..);
        let model: Vec<u32> = (0..WORDS as u32)
            .map(|i| value.wrapping_mul(i + 1))
            .collect();
        let buffer = match random.u32(..4) {
            0 => DeviceBuffer::from_host(&stream, &model),
            1 => DeviceBuffer::from_host_in(&place.pool, &stream, &model),
            2 => DeviceBuffer::from_host_in(&place.caching, &stream, &model),
            _ => DeviceBuffer::from_host_in(&Unpooled, &stream, &model),
        };
        Self {
            buffer: buffer.unwrap(),
            model,
            place: index,
            version: random.u64(..),
        }
    }

    /// Fails unless the buffer has the contents of the model.
    pub(crate) fn check(&self, what: &str) {
        compare(&self.buffer.to_vec().unwrap(), &self.model, what);
    }

    /// The model of `x = 2 * x + y` for a part.
    pub(crate) fn mix(&mut self, start: usize, y: &[u32]) {
        for (x, y) in self.model[start..].iter_mut().zip(y) {
            *x = x.wrapping_mul(2).wrapping_add(*y);
        }
    }
}

#[track_caller]
pub(crate) fn compare(got: &[u32], want: &[u32], what: &str) {
    let wrong = got.iter().zip(want).position(|(got, want)| got != want);
    if let Some(at) = wrong {
        let (got, want) = (got[at], want[at]);
        panic!("{what}: word {at} is {got:#x}, expected {want:#x}");
    }
    assert_eq!(got.len(), want.len(), "{what}");
}

/// All buffers. An operation locks those that it uses, so that the model has the order of the
/// calls; the work itself runs later, in the order that the library ensures.
pub(crate) struct Buffers(Vec<Mutex<Slot>>);

impl Buffers {
    pub(crate) fn new(places: &[Place], random: &mut Rng) -> Self {
        let slots = (0..COUNT).map(|_| Mutex::new(Slot::new(places, random)));
        Self(slots.collect())
    }

    pub(crate) fn lock(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.0[index].lock().unwrap()
    }

    /// Locks two buffers, the one with the lower index first.
    pub(crate) fn lock_two(
        &self,
        one: usize,
        two: usize,
    ) -> (MutexGuard<'_, Slot>, MutexGuard<'_, Slot>) {
        assert_ne!(one, two);
        if one < two {
            let first = self.lock(one);
            (first, self.lock(two))
        } else {
            let second = self.lock(two);
            (self.lock(one), second)
        }
    }

    /// Fails unless all buffers have the contents of the model.
    pub(crate) fn check(&self, what: &str) {
        for index in 0..COUNT {
            self.lock(index)
                .check(&format!("{what}, buffer {index} at the end"));
        }
    }
}
