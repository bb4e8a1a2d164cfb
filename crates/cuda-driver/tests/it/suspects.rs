//! The launches that the report of a lost device names, for faults in each kind of work.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cuda_driver::error::{Category, DeviceLoss, Error, Status};
use cuda_driver::prelude::*;

use crate::support::{COPY, Fixture, block, filled, late, launch_copy, software};

const TRAP: &str = include_str!("kernels/trap.ptx");

/// Returns the names of the launches in the report, stream by stream.
fn suspects(loss: &DeviceLoss) -> Vec<Vec<String>> {
    let streams = loss.launches().iter();
    let mut lists: Vec<_> = streams
        .map(|it| it.kernels().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lists.sort();
    lists
}

/// A late software device with a kernel that traps, and a copy that is complete.
fn fixture() -> (Fixture, Stream, Function) {
    let fixture = software(late(7));
    let stream = fixture.stream();
    let copy = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
    launch_copy(&copy, &stream, &from, &mut to).unwrap();
    fixture.context.synchronize().unwrap();
    let trap = fixture.kernel(TRAP, "late_trap");
    (fixture, stream, trap)
}

fn launch_trap(trap: &Function, stream: &Stream) {
    // SAFETY: the kernel touches no memory. It traps, which loses the software device.
    unsafe { stream.launch(trap, LaunchConfig::new(1, 1), (10_u64,)) }.unwrap();
}

#[test]
fn a_fault_in_a_kernel_names_only_launches_in_flight() {
    let (fixture, stream, trap) = fixture();
    launch_trap(&trap, &stream);
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.category(), Category::Kernel);
    // The copy was complete before.
    assert_eq!(suspects(&error.loss().unwrap()), [["late_trap"]]);
    drop(fixture);
}

#[test]
fn a_fault_in_a_graph_node_names_the_graph() {
    let (fixture, stream, trap) = fixture();
    let copy = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
    let mut graph = Graph::new(&fixture.context).unwrap();
    let config = LaunchConfig::new(1, 64);
    // SAFETY: the kernel copies 64 words, and both buffers have 64.
    let first = unsafe { graph.add_kernel(&[], &copy, config, (&from, &mut to, 64_u32)) }.unwrap();
    // SAFETY: the kernel touches no memory. It traps, which loses the software device.
    unsafe { graph.add_kernel(&[first.edge()], &trap, LaunchConfig::new(1, 1), (10_u64,)) }
        .unwrap();
    let exec = graph.instantiate().unwrap();
    stream.synchronize().unwrap();
    exec.launch(&stream).unwrap();
    let error = stream.synchronize().unwrap_err();
    let [names] = &suspects(&error.loss().unwrap())[..] else {
        panic!("{error}")
    };
    let [name] = &names[..] else {
        panic!("{error}")
    };
    assert!(
        name.starts_with("a graph (") && name.contains("late_trap"),
        "{name}"
    );
}

/// The device fails during a copy. The report names the call that returned the error, and the
/// launches that were in flight.
#[test]
fn a_fault_in_a_copy_names_the_call_and_launches() {
    let (fixture, stream, _) = fixture();
    let copy = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
    stream.synchronize().unwrap();
    let gate = block(&stream);
    launch_copy(&copy, &stream, &from, &mut to).unwrap();
    to.as_mut_slice().copy_from_on(&from, &stream).unwrap();
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.lose_device(0, Status::CUDA_ERROR_ECC_UNCORRECTABLE);
    drop(gate);
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.category(), Category::Hardware);
    let loss = error.loss().unwrap();
    assert_eq!(loss.call().base, "cuStreamSynchronize");
    assert_eq!(suspects(&loss), [["copy"]]);
    assert!(error.advice().is_some(), "{error}");
}

/// A panic in a host function is an error of that call only.
#[test]
fn a_panic_in_a_host_function_names_no_launch() {
    let (fixture, stream, _) = fixture();
    let call = stream.launch_host(|| panic!("no more data")).unwrap();
    let error = call.wait().unwrap_err();
    assert_eq!(error.category(), Category::HostFunction);
    assert!(error.to_string().contains("no more data") && error.loss().is_none());
    assert!(!error.is_sticky());
    fixture.context.synchronize().unwrap();
}

#[test]
fn a_host_function_after_a_fault_reports_the_kernel() {
    let (_fixture, stream, trap) = fixture();
    let is_run = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_run);
    launch_trap(&trap, &stream);
    let call = stream.launch_host(move || flag.store(true, Ordering::SeqCst));
    let error: Error = call.unwrap().wait().unwrap_err();
    assert_eq!(suspects(&error.loss().unwrap()), [["late_trap"]]);
    assert!(!is_run.load(Ordering::SeqCst));
}

#[test]
fn the_launches_of_16_threads_are_all_named() {
    const THREADS: usize = 16;
    let (fixture, stream, trap) = fixture();
    let gate = block(&stream);
    let start = Barrier::new(THREADS);
    // A kernel that is dropped waits for its launches.
    let kept: Vec<(Stream, Function)> = thread::scope(|scope| {
        let launches = |at: usize| {
            let (fixture, start) = (&fixture, &start);
            move || {
                let name = format!("kernel_{at}");
                let kernel = fixture.kernel(&TRAP.replace("late_trap", &name), &name);
                let stream = fixture.stream();
                start.wait();
                for _ in 0..=at {
                    launch_trap(&kernel, &stream);
                }
                (stream, kernel)
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|at| scope.spawn(launches(at))).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    launch_trap(&trap, &stream);
    drop(gate);
    let error = stream.synchronize().unwrap_err();
    let mut expected: Vec<_> = (0..THREADS)
        .map(|at| vec![format!("kernel_{at}"); at + 1])
        .chain([vec!["late_trap".to_owned()]])
        .collect();
    expected.sort();
    assert_eq!(suspects(&error.loss().unwrap()), expected);
    drop(kept);
}
