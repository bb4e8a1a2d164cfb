//! `arm`: the tests of the workspace for 64-bit Arm, run by `qemu-aarch64`.

use std::time::Duration;

use anyhow::Result;

use crate::need::{self, Install, Need};
use crate::suite::{PACKAGES, Skip, Suite};
use crate::workspace::Workspace;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Where the C library for Arm lies.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Options of `arm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    install: Install,
    /// Only these packages
    #[arg(long, short, value_delimiter = ',', value_name = "PACKAGE")]
    package: Vec<String>,
}

/// What does not run there.
const SKIPS: [Skip; 4] = [
    Skip {
        package: "cuda-driver",
        test: "ui::",
        why: "runs cargo, which is not there for Arm",
    },
    Skip {
        package: "cuda-sys",
        test: "c_compiler::",
        why: "runs a C compiler's output, which is built for this machine",
    },
    Skip {
        package: "cuda-sys",
        test: "loader",
        why: "loads libraries that a C compiler builds for this machine",
    },
    Skip {
        package: "cuda-nvrtc",
        test: "cache::fire",
        why: "starts itself, which this machine cannot without qemu",
    },
];

/// `cargo xtask arm`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let sysroot = need::sysroot(workspace)?;
    let needs = [
        need::std_sources(&sysroot),
        Need {
            what: "qemu-aarch64",
            found: need::program("qemu-aarch64").is_some(),
            install: &[
                "apt-get",
                "install",
                "-y",
                "--no-install-recommends",
                "qemu-user",
            ],
        },
        Need {
            what: "a C compiler and library for Arm",
            found: need::program(COMPILER).is_some(),
            install: &["apt-get", "install", "-y", "gcc-aarch64-linux-gnu"],
        },
    ];
    need::meet(&needs, options.install.install)?;
    let packages = if options.package.is_empty() {
        PACKAGES.map(str::to_owned).to_vec()
    } else {
        options.package.clone()
    };
    let suite = Suite {
        name: "arm",
        packages,
        cargo: vec![
            "-Zbuild-std".to_owned(),
            format!("--target={TARGET}"),
            format!("--config=target.{TARGET}.linker='{COMPILER}'"),
        ],
        // The standard library can be built by a stable compiler only so.
        build_env: vec![("RUSTC_BOOTSTRAP", "1".into())],
        runner: ["qemu-aarch64", "-L", LIBRARIES].map(Into::into).to_vec(),
        // The NVRTC at hand is one for this machine: tests that need one say that they are skipped.
        env: vec![
            ("CUDA_FULL", "0".into()),
            ("CUDA_NVRTC_LIBRARY", "none-for-arm.so".into()),
            ("CUDA_TEST_NVRTC_DIR", "".into()),
        ],
        skips: SKIPS.to_vec(),
        finding: None,
        limit: Duration::from_secs(900),
        threads: 2,
    };
    suite.run(workspace)
}
