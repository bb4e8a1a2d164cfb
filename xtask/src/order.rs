//! `full planted`: injected faults in the hazard tracking across streams, which random programs
//! must find.

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const TESTS: [&str; 7] = [
    "test",
    "--release",
    "-p",
    "cuda-driver",
    "--test",
    "it",
    "random_programs",
];

/// The faults of `crates/cuda-driver/src/planted.rs`.
const FAULTS: [&str; 21] = [
    "WriterNotAwaited",
    "ReaderLost",
    "ReadersNotAwaited",
    "FreedTooEarly",
    "FreedOnOtherStream",
    "WaitedKept",
    "LateUseLost",
    "PartWriteLost",
    "HomeTailIgnored",
    "CrossedReset",
    "EventOnOtherStream",
    "CopySourceLost",
    "OthersForgotten",
    "HandedOverTooEarly",
    "NoCheckpoint",
    "EpochNotKept",
    "PerThreadAsOne",
    "PerThreadLate",
    "DirtyIgnored",
    "ReplayNotNoted",
    "HeldIgnored",
];

/// Runs all random programs with each injected fault, which some program must detect. Without a
/// fault, all programs must pass.
pub(crate) fn planted(workspace: &Workspace) -> Result<()> {
    // A separate target folder, because the usual builds would otherwise be rebuilt each time.
    let target = workspace.target.join("planted-check");
    let run = |fault: Option<&str>| {
        let mut command = workspace.cargo(TESTS);
        command
            .args(["--", "--nocapture"])
            // Without a fault, the reduced number suffices: `full order` runs all programs.
            .env("CUDA_FULL", if fault.is_some() { "1" } else { "0" })
            .env("CUDA_DRIVER_PLANTED", fault.unwrap_or_default())
            .env("RUST_BACKTRACE", "0")
            .env("RUSTFLAGS", "--cfg cuda_driver_planted")
            .env("CARGO_TARGET_DIR", &target);
        command.output()
    };
    let output = run(None)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        bail!("the random programs fail without an injected fault:\n{said}");
    }
    let mut missed = Vec::new();
    for fault in FAULTS {
        let output = run(Some(fault))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let found = said.lines().find_map(|line| {
            let (seed, _) = line.strip_prefix("CUDA_SEED=")?.split_once(' ')?;
            Some(seed)
        });
        match found {
            Some(seed) if !output.status.success() => {
                println!("{fault:<20} found by program {seed}");
            }
            _ => {
                println!("{fault:<20} NOT FOUND");
                missed.push(fault);
            }
        }
    }
    if !missed.is_empty() {
        bail!("no random program detects {}", missed.join(", "));
    }
    println!("{} of {} faults found", FAULTS.len(), FAULTS.len());
    Ok(())
}
