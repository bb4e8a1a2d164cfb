//! Devices of compute capability 9.0.

use cuda_driver::prelude::*;
use cuda_sim::{Builder, Simulator};

use test_drivers::{gpu_driver, simulator};
use test_needs::skip;

/// A device with a stream.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) stream: Stream,
    pub(crate) context: Context,
    pub(crate) simulator: Option<Simulator>,
}

impl Fixture {
    fn of(driver: &Driver, simulator: Option<Simulator>) -> Self {
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
        Self {
            name: driver.origin().to_string(),
            stream,
            context,
            simulator,
        }
    }

    /// Loads the kernel `name` of a PTX text.
    pub(crate) fn kernel(&self, text: &str, name: &str) -> Result<Function, String> {
        let say = |error: cuda_driver::Error| format!("{error}\n{text}");
        let ptx = Ptx::new(text).map_err(|error| error.to_string())?;
        let module = Module::load(&self.context, &ptx).map_err(say)?;
        module.function(name).map_err(say)
    }

    pub(crate) fn upload<T: DeviceRepr>(&self, values: &[T]) -> DeviceBuffer<T> {
        DeviceBuffer::from_host(&self.stream, values).unwrap()
    }

    pub(crate) fn zeroed<T: DeviceRepr>(&self, len: usize) -> DeviceBuffer<T> {
        DeviceBuffer::zeroed(&self.stream, len).unwrap()
    }

    /// The contents of a buffer, or the reason why the kernel failed.
    pub(crate) fn values<T: DeviceRepr>(&self, buffer: &DeviceBuffer<T>) -> Result<Vec<T>, String> {
        buffer.to_vec().map_err(|error| {
            let simulator = self.simulator.as_ref();
            let fault = simulator.and_then(|simulator| simulator.fault(0));
            format!("{error}: {fault:?}")
        })
    }
}

/// The software device, with all of its checks on.
pub(crate) fn software() -> Fixture {
    let builder = Builder::new()
        .compute_capability(9, 0)
        .strict_ptx(true)
        .check_all(true);
    let simulator = simulator(&builder);
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    Fixture::of(&driver, Some(simulator))
}

/// The GPU, if there is one of compute capability 9.0.
#[track_caller]
pub(crate) fn gpu() -> Option<Fixture> {
    let fixture = Fixture::of(&gpu_driver()?, None);
    let capability = fixture.context.device().compute_capability().unwrap();
    if (capability.major, capability.minor) != (9, 0) {
        skip("the GPU does not have compute capability 9.0");
        return None;
    }
    Some(fixture)
}

/// The software device, and the GPU if there is one.
#[track_caller]
pub(crate) fn everywhere() -> impl Iterator<Item = Fixture> {
    std::iter::once(software()).chain(gpu())
}
