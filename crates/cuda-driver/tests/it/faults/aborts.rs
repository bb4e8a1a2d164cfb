//! Failures that end the process, because borrowed memory that a copy may still use cannot be kept
//! alive.

use std::env;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_driver::context::LivenessToken;
use cuda_driver::error::Status;
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use cuda_sys::calls;

use super::fixture::{Fault, run};
use super::scenarios;
use crate::support::software;

/// Environment variable that holds the name of the test in a child process that ends.
const CHILD: &str = "CUDA_DRIVER_TEST_ABORTS";

/// Runs `child` and returns its exit status and its stderr output. Unless `heard`, the pipe is
/// closed at once, so that the child's messages cannot be written.
fn ended(child: &str, heard: bool) -> (ExitStatus, String) {
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", child, "--ignored", "--nocapture"])
        .env(CHILD, child)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut why = String::new();
    let mut text = process.stderr.take().unwrap();
    if heard {
        text.read_to_string(&mut why).unwrap();
    }
    drop(text);
    (process.wait().unwrap(), why)
}

/// Returns whether this process is the child named `child`.
fn is(child: &str) -> bool {
    env::var_os(CHILD).is_some_and(|name| name == child)
}

const WAIT: &str = "faults::aborts::a_wait_that_fails";
const TOKEN: &str = "faults::aborts::a_token_that_panics";
const ABORT: &str = "faults::aborts::an_abort";

/// Returns the exit status of an aborted process.
fn aborted() -> ExitStatus {
    ended(ABORT, true).0
}

#[test]
fn a_scope_that_cannot_be_waited_for_ends_the_process() {
    let (status, why) = ended(WAIT, true);
    assert_eq!(status, aborted(), "{why}");
    assert!(why.contains("copies of borrowed memory"), "{why}");
    assert_eq!(ended(WAIT, false).0, status);
}

#[test]
fn a_token_that_panics_ends_the_process() {
    let (status, why) = ended(TOKEN, true);
    assert_eq!(status, aborted(), "{why}");
    assert!(why.contains("the token panics"), "{why}");
}

#[test]
#[ignore = "ends the process: runs in its own process"]
fn an_abort() {
    if is(ABORT) {
        std::process::abort();
    }
}

#[test]
#[ignore = "ends the process: runs in its own process"]
fn a_wait_that_fails() {
    if !is(WAIT) {
        return;
    }
    let scenario = scenarios::all().into_iter().find(|it| it.name == "scope");
    let fault = Fault {
        call: calls::cuStreamSynchronize,
        nth: 1,
        is_last: false,
        status: Status::CUDA_ERROR_UNKNOWN,
    };
    run(scenario.unwrap(), Some(&fault));
}

struct Panics(AtomicBool);

impl LivenessToken for Panics {
    fn is_alive(&self) -> bool {
        assert!(!self.0.load(Ordering::SeqCst), "the token panics");
        true
    }
}

#[test]
#[ignore = "ends the process: runs in its own process"]
fn a_token_that_panics() {
    if !is(TOKEN) {
        return;
    }
    let fixture = software(Builder::new());
    let driver = fixture.context.driver();
    let mut raw = ptr::null_mut();
    let device = fixture.context.device().as_raw();
    // SAFETY: the pointer is to a local.
    let status = unsafe { driver.library().cuCtxCreate_v2(&raw mut raw, 0, device) };
    assert_eq!(status, Status::CUDA_SUCCESS);
    let token = Arc::new(Panics(AtomicBool::new(false)));
    // SAFETY: the context is never destroyed.
    let context = unsafe { Context::borrow_raw(driver, raw, Arc::clone(&token) as _) }.unwrap();
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
    let buffer = DeviceBuffer::from_host(&stream, &[7_u32; 100]).unwrap();
    let mut pinned =
        PinnedBuffer::<u32>::zeroed(&fixture.context, 100, PinnedFlags::empty()).unwrap();
    let copied = stream.copy_scope(|scope| {
        scope.copy_to_host(buffer.as_slice(), &mut pinned)?;
        token.0.store(true, Ordering::SeqCst);
        Ok(())
    });
    panic!("the scope was left: {copied:?}");
}
