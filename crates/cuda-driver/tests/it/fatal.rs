//! Kernels that lose the device: the reported errors, and what remains usable. Each test runs in
//! its own process.

use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::process::{child_of, in_processes};
use crate::support::{COPY, Fixture, new_stream};

const FATAL: &str = include_str!("kernels/fatal.ptx");
const N: u32 = 1 << 12;
/// Upper bound for any call on a lost device.
const SOON: Duration = Duration::from_secs(5);

/// A stream, with the copy that ran on it before the device was lost.
struct Before {
    stream: Stream,
    copy: Function,
    input: DeviceBuffer<u32>,
    output: DeviceBuffer<u32>,
    expected: Vec<u32>,
}

impl Before {
    fn new(context: &Context, first: u32) -> Self {
        let stream = new_stream(context);
        let module = Module::load(context, &Ptx::new(COPY).unwrap()).unwrap();
        let expected: Vec<u32> = (first..first + N).collect();
        Self {
            copy: module.function("copy").unwrap(),
            input: DeviceBuffer::from_host(&stream, &expected).unwrap(),
            output: DeviceBuffer::zeroed(&stream, N as usize).unwrap(),
            expected,
            stream,
        }
    }

    fn launch_copy(&mut self) -> Result<(), Error> {
        let config = LaunchConfig::for_num_elems(N).unwrap();
        // SAFETY: the kernel copies `N` words from one buffer to the other; each has `N`.
        unsafe {
            self.stream
                .launch(&self.copy, config, (&self.input, &mut self.output, N))
        }
    }
}

/// Launches the fatal kernel `name` on the stream of `before`.
fn launch_fatal(before: &mut Before, name: &str) {
    let ptx = Ptx::new(FATAL).unwrap();
    let module = Module::load(before.stream.context(), &ptx).unwrap();
    let fatal = module.function(name).unwrap();
    // SAFETY: none: the kernel loses the device on purpose.
    unsafe {
        before
            .stream
            .launch(&fatal, LaunchConfig::new(1, 1), (&mut before.output,))
    }
    .unwrap();
    // Unloading would wait for the kernel and report the fault.
    std::mem::forget((module, fatal));
}

/// Returns the errors of calls that must all fail.
fn later_calls(
    fixture: &Fixture,
    before: &mut Before,
    other: &Stream,
) -> Vec<(&'static str, Error)> {
    let mut words = vec![0; N as usize];
    let event = Event::new(&fixture.context, EventFlags::DISABLE_TIMING);
    vec![
        ("launch", before.launch_copy().unwrap_err()),
        ("synchronize", before.stream.synchronize().unwrap_err()),
        ("other stream", other.synchronize().unwrap_err()),
        ("context", fixture.context.synchronize().unwrap_err()),
        (
            "allocation",
            DeviceBuffer::<u32>::zeroed(other, 8).unwrap_err(),
        ),
        ("event", event.unwrap_err()),
        (
            "to device",
            before.input.copy_from_host(&words).unwrap_err(),
        ),
        (
            "to host",
            before.output.copy_to_host(&mut words).unwrap_err(),
        ),
    ]
}

/// Loses the device through the kernel `name`; the driver must report `status`.
fn lose_by(name: &str, status: Status) {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let other = fixture.stream();
    let mut before = Before::new(&fixture.context, 7);
    before.launch_copy().unwrap();
    let copied = before.output.to_vec().unwrap();
    let mut pinned =
        PinnedBuffer::<u32>::zeroed(&fixture.context, N as usize, PinnedFlags::empty()).unwrap();
    before.output.copy_to_pinned(&mut pinned).unwrap();
    before.stream.synchronize().unwrap();
    assert!(before.stream.launches_in_flight().is_empty());

    before.launch_copy().unwrap();
    before.launch_copy().unwrap();
    launch_fatal(&mut before, name);
    let start = Instant::now();
    let error = before.stream.synchronize().unwrap_err();
    println!("note: {error}");
    assert_eq!(error.status(), Some(status));
    assert!(matches!(&error, Error::Driver(error) if error.is_sticky()));
    // The error lists the launches in flight and no others: earlier launches were waited for.
    let loss = error.loss().unwrap();
    assert_eq!((loss.device(), loss.status()), (0, status));
    assert_eq!(loss.call().name, "cuStreamSynchronize");
    let [launches] = loss.launches() else {
        panic!("expected launches of one stream: {loss}")
    };
    assert!(launches.are_of(&before.stream));
    let kernels: Vec<&str> = launches.kernels().collect();
    assert_eq!(kernels, [name, "copy", "copy"]);
    let text = error.to_string();
    let expected = format!(
        "launches in flight, latest first: {name}, copy ×2 on {:?}",
        before.stream
    );
    assert!(
        text.contains("this process can no longer use device 0") && text.contains(&expected),
        "{text}"
    );

    let lost_at = Instant::now();
    for (what, later) in later_calls(&fixture, &mut before, &other) {
        assert_eq!(later.status(), Some(status), "{what}");
        // The error reports the same loss as the first call.
        let later = later.loss().unwrap_or_else(|| panic!("{what}: {later}"));
        assert_eq!(later.to_string(), loss.to_string(), "{what}");
    }
    assert!(
        lost_at.elapsed() < SOON,
        "later calls: {:?}",
        lost_at.elapsed()
    );

    assert_eq!(copied, before.expected);
    assert_eq!(&pinned[..], &before.expected[..]);
    let expected = before.expected.clone();
    // Drops report nothing on any thread, and return.
    thread::spawn(move || drop(before)).join().unwrap();
    assert_eq!(&pinned[..], &expected[..]);
    drop((pinned, other, fixture));
    assert_eq!(copied, expected);
    assert!(start.elapsed() < 4 * SOON, "{:?}", start.elapsed());
}

#[test]
fn an_illegal_address_is_reported_with_the_launches() {
    in_processes("fatal::child_beyond");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_beyond() {
    lose_by("beyond", Status::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn a_misaligned_address_is_reported_with_the_launches() {
    in_processes("fatal::child_misaligned");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_misaligned() {
    lose_by("misaligned", Status::CUDA_ERROR_MISALIGNED_ADDRESS);
}

#[test]
fn a_trap_is_reported_with_the_launches() {
    in_processes("fatal::child_traps");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_traps() {
    lose_by("traps", Status::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn an_assertion_is_reported_with_the_launches() {
    in_processes("fatal::child_asserts");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_asserts() {
    lose_by("asserts", Status::CUDA_ERROR_ASSERT);
}

#[test]
fn other_device_is_usable_after_a_loss() {
    in_processes("fatal::child_of_two_devices");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_of_two_devices() {
    let Some(fixture) = child_of(Builder::new().devices(2)) else {
        return;
    };
    let driver = fixture.context.driver();
    if driver.devices().unwrap().len() < 2 {
        println!("note: skipped, there is one device");
        return;
    }
    let other = driver.device(1).unwrap().primary_context().unwrap();
    let (mut lost, mut fine) = (
        Before::new(&fixture.context, 1),
        Before::new(&other, 1_000_000),
    );
    // Both devices have launches in flight when the first one is lost.
    fine.launch_copy().unwrap();
    launch_fatal(&mut lost, "beyond");
    let error = lost.stream.synchronize().unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_ILLEGAL_ADDRESS));
    let loss = error.loss().unwrap();
    let launches = loss.launches();
    assert_eq!(loss.device(), 0);
    assert!(
        launches.len() == 1 && launches[0].are_of(&lost.stream),
        "{loss}"
    );

    let copied = fine.output.to_vec();
    if let (None, Err(error)) = (&fixture.simulator, &copied) {
        // Driver 580 loses the other device as well (docs/safety.md): the loss is reported too, and
        // drops stay silent.
        assert_eq!(error.status(), Some(Status::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert_eq!(error.loss().unwrap().device(), 1);
        return;
    }
    assert_eq!(copied.unwrap(), fine.expected);
    let next: Vec<u32> = fine.expected.iter().map(|word| word ^ 0x5555).collect();
    fine.input.copy_from_host(&next).unwrap();
    fine.launch_copy().unwrap();
    assert_eq!(fine.output.to_vec().unwrap(), next);
    assert_eq!(
        DeviceBuffer::filled(&fine.stream, 9, 4_u32)
            .unwrap()
            .to_vec()
            .unwrap(),
        [4; 9]
    );
    drop(lost);
    other.synchronize().unwrap();
    fine.stream.close().unwrap();
}
