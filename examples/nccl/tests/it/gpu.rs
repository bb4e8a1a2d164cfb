//! The program on GPUs, with NCCL.

use std::process::Command;
use std::time::Duration;

use cuda_driver::Driver;
use test_needs::{found, skip};

use crate::support::{Process, REAL, command, has_nvrtc};

/// Returns whether there are two GPUs and NCCL. If not, reports that the test is skipped.
#[track_caller]
fn has_gpus() -> bool {
    let Some(driver) = found("a driver", Driver::load()) else {
        return false;
    };
    let count = driver.devices().map_or(0, |devices| devices.len());
    if count < 2 {
        skip("it needs two GPUs");
        return false;
    }
    found("NCCL", nccl::Nccl::find()).is_some() && has_nvrtc()
}

/// Returns the program with NVLink multicast switched off: it changes the state of the switches.
fn program(arguments: &str) -> Command {
    let mut command = command(REAL, arguments);
    command.env("NCCL_NVLS_ENABLE", "0");
    command
}

#[test]
fn training_on_two_gpus_matches_the_host() {
    if !has_gpus() {
        return;
    }
    for arguments in ["train --gpus 2", "launch --processes 2 train"] {
        let (status, text) = Process::start(program(arguments)).end(Duration::from_secs(60));
        assert!(status.success(), "{arguments}: {status}\n{text}");
        assert!(text.contains("verified, 2 ranks"), "{arguments}:\n{text}");
    }
}
