//! Runs a test of this program in its own process.

use std::env;
use std::process::Command;

/// Returns a command that runs the ignored test `test` in a new process.
pub(crate) fn ignored(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

/// Runs the ignored test `test` in a new process, whose command `set_up` may change. Returns its
/// output.
pub(crate) fn run_ignored(test: &str, set_up: impl FnOnce(&mut Command)) -> String {
    let mut command = ignored(test);
    set_up(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &*String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    assert!(text.contains("1 passed"), "{text}");
    text
}
