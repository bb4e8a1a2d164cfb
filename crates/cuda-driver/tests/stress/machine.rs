//! The devices of a run, and what the threads share.

use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::memory::{CachingPool, MemoryPool};
use cuda_driver::prelude::*;
use cuda_sim::Simulator;

use crate::round::Round;

const MIX: &str = include_str!("../it/kernels/mix.ptx");

/// A device with the objects that all rounds use.
pub(crate) struct Place {
    pub(crate) context: Context,
    pub(crate) mix: Function,
    pub(crate) pool: MemoryPool,
    pub(crate) caching: CachingPool,
}

impl Place {
    fn new(context: Context) -> Self {
        let module = Module::load(&context, &Ptx::new(MIX).unwrap()).unwrap();
        Self {
            mix: module.function("mix").unwrap(),
            pool: MemoryPool::new(context.device()).unwrap(),
            caching: CachingPool::new(&context),
            context,
        }
    }
}

/// The devices of a run.
pub(crate) struct Machine {
    pub(crate) places: Vec<Place>,
    simulator: Option<Simulator>,
    /// The free memory of each device before the first round.
    free: Vec<usize>,
}

impl Machine {
    pub(crate) fn software(simulator: Simulator) -> Self {
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        Self::new(&driver, Some(simulator))
    }

    /// The GPUs of the machine, of which each can access the memory of each other one.
    pub(crate) fn gpus(driver: &Driver) -> Self {
        let mut machine = Self::new(driver, None);
        // The driver keeps what it allocates for the first round.
        machine.round(u64::MAX);
        machine.free = machine.settle();
        machine
    }

    fn new(driver: &Driver, simulator: Option<Simulator>) -> Self {
        let devices = driver.devices().unwrap();
        let contexts = devices.iter().map(|it| it.primary_context().unwrap());
        Self {
            places: contexts.map(Place::new).collect(),
            simulator,
            free: Vec::new(),
        }
    }

    /// Returns the number of rounds that run before the memory is compared: a software driver is
    /// for one schedule.
    pub(crate) fn rounds(&self) -> u64 {
        if self.simulator.is_some() {
            1
        } else {
            u64::MAX
        }
    }

    /// Runs a round; returns the number of its operations.
    pub(crate) fn round(&self, number: u64) -> u64 {
        // Each thread has more work on a GPU, where it is faster.
        let per_thread = if self.simulator.is_some() { 50 } else { 500 };
        Round::new(&self.places, number).run(per_thread)
    }

    /// Releases the memory that pools keep, and returns the free memory of each device.
    fn settle(&self) -> Vec<usize> {
        let free = self.places.iter().map(|place| {
            place.context.synchronize().unwrap();
            place.caching.trim_to(0);
            place.context.synchronize().unwrap();
            place.pool.trim_to(0).unwrap();
            let device = place.context.device();
            device.default_memory_pool().unwrap().trim_to(0).unwrap();
            device.trim_graph_memory().unwrap();
            place.context.memory_info().unwrap().0
        });
        free.collect()
    }

    /// Drops everything, and fails if memory is left.
    pub(crate) fn end(mut self) {
        let Some(simulator) = self.simulator.take() else {
            // Memory is freed by other threads too, a short time after its last use.
            let end = Instant::now() + Duration::from_secs(10);
            loop {
                let free = self.settle();
                let lost = self.free.iter().zip(&free);
                let lost: Vec<_> = lost.map(|(one, two)| one.saturating_sub(*two)).collect();
                if lost.iter().all(|bytes| *bytes == 0) {
                    println!("GPUs: free memory is as before the first round: {free:?}");
                    return;
                }
                assert!(
                    Instant::now() < end,
                    "bytes that are not free again: {lost:?}"
                );
                thread::sleep(Duration::from_millis(100));
            }
        };
        drop(self);
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let live = simulator.live();
            if live.is_empty() {
                break;
            }
            assert!(Instant::now() < end, "after all was dropped: {live}");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(simulator.take_reports(), []);
    }
}
