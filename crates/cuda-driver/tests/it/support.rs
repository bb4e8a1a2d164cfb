//! Test devices and kernels.

use std::ptr;
use std::sync::mpsc;
use std::time::Duration;

use cuda_driver::Version;
use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Schedule, Simulator};
use cuda_sys::CUctx_st;

use test_drivers::gpu_driver;
pub(crate) use test_drivers::{built, older, simulator};
pub(crate) use test_needs::{skip, skipped};

/// A kernel that computes `x[i] = 2 * x[i] + y[i]` for `i` below `n`.
pub(crate) const MIX: &str = include_str!("kernels/mix.ptx");
/// A kernel that copies `n` words: `out[i] = in[i]`.
pub(crate) const COPY: &str = include_str!("kernels/copy.ptx");
/// The parameters of that kernel, as messages list them.
pub(crate) const COPY_LIST: &str =
    "(in: a pointer or a 64-bit integer, out: a pointer or a 64-bit integer, n: int or unsigned)";

/// A context on a fresh device, with the name of its driver.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) context: Context,
    /// The software driver, if the device is one.
    pub(crate) simulator: Option<Simulator>,
}

impl Fixture {
    pub(crate) fn of(driver: &Driver, simulator: Option<Simulator>) -> Self {
        let context = driver.device(0).unwrap().primary_context().unwrap();
        Self {
            name: driver.origin().to_owned(),
            context,
            simulator,
        }
    }

    pub(crate) fn stream(&self) -> Stream {
        new_stream(&self.context)
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

/// Returns whether the device has virtual memory. If not, reports the test as skipped.
#[track_caller]
pub(crate) fn has_virtual_memory(context: &Context) -> bool {
    let has = context.device().has_virtual_memory().unwrap();
    if !has {
        skipped("the device has no virtual memory");
    }
    has
}

/// Returns a software device configured by `builder`.
pub(crate) fn software(builder: Builder) -> Fixture {
    let simulator = simulator(&builder);
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    Fixture::of(&driver, Some(simulator))
}

/// Returns the GPU, if there is one. Otherwise reports the test as skipped, or fails if
/// `CUDA_TEST_REQUIRE` is 1.
#[track_caller]
pub(crate) fn gpu() -> Option<Fixture> {
    Some(Fixture::of(&gpu_driver()?, None))
}

/// Returns the usual test devices one at a time: an eager and two late software devices, and the
/// GPU if there is one.
#[track_caller]
pub(crate) fn everywhere() -> impl Iterator<Item = Fixture> {
    [Builder::new(), late(1), late(2)]
        .into_iter()
        .map(software)
        .chain(gpu())
}

/// Returns the devices of [`everywhere`] if drivers are as new as `since`. If not, reports the test
/// as skipped.
#[track_caller]
pub(crate) fn everywhere_since(since: (u32, u32)) -> impl Iterator<Item = Fixture> {
    has_version(since).then(everywhere).into_iter().flatten()
}

/// Returns software devices with `count` late schedules, and the GPU if there is one. They are
/// created one at a time, because the number of software drivers per process is limited.
#[track_caller]
pub(crate) fn late_devices(count: u64) -> impl Iterator<Item = Fixture> {
    (0..count).map(|seed| software(late(seed))).chain(gpu())
}

/// Configures a software device on which work runs only when something waits for it, in an order
/// derived from `seed`.
pub(crate) fn late(seed: u64) -> Builder {
    Builder::new().schedule(Schedule::Late { seed })
}

/// Returns words that a stream can wait for; they do not come from a memory pool, as the driver
/// refuses that.
pub(crate) fn unpooled<T: DeviceRepr>(stream: &Stream, values: &[T]) -> DeviceBuffer<T> {
    let mut words = DeviceBuffer::zeroed_in(&Unpooled, stream, values.len()).unwrap();
    words.copy_from_host(values).unwrap();
    words
}

/// Creates a stream that does not wait for the legacy stream.
pub(crate) fn new_stream(context: &Context) -> Stream {
    Stream::new(context, StreamFlags::NON_BLOCKING, 0).unwrap()
}

/// Queues a host function that blocks `stream` until the sender is used or dropped, for at most 20
/// seconds.
pub(crate) fn block(stream: &Stream) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel();
    let call = stream.launch_host(move || {
        let _ = receiver.recv_timeout(Duration::from_secs(20));
    });
    drop(call.unwrap());
    sender
}

/// Returns `len` words that are all `value`.
pub(crate) fn filled(stream: &Stream, len: u32, value: u32) -> DeviceBuffer<u32> {
    DeviceBuffer::from_host(stream, &vec![value; len as usize]).unwrap()
}

/// Fails unless all words of `buffer` are `value`. `name` is that of the device or the case.
#[track_caller]
pub(crate) fn assert_all(buffer: &DeviceBuffer<u32>, value: u32, name: &str) {
    let words = buffer.to_vec().unwrap();
    let wrong = words.iter().find(|word| **word != value);
    assert_eq!(wrong, None, "{name}: expected {value}");
}

/// Queues the kernel of [`COPY`], which copies all words of `input` to `output`.
pub(crate) fn launch_copy(
    kernel: &Function,
    stream: &Stream,
    input: &DeviceBuffer<u32>,
    output: &mut DeviceBuffer<u32>,
) -> cuda_driver::Result<()> {
    assert_eq!(input.len(), output.len());
    let len = u32::try_from(input.len()).unwrap();
    // SAFETY: the kernel must stay within the buffers ← the callers pass the kernel of `COPY`,
    // which reads `len` words of `input` and writes `len` words of `output`.
    unsafe {
        stream.launch(
            kernel,
            LaunchConfig::for_num_elems(len).unwrap(),
            (input, output, len),
        )
    }
}

/// Returns how often `call` was made on the software driver.
pub(crate) fn count_calls(simulator: &Simulator, call: &str) -> u64 {
    simulator.calls().get(call).copied().unwrap_or(0)
}

/// Returns the current context of this thread, queried past the safe layer.
pub(crate) fn raw_current(driver: &Driver) -> *mut CUctx_st {
    let mut current = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let status = unsafe { driver.library().cuCtxGetCurrent(&raw mut current) };
    assert!(status.is_success());
    current
}
