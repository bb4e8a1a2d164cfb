//! Drivers to test on, and kernels.

use cuda_driver::Version;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Schedule, Simulator};

use crate::common::gpu_driver;
pub(crate) use crate::common::{built, older, simulator};
pub(crate) use test_needs::skipped;

/// Doubles what `x` holds and adds `y`: `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
pub(crate) const MIX: &str = include_str!("kernels/mix.ptx");
/// Copies `n` words: `out[i] = in[i]`.
pub(crate) const COPY: &str = include_str!("kernels/copy.ptx");

/// A context on a fresh device, and what kind it is.
pub(crate) struct Bench {
    pub(crate) name: String,
    pub(crate) context: Context,
    /// The software driver, where it is one.
    pub(crate) simulator: Option<Simulator>,
}

impl Bench {
    pub(crate) fn of(driver: &Driver, simulator: Option<Simulator>) -> Self {
        let context = driver.device(0).unwrap().primary_context().unwrap();
        Self {
            name: driver.origin().to_owned(),
            context,
            simulator,
        }
    }

    pub(crate) fn stream(&self) -> Stream {
        Stream::new(&self.context, StreamFlags::NON_BLOCKING, 0).unwrap()
    }

    pub(crate) fn kernel(&self, ptx: &str, name: &str) -> Function {
        Module::load(&self.context, &Ptx::new(ptx).unwrap())
            .unwrap()
            .function(name)
            .unwrap()
    }
}

/// Whether drivers are as new as `test` needs. Says what was skipped if not.
pub(crate) fn has_version(test: &str, since: (u32, u32)) -> bool {
    let needed = Version::new(since.0 * 1000 + since.1 * 10);
    let is_too_old = older().is_some_and(|version| version < needed);
    if is_too_old {
        skipped(&format!("{test}: it needs a driver of CUDA {needed}"));
    }
    !is_too_old
}

/// A software device as `builder` describes it.
pub(crate) fn software(builder: Builder) -> Bench {
    let simulator = simulator(&builder);
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    Bench::of(&driver, Some(simulator))
}

/// The GPU, if there is one. Says what was skipped if not, and fails if `CUDA_TEST_REQUIRE` is 1.
pub(crate) fn gpu(test: &str) -> Option<Bench> {
    Some(Bench::of(&gpu_driver(test)?, None))
}

/// Where most tests run: an eager and two late software devices, and the GPU if there is one. One
/// at a time.
pub(crate) fn everywhere(test: &str) -> impl Iterator<Item = Bench> {
    [Builder::new(), late(1), late(2)]
        .into_iter()
        .map(software)
        .chain(gpu(test))
}

/// A software device on which nothing runs before something waits for it, and then in an order made
/// from `seed`.
pub(crate) fn late(seed: u64) -> Builder {
    Builder::new().schedule(Schedule::Late { seed })
}

/// Words that a stream can wait for: memory of pools is not taken.
pub(crate) fn flags<T: DeviceRepr>(stream: &Stream, values: &[T]) -> DeviceBuffer<T> {
    let mut flags = DeviceBuffer::zeroed_plain(stream, values.len()).unwrap();
    flags.copy_from_host(values).unwrap();
    flags
}
