//! Runs the programs, with their files in a temporary folder.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is a part of tests, which panic if the machine cannot run them"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::Refused;

/// How long an assembler may run.
const LIMIT: Duration = Duration::from_secs(60);

/// A temporary folder, which is removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        // Tests of one process run at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-assembler-{}-{count}", process::id());
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{path:?}: {error}"));
}

/// Runs an assembler until it ends, or until its time is over.
pub(crate) fn run(mut command: Command, folder: &Folder) -> Refused {
    // What it writes goes to a file, so that it never waits for a reader.
    let log = folder.path("stderr");
    let file = File::create(&log).unwrap_or_else(|error| panic!("{log:?}: {error}"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file);
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    let mut timed_out = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            timed_out = true;
            let _ = child.kill();
            break child.wait().unwrap();
        }
        thread::sleep(pause);
        pause = (pause * 5 / 4).min(Duration::from_millis(20));
    };
    let stderr = fs::read(&log).unwrap_or_default();
    Refused {
        status,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        timed_out,
    }
}

/// Runs a program that must succeed, and returns what it prints.
pub(crate) fn output(mut command: Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
