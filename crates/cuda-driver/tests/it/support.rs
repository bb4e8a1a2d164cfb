//! Drivers to test on, and kernels.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::thread;
use std::time::Duration;

use cuda_driver::Version;
use cuda_driver::prelude::*;
use cuda_sim::{BuildError, Builder, Schedule, Simulator};

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

/// A software driver as `builder` describes it, of the [version](older) that the tests run on unless that names one.
pub(crate) fn simulator(builder: &Builder) -> Simulator {
    let simulator = built(builder);
    let Some(version) = older() else {
        return simulator;
    };
    let newest = cuda_sys::BINDINGS.version;
    if simulator.library().unwrap().version() != newest {
        return simulator;
    }
    drop(simulator);
    built(&builder.clone().version(version.number()))
}

/// A software driver of the version that `builder` names.
///
/// A process has room for so many at once, and tests run beside each other: waits for room.
pub(crate) fn built(builder: &Builder) -> Simulator {
    loop {
        match builder.clone().build() {
            Err(BuildError::TooMany { .. }) => thread::sleep(Duration::from_millis(5)),
            built => return built.unwrap(),
        }
    }
}

/// The CUDA version of the software drivers that tests run on, where it is not the newest: `CUDA_TEST_DRIVER=12.0`.
pub(crate) fn older() -> Option<Version> {
    let text = env::var("CUDA_TEST_DRIVER").ok()?;
    let (major, minor) = text.split_once('.').expect("CUDA_TEST_DRIVER is like 12.0");
    let number = major.parse::<u32>().unwrap() * 1000 + minor.parse::<u32>().unwrap() * 10;
    Some(Version::new(number))
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

/// Says what is skipped, also to the file that `cargo xtask test` lists at its end.
pub(crate) fn skipped(what: &str) {
    println!("skipped: {what}");
    if let Some(list) = env::var_os("CUDA_TEST_SKIPPED") {
        let mut list = OpenOptions::new()
            .create(true)
            .append(true)
            .open(list)
            .unwrap();
        writeln!(list, "cuda-driver: {what}").unwrap();
    }
}

/// The GPU, if there is one. Says what was skipped if not, and fails if `CUDA_TEST_REQUIRE` is 1.
pub(crate) fn gpu(test: &str) -> Option<Bench> {
    match Driver::load() {
        Ok(driver) => Some(Bench::of(&driver, None)),
        Err(error) => {
            let required = env::var("CUDA_TEST_REQUIRE").is_ok_and(|value| value == "1");
            assert!(!required, "{test} needs a GPU: {error}");
            skipped(&format!("{test} on a GPU: there is none"));
            None
        }
    }
}

/// Where most tests run: an eager and two late software devices, and the GPU if there is one. One at a time.
pub(crate) fn everywhere(test: &str) -> impl Iterator<Item = Bench> {
    [Builder::new(), late(1), late(2)]
        .into_iter()
        .map(software)
        .chain(gpu(test))
}

/// A software device on which nothing runs before something waits for it, and then in an order made from `seed`.
pub(crate) fn late(seed: u64) -> Builder {
    Builder::new().schedule(Schedule::Late { seed })
}

/// Words that a stream can wait for: memory of pools is not taken.
pub(crate) fn flags<T: DeviceRepr>(stream: &Stream, values: &[T]) -> DeviceBuffer<T> {
    let mut flags = DeviceBuffer::zeroed_plain(stream, values.len()).unwrap();
    flags.copy_from_host(values).unwrap();
    flags
}
