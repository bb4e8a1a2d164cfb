//! The errors of a machine without NVRTC and without a driver.
//!
//! A copy of this program, in a folder where no setup is found, runs one ignored test with an empty
//! environment, so that it does not find the NVRTC of the other tests.

use std::env;
use std::fs;
use std::process::Command;

use cuda_driver::nvrtc::CompileError;
use cuda_driver::prelude::*;

/// The line before the text in the output of the copy.
const START: &str = "the error without a library:\n";
/// The line after the text.
const END: &str = "\nthe end of the error";
/// The text of the system's loader, which is that of the C library.
const LOADER: &str = ": cannot open shared object file: No such file or directory";

/// Returns the text that a test prints, or reports a skipped test if this machine has the library
/// for all programs.
pub(crate) fn text(test: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("mistakes");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new(&program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env_clear()
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = printed.split_once(START)?;
    let (text, _) = rest.split_once(END)?;
    if text.is_empty() {
        test_needs::skipped(&format!(
            "{test}: this machine has the library for all programs"
        ));
        return None;
    }
    Some(text.replace(LOADER, ": not found"))
}

#[test]
#[ignore = "`every_mistake_has_its_text` runs it with an empty environment"]
fn prints_the_error() {
    let simulator = cuda_sim::Builder::new().build().unwrap();
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let text = match Module::from_source(&context, "__global__ void k() {}") {
        Err(CompileError::Nvrtc(error @ cuda_nvrtc::Error::Load(_))) => error.to_string(),
        _ => String::new(),
    };
    println!("{START}{text}{END}");
}

#[test]
#[ignore = "`every_mistake_has_its_text` runs it with an empty environment"]
fn prints_the_error_of_the_driver() {
    let text = match Driver::load() {
        Err(cuda_driver::Error::Load(error)) => error.to_string(),
        _ => String::new(),
    };
    println!("{START}{text}{END}");
}
