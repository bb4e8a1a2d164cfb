//! The report of a lost device names the launches that may be the cause, whatever kind of work was
//! queued: kernels, copies, graphs or host functions. Each test runs in its own process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::process::{child_of, in_processes};
use crate::support::{COPY, Fixture, filled, launch_copy, new_stream};

const FATAL: &str = include_str!("kernels/fatal.ptx");

/// A stream with two buffers, and the kernels.
struct Work {
    stream: Stream,
    from: DeviceBuffer<u32>,
    to: DeviceBuffer<u32>,
    copy: Function,
    fatal: Function,
}

impl Work {
    fn new(fixture: &Fixture) -> Self {
        let stream = new_stream(&fixture.context);
        let (from, to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
        stream.synchronize().unwrap();
        Self {
            stream,
            from,
            to,
            copy: fixture.kernel(COPY, "copy"),
            fatal: fixture.kernel(FATAL, "beyond"),
        }
    }

    fn launch_fatal(&mut self) {
        let config = LaunchConfig::new(1, 1);
        // SAFETY: none: the kernel loses the device on purpose.
        unsafe { self.stream.launch(&self.fatal, config, (&mut self.to,)) }.unwrap();
    }

    fn launch_copy(&mut self) -> Result<(), Error> {
        launch_copy(&self.copy, &self.stream, &self.from, &mut self.to)
    }
}

/// Asserts that an error reports a lost device, and exactly these launches, latest first.
fn assert_suspects(error: &Error, stream: &Stream, expected: &[&str]) {
    println!("note: {error}");
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_ILLEGAL_ADDRESS));
    let loss = error.loss().unwrap();
    let [launches] = loss.launches() else {
        panic!("expected launches of one stream: {loss}")
    };
    assert!(launches.are_of(stream));
    let names: Vec<_> = launches.kernels().collect();
    assert_eq!(names, expected);
}

#[test]
fn a_copy_reports_the_kernel_before_it() {
    in_processes("fatal_kinds::child_with_a_copy");
}

/// The copy waits for the kernel. It reports the fault, and is not a launch.
#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_with_a_copy() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let mut work = Work::new(&fixture);
    let other = new_stream(&fixture.context);
    let fine = filled(&other, 64, 3);
    fine.to_vec().unwrap();
    work.launch_copy().unwrap();
    work.launch_fatal();
    let mut words = [0; 64];
    let error = work.to.copy_to_host(&mut words).unwrap_err();
    assert_suspects(&error, &work.stream, &["beyond", "copy"]);
    // A copy of other memory, on another stream, names the same launches.
    let error = fine.copy_to_host(&mut words).unwrap_err();
    assert_suspects(&error, &work.stream, &["beyond", "copy"]);
}

#[test]
fn a_fault_in_a_graph_node_names_the_graph() {
    in_processes("fatal_kinds::child_with_a_graph");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_with_a_graph() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let mut work = Work::new(&fixture);
    let (mut graph, config) = (
        Graph::new(&fixture.context).unwrap(),
        LaunchConfig::new(1, 1),
    );
    let args = (&work.from, &mut work.to, 64_u32);
    // SAFETY: the kernel reads 64 words of `from`, and writes as many of `to`.
    unsafe { graph.add_kernel(&[], &work.copy, config, args) }.unwrap();
    // SAFETY: none: the kernel loses the device on purpose.
    unsafe { graph.add_kernel(&[], &work.fatal, config, (&mut work.to,)) }.unwrap();
    let exec = graph.instantiate().unwrap();
    // What is complete is not named.
    work.launch_copy().unwrap();
    work.stream.synchronize().unwrap();
    exec.launch(&work.stream).unwrap();
    let error = work.stream.synchronize().unwrap_err();
    assert_suspects(&error, &work.stream, &["a graph (copy, beyond)"]);
}

#[test]
fn a_host_function_after_a_fault_names_the_kernel() {
    in_processes("fatal_kinds::child_with_a_host_function");
}

#[test]
#[ignore = "loses the device: runs in its own process"]
fn child_with_a_host_function() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let mut work = Work::new(&fixture);
    work.launch_fatal();
    let has_run = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_run);
    // If the device is lost already, the function cannot be queued.
    let queued = work
        .stream
        .launch_host(move || flag.store(true, Ordering::Relaxed));
    let error = queued.and_then(|token| token.wait()).unwrap_err();
    assert_suspects(&error, &work.stream, &["beyond"]);
    assert!(
        !has_run.load(Ordering::Relaxed),
        "the function ran after the fault"
    );
}

#[test]
fn a_panic_in_a_host_function_loses_no_device() {
    in_processes("fatal_kinds::child_with_a_panic");
}

#[test]
#[ignore = "panics on a thread of the driver: runs in its own process"]
fn child_with_a_panic() {
    let Some(fixture) = child_of(Builder::new()) else {
        return;
    };
    let mut work = Work::new(&fixture);
    work.launch_copy().unwrap();
    let token = work.stream.launch_host(|| panic!("on purpose")).unwrap();
    let error = token.wait().unwrap_err();
    assert!(matches!(&error, Error::HostFunctionPanicked { message } if message == "on purpose"));
    assert!(error.loss().is_none());
    work.launch_copy().unwrap();
    assert_eq!(work.to.to_vec().unwrap(), [1; 64]);
}
