//! The one failure that ends the process: borrowed memory that a copy may still use cannot be kept.

use std::env;
use std::process::Command;

use cuda_driver::Status;
use cuda_sys::calls;

use super::rig::{Fault, run};
use super::scenarios;

/// Set in the process that ends.
const CHILD: &str = "CUDA_DRIVER_TEST_ABORTS";

#[test]
fn a_scope_that_cannot_be_waited_for_ends_the_process() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "faults::aborts::child", "--ignored"])
        .arg("--nocapture")
        .env(CHILD, "1")
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{why}");
    assert!(why.contains("copies of borrowed memory"), "{why}");
}

#[test]
#[ignore = "it ends the process: in one of its own"]
fn child() {
    if env::var_os(CHILD).is_none() {
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
