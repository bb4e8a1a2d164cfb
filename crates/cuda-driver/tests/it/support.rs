//! Test devices and kernels.

use cuda_driver::Version;
use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Schedule, Simulator};

use test_drivers::gpu_driver;
pub(crate) use test_drivers::{built, older, simulator};
pub(crate) use test_needs::{skip, skipped};

/// A kernel that computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
pub(crate) const MIX: &str = include_str!("kernels/mix.ptx");
/// A kernel that copies `n` words: `out[i] = in[i]`.
pub(crate) const COPY: &str = include_str!("kernels/copy.ptx");

/// A context on a fresh device, with the name of its driver.
pub(crate) struct Bench {
    pub(crate) name: String,
    pub(crate) context: Context,
    /// The software driver, if the device is one.
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

/// Returns whether drivers are as new as `test` needs. If not, reports the test as skipped.
#[track_caller]
pub(crate) fn has_version(since: (u32, u32)) -> bool {
    let needed = Version::new(since.0 * 1000 + since.1 * 10);
    let is_too_old = older().is_some_and(|version| version < needed);
    if is_too_old {
        skip(&format!("it needs a driver of CUDA {needed}"));
    }
    !is_too_old
}

/// Returns a software device configured by `builder`.
pub(crate) fn software(builder: Builder) -> Bench {
    let simulator = simulator(&builder);
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    Bench::of(&driver, Some(simulator))
}

/// Returns the GPU, if there is one. Otherwise reports the test as skipped, or fails if
/// `CUDA_TEST_REQUIRE` is 1.
#[track_caller]
pub(crate) fn gpu() -> Option<Bench> {
    Some(Bench::of(&gpu_driver()?, None))
}

/// Returns the usual test devices one at a time: an eager and two late software devices, and the
/// GPU if there is one.
#[track_caller]
pub(crate) fn everywhere() -> impl Iterator<Item = Bench> {
    [Builder::new(), late(1), late(2)]
        .into_iter()
        .map(software)
        .chain(gpu())
}

/// Configures a software device on which work runs only when something waits for it, in an order
/// derived from `seed`.
pub(crate) fn late(seed: u64) -> Builder {
    Builder::new().schedule(Schedule::Late { seed })
}

/// Returns words that a stream can wait for; they do not come from a memory pool, as the driver
/// refuses that.
pub(crate) fn flags<T: DeviceRepr>(stream: &Stream, values: &[T]) -> DeviceBuffer<T> {
    let mut flags = DeviceBuffer::zeroed_in(&Unpooled, stream, values.len()).unwrap();
    flags.copy_from_host(values).unwrap();
    flags
}
