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
}

impl Machine {
    pub(crate) fn software(simulator: Simulator) -> Self {
        let driver = Driver::new(simulator.library().unwrap()).unwrap();
        Self::new(&driver, Some(simulator))
    }

    /// The GPUs of the machine, of which each can access the memory of each other one.
    pub(crate) fn gpus(driver: &Driver) -> Self {
        Self::new(driver, None)
    }

    fn new(driver: &Driver, simulator: Option<Simulator>) -> Self {
        let devices = driver.devices().unwrap();
        let contexts = devices.iter().map(|it| it.primary_context().unwrap());
        let contexts = contexts.inspect(|context| context.track_memory(true));
        Self {
            places: contexts.map(Place::new).collect(),
            simulator,
        }
    }

    /// Returns the number of rounds that run before everything is dropped: a software driver is for
    /// one schedule.
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

    /// Drops everything, and fails if memory is left.
    pub(crate) fn end(mut self) {
        // Other threads free memory too, a short time after its last use.
        until(|| self.held());
        let simulator = self.simulator.take();
        drop(self);
        if let Some(simulator) = simulator {
            until(|| {
                let live = simulator.live();
                (!live.is_empty()).then(|| live.to_string())
            });
            assert_eq!(simulator.take_reports(), []);
        }
    }

    /// Returns which memory is still allocated, if any.
    fn held(&self) -> Option<String> {
        let held = self.places.iter().filter_map(|place| {
            place.caching.trim_to(0);
            place.context.synchronize().unwrap();
            let report = place.context.memory_report();
            let device = place.context.device();
            let used = [&place.pool, &device.default_memory_pool().unwrap()]
                .map(|pool| pool.statistics().unwrap().used);
            let is_free = report.count() == 0 && used == [0, 0];
            (!is_free).then(|| format!("{device:?}: used in pools: {used:?}, {report}"))
        });
        let held: Vec<_> = held.collect();
        (!held.is_empty()).then(|| held.join("\n"))
    }
}

/// Returns the free memory of each device when no memory is allocated.
pub(crate) fn free_memory(driver: &Driver) -> Vec<usize> {
    let devices = driver.devices().unwrap().into_iter();
    let contexts: Vec<_> = devices.map(|it| it.primary_context().unwrap()).collect();
    let free = contexts.iter().map(|it| it.memory_info().unwrap().0);
    free.collect()
}

/// Fails with the last text if `what_is_left` returns one for ten seconds.
pub(crate) fn until(what_is_left: impl Fn() -> Option<String>) {
    let end = Instant::now() + Duration::from_secs(10);
    while let Some(left) = what_is_left() {
        assert!(Instant::now() < end, "after all was dropped: {left}");
        thread::sleep(Duration::from_millis(10));
    }
}
