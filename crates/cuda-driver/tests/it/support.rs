//! Drivers to test on, and kernels.

use cuda_driver::prelude::*;
use cuda_sim::{Builder, Schedule, Simulator};

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

/// A software device as `builder` describes it.
pub(crate) fn software(builder: Builder) -> Bench {
    let simulator = builder.build().unwrap();
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    Bench::of(&driver, Some(simulator))
}

/// The GPU, if there is one. Says what was skipped if not, and fails if `CUDA_TEST_REQUIRE` is 1.
pub(crate) fn gpu(test: &str) -> Option<Bench> {
    match Driver::load() {
        Ok(driver) => Some(Bench::of(&driver, None)),
        Err(error) => {
            let required = std::env::var("CUDA_TEST_REQUIRE").is_ok_and(|value| value == "1");
            assert!(!required, "{test} needs a GPU: {error}");
            let reason = error.to_string();
            println!(
                "skipped on a GPU: {test}: {}",
                reason.lines().next().unwrap_or_default()
            );
            None
        }
    }
}

/// Where most tests run: an eager and a late software device, and the GPU if there is one.
pub(crate) fn everywhere(test: &str) -> Vec<Bench> {
    let mut benches = vec![
        software(Builder::new()),
        software(late(1)),
        software(late(2)),
    ];
    benches.extend(gpu(test));
    benches
}

/// A software device on which nothing runs before something waits for it, and then in an order made from `seed`.
pub(crate) fn late(seed: u64) -> Builder {
    Builder::new().schedule(Schedule::Late { seed })
}
