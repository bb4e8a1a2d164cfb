//! `valgrind`: runs the tests under valgrind, except for tests that would take too long.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;

use crate::need::{self, Install, Need};
use crate::sanitize;
use crate::suite::{Skip, Suite};
use crate::workspace::Workspace;

/// Options of `valgrind`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    install: Install,
}

/// Tests whose amount of work takes too long under valgrind.
const SLOW: [(&str, &str); 9] = [
    ("cuda-driver", "faults::a_call"),
    ("cuda-driver", "random_"),
    ("cuda-driver", "leaks::"),
    ("cuda-driver", "signatures::"),
    ("cuda-driver", "staging::"),
    ("cuda-driver", "nvrtc::"),
    ("cuda-driver", "lto::"),
    ("cuda-sim", "random"),
    ("cuda-sim", "vm::tests::"),
];

/// Tests of virtual memory.
const VIRTUAL: [(&str, &str); 3] = [
    ("cuda-sim", "virtual_"),
    ("cuda-sim", "what_is_a_devices_is_not_registered"),
    ("cuda-driver", "the_software_device_answers_what_a_gpu_does"),
];

/// Tests that fail because of valgrind itself.
const OWN: [Skip; 2] = [
    Skip {
        package: "cuda-driver",
        test: "comparisons",
        why: "valgrind computes AVX's ordered `!=` and unordered `==` of NaNs wrong",
    },
    Skip {
        package: "cuda-driver",
        test: "a_lost_device_releases_host_functions",
        why: "its host functions have run before the device is lost",
    },
];

/// `cargo xtask valgrind`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let valgrind = Need {
        what: "valgrind",
        found: need::program("valgrind").is_some(),
        install: &["apt-get", "install", "-y", "valgrind"],
    };
    need::meet(&[valgrind], options.install.install)?;
    let mut skips = sanitize::SKIPS.to_vec();
    skips.extend(SLOW.map(|(package, test)| Skip {
        package,
        test,
        why: "takes too long under valgrind",
    }));
    skips.extend(VIRTUAL.map(|(package, test)| Skip {
        package,
        test,
        why: "reserves 128 GiB of address space, more than valgrind has",
    }));
    skips.extend(OWN);
    let words = [
        "valgrind",
        "--error-exitcode=99",
        "--leak-check=no",
        "--fair-sched=yes",
        // The longest basic blocks of the interpreter exceed what valgrind can translate at once.
        "--vex-guest-max-insns=20",
        "--quiet",
    ];
    let suite = Suite {
        name: "valgrind".to_owned(),
        packages: ["cuda-sys", "cuda-sim", "cuda-driver"]
            .map(str::to_owned)
            .to_vec(),
        runner: words.map(OsString::from).to_vec(),
        // NVRTC is hidden: its tests take minutes, and valgrind reports that glibc's loader reads
        // beyond the end of NVRTC's paths.
        env: vec![
            ("CUDA_FULL", "0".into()),
            ("RAYON_NUM_THREADS", "2".into()),
            ("CUDA_NVRTC_LIBRARY", "none-for-valgrind.so".into()),
            ("CUDA_TEST_NVRTC_DIR", "".into()),
        ],
        skips,
        // Errors are detected by the exit code 99.
        finding: None,
        limit: Duration::from_secs(2700),
        threads: 1,
        ..Suite::default()
    };
    suite.run(workspace)
}
