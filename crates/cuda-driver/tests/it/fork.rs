//! Child processes that were forked after the driver was loaded.

use std::env;
use std::ffi::c_int;
use std::process::Command;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{filled, software};

// SAFETY: the declarations must be those of the C library ← POSIX defines them in this way.
unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

const WNOHANG: c_int = 1;

#[test]
fn a_forked_child_fails_at_once_and_frees_nothing() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .arg("fork::fork_with_a_driver")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{why}");
    assert!(text.contains("the child has ended"), "{text}{why}");
}

/// Returns the number of the first wrong result in the child, or 0.
fn child(fixture: crate::support::Fixture, buffer: DeviceBuffer<u32>, stream: Stream) -> c_int {
    let is_forked = |error: Error| {
        let text = error.to_string();
        let is_named = text.contains("was forked after the CUDA driver was loaded");
        is_named && error.status() == Some(Status::CUDA_ERROR_NOT_INITIALIZED)
    };
    if !buffer.to_vec().is_err_and(is_forked) {
        return 1;
    }
    if !stream.synchronize().is_err_and(is_forked) {
        return 2;
    }
    if !DeviceBuffer::<u32>::zeroed(&stream, 4).is_err_and(is_forked) {
        return 3;
    }
    if !fixture.context.driver().devices().is_err_and(is_forked) {
        return 4;
    }
    drop((buffer, stream, fixture));
    // A driver that is created after the fork works.
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let sevens = filled(&stream, 4, 7).to_vec();
    c_int::from(sevens.ok() != Some(vec![7; 4])) * 5
}

#[test]
#[ignore = "run by a_forked_child_fails_at_once_and_frees_nothing, in its own process"]
fn fork_with_a_driver() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let buffer = filled(&stream, 1000, 3);
    assert_eq!(buffer.to_vec().unwrap(), [3; 1000]);
    // SAFETY: the child must do only what is allowed after a fork of a process with threads ← no
    // other thread of this process holds a lock that the child takes: the device is idle, and one
    // test runs.
    let process = unsafe { fork() };
    assert!(process >= 0);
    if process == 0 {
        let status = child(fixture, buffer, stream);
        // SAFETY: the call has no conditions.
        unsafe { _exit(status) };
    }
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the pointer must be writable ← it is to a local.
        let ended = unsafe { waitpid(process, &raw mut status, WNOHANG) };
        if ended == process {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "the child hangs");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(status, 0, "the child ended with the status {}", status >> 8);
    // The parent still uses the driver.
    assert_eq!(buffer.to_vec().unwrap(), [3; 1000]);
    println!("the child has ended");
}
