//! The scripts of `cargo xtask dist`, with programs that only pretend to be a compiler and cargo.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::root;

const ARM: &str = "aarch64-unknown-linux-gnu";

/// A machine with Python, whose search path is the folder `bin`. It has a Rust compiler without a
/// standard library for Arm, and a cargo that writes its arguments and builds nothing.
struct Machine {
    folder: TempDir,
    python: PathBuf,
}

impl Machine {
    /// Returns `None` if the test has to be skipped.
    fn new() -> Option<Machine> {
        let ask = ["-c", "import sys; print(sys.executable)"];
        let Ok(asked) = Command::new("python3").args(ask).output() else {
            test_needs::skip("python3 is missing");
            return None;
        };
        let python = String::from_utf8(asked.stdout).unwrap();
        let machine = Machine {
            folder: tempfile::tempdir().unwrap(),
            python: PathBuf::from(python.trim()),
        };
        let sysroot = machine.folder.path().display();
        let compiler = format!(
            "[ $1 = -vV ] && echo 'host: x86_64-unknown-linux-gnu' || echo {sysroot}/sysroot"
        );
        machine.program("rustc", &compiler);
        machine.program(
            "cargo",
            &format!("echo $RUSTC_BOOTSTRAP $* > {sysroot}/called"),
        );
        Some(machine)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a shell script to the search path.
    fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::create_dir_all(self.path("bin")).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn add_source(&self) {
        let source = self.path("sysroot/lib/rustlib/src/rust/library/std");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("Cargo.toml"), "").unwrap();
    }

    /// Builds packages for Arm. Returns the output, and the arguments of cargo.
    fn build(&self, arguments: &[&str]) -> (Output, String) {
        let mut build = Command::new(&self.python);
        build.arg("-B").arg(root().join("xtask/dist/build.py"));
        build.arg("--target").arg(self.path("target"));
        build.args(arguments).env("PATH", self.path("bin"));
        build.env_remove("RUSTC").env_remove("RUSTC_BOOTSTRAP");
        let output = build.output().unwrap();
        let called = fs::read_to_string(self.path("called")).unwrap_or_default();
        (output, called)
    }
}

#[test]
fn a_missing_tool_is_named_with_its_command() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let missing = |expected: &str| {
        let (output, called) = machine.build(&["--only", ARM, "--check"]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
        assert_eq!((output.status.code(), called.as_str()), (Some(1), ""));
    };
    missing(
        "Rust's standard library for aarch64-unknown-linux-gnu is missing; install it with \
         `rustup target add aarch64-unknown-linux-gnu`\n",
    );
    machine.add_source();
    missing(
        "the C compiler aarch64-linux-gnu-gcc is missing; install it with \
         `apt-get install gcc-aarch64-linux-gnu`\n",
    );
    machine.program("aarch64-linux-gnu-gcc", "");
    missing(
        "qemu-aarch64 is missing; install it with \
         `apt-get install --no-install-recommends qemu-user`\n",
    );
}

#[test]
fn targets_that_cannot_be_built_are_skipped() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let (output, called) = machine.build(&[]);
    // The build for this machine starts first, and fails because its library does not exist.
    assert!(!output.status.success());
    assert!(called.contains("--package cuda-sim-cdylib") && !called.contains("--target"));
    // The host is another machine now.
    machine.program(
        "rustc",
        &format!("[ $1 = -vV ] && echo 'host: other' || echo {ARM}"),
    );
    let (output, _) = machine.build(&[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(
        said.matches(": skipped: Rust's standard library").count(),
        3,
        "{said}"
    );
}

#[test]
fn a_missing_standard_library_is_built_from_source() {
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.program("aarch64-linux-gnu-gcc", "");
    machine.add_source();
    let (_, called) = machine.build(&["--only", ARM]);
    assert!(called.starts_with("1 build --locked"), "{called}");
    for part in [
        "-Zbuild-std",
        "--target aarch64-unknown",
        "strip=\"symbols\"",
    ] {
        assert!(called.contains(part), "{called}");
    }
    fs::create_dir(machine.path("sysroot/lib/rustlib").join(ARM)).unwrap();
    let (_, called) = machine.build(&["--only", ARM]);
    assert!(called.starts_with("build --locked"), "{called}");
    assert!(!called.contains("-Zbuild-std"), "{called}");
}

/// Runs Python with the folders as `PYTHONPATH`.
fn start_python(machine: &Machine, folders: &[&Path]) -> Output {
    let mut python = Command::new(&machine.python);
    python.args(["-B", "-c", "print('main')"]);
    let path = std::env::join_paths(folders).unwrap();
    python.env("PYTHONPATH", path).output().unwrap()
}

#[test]
fn python_on_windows_starts_without_the_library() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let (own, other) = (machine.path("lib/python"), machine.path("other"));
    fs::create_dir_all(&own).unwrap();
    fs::create_dir(&other).unwrap();
    let name = "sitecustomize.py";
    fs::copy(root().join("xtask/dist").join(name), own.join(name)).unwrap();
    let output = start_python(&machine, &[&own]);
    assert_eq!(output.stdout, b"main\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("cuda-sim: cannot load "), "{said}");
    // A module of the same name in a later folder runs, too.
    fs::write(other.join(name), "print('other')").unwrap();
    let output = start_python(&machine, &[&own, &other]);
    assert_eq!(output.stdout, b"other\nmain\n");
}
