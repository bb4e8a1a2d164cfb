//! The Python scripts that tasks run.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{read, root};

/// Returns a command that runs Python, or `None` if the test has to be skipped.
fn python() -> Option<Command> {
    if Command::new("python3").arg("--version").output().is_err() {
        test_needs::skip("python3 is missing");
        return None;
    }
    Some(Command::new("python3"))
}

/// Returns a command that runs Python 3.11 or newer, which reads TOML.
fn new_python() -> Option<Command> {
    let is_new = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"];
    if !python()?.args(is_new).status().ok()?.success() {
        test_needs::skip("Python 3.11 or newer is missing");
        return None;
    }
    python()
}

/// A test program with the tests `a::good`, `a::bad` and `ui::skipped`, of which one fails.
const PROGRAM: &str = r#"#!/bin/sh
if [ "$1" = --list ]; then
    printf 'a::good: test\na::bad: test\nui::skipped: test\n'
elif [ "$*" = "--exact a::good a::bad" ]; then
    printf 'test a::good ... ok\ntest a::bad ... FAILED\ntest result: FAILED. 1 passed; 1 failed\n'
    exit 101
fi
"#;

/// Runs `runner.py` with the test program `text`.
fn runner(dir: &TempDir, text: &str) -> Option<Output> {
    let mut python = python()?;
    let program = dir.path().join("program");
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    python
        .arg(root().join("xtask/platforms/runner.py"))
        .arg("sh")
        .arg(&program);
    python
        .env("XTASK_SUITE", "arm")
        .env("XTASK_LOGS", dir.path());
    python.env("CARGO_PKG_NAME", "cuda-driver").output().ok()
}

#[test]
fn the_examples_in_scripts_are_correct() {
    for script in [
        "crates/cuda-driver/tests/mutants/run.py",
        "crates/cuda-ptx/tests/breaks/run.py",
        "fuzz/run.py",
        "xtask/dist/binary.py",
        "xtask/dist/check.py",
        "xtask/platforms/run.py",
        "xtask/platforms/runner.py",
    ] {
        let Some(python) = python() else { return };
        check_examples(python, script);
    }
}

/// Runs the examples in the comments of a script, and checks that there are some.
fn check_examples(mut python: Command, script: &str) {
    python
        .args(["-B", "-m", "doctest", "-v"])
        .arg(root().join(script));
    let output = python.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{script}: {said}");
    let is_empty = said.lines().any(|line| line.starts_with("0 tests"));
    assert!(!is_empty, "{script} has no examples: {said}");
}

/// Also reads every entry.
#[test]
fn the_tables_of_other_suites_are_current() {
    let Some(mut check) = new_python() else {
        return;
    };
    let script = root().join("crates/cuda-sim-cdylib/programs/run.py");
    check.arg("-B").arg(script).args(["--table", "check"]);
    let output = check.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn outcomes_of_other_suites_are_compared() {
    for script in ["checkouts.py", "python_suite.py", "suite.py"] {
        let Some(python) = new_python() else { return };
        check_examples(python, &format!("crates/cuda-sim-cdylib/programs/{script}"));
    }
}

#[test]
fn the_runner_reports_failed_and_skipped_tests() {
    let dir = tempfile::tempdir().unwrap();
    let Some(output) = runner(&dir, PROGRAM) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    let expected = "a::good a::bad: exit status 101\n  test a::bad ... FAILED\n\
                    cuda-driver program: 1 passed, 1 processes failed, 1 skipped\n  \
                    skipped: ui:: runs cargo, not the library\n";
    assert_eq!(said, expected);
    let log = fs::read_to_string(dir.path().join("cuda-driver-program.txt")).unwrap();
    assert!(log.contains("1 passed; 1 failed"), "{log}");
}

#[test]
fn the_runner_succeeds_if_all_tests_pass() {
    let dir = tempfile::tempdir().unwrap();
    let passing = PROGRAM.replace("exit 101", "exit 0");
    let output = runner(&dir, &passing);
    assert!(output.is_none_or(|output| output.status.success()));
}

#[test]
fn each_skip_names_tests_that_exist() {
    let skips = fs::read_to_string(root().join("xtask/platforms/skips.txt")).unwrap();
    for line in skips.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.splitn(4, ' ').collect();
        let &[_, package, test, _] = columns.as_slice() else {
            panic!("a column is missing: {line}")
        };
        let mut sources = String::new();
        read(&root().join("crates").join(package), &mut sources);
        let mut words = test.split("::").filter(|word| !word.is_empty());
        let exists = words.all(|word| {
            ["fn", "mod"]
                .iter()
                .any(|item| sources.contains(&format!("{item} {word}")))
        });
        assert!(exists, "{package} has no test {test}");
    }
}
