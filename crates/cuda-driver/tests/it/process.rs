//! Runs tests that lose the device, each in its own process, which cannot use the device
//! afterwards.

use std::env;
use std::process::Command;

use cuda_sim::{Builder, Schedule};

use crate::support::{Fixture, gpu, software};

/// The device of a child process: `eager`, `late` or `gpu`.
const WHERE: &str = "CUDA_DRIVER_TEST_LOSE";

/// Runs an ignored test of this binary on every kind of device, in one process for each.
pub(crate) fn in_processes(child: &str) {
    let has_gpu = gpu().is_some();
    for device in ["eager", "late", "gpu"] {
        if device == "gpu" && !has_gpu {
            continue;
        }
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
                child,
            ])
            .env(WHERE, device)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{device}: {text}{why}");
        assert!(text.contains("1 passed"), "{device}: {text}");
        let notes = text.lines().filter(|line| line.starts_with("note: "));
        notes.for_each(|line| println!("{device}: {line}"));
    }
}

/// Returns the device of this child process, configured by `builder` if it is a software device;
/// `None` in a process that is not a child.
pub(crate) fn child_of(builder: Builder) -> Option<Fixture> {
    match env::var(WHERE).ok()?.as_str() {
        "eager" => Some(software(builder)),
        "late" => Some(software(builder.schedule(Schedule::Late { seed: 3 }))),
        _ => gpu(),
    }
}
