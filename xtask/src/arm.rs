//! `arm`: runs the tests of the workspace for 64-bit Arm in `qemu-aarch64`, which the kernel starts
//! for them.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::need::{self, Install, Need};
use crate::suite::{Skip, Suite};
use crate::workspace::Workspace;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// The folder of the C library for Arm.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// The file that exists if Linux starts Arm programs in qemu, which tests that start themselves
/// again require.
const REGISTERED: &str = "/proc/sys/fs/binfmt_misc/qemu-aarch64";

/// Options of `arm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    install: Install,
    /// Only these packages
    #[arg(long, short, value_delimiter = ',', value_name = "PACKAGE")]
    package: Vec<String>,
}

/// Tests that do not work in qemu.
const SKIPS: [Skip; 3] = [
    Skip {
        package: "cuda-driver",
        test: "ui::",
        why: "runs cargo, which is not available for Arm",
    },
    Skip {
        package: "cuda-nvrtc",
        test: "ui::",
        why: "runs cargo, which is not available for Arm",
    },
    Skip {
        package: "cuda-driver",
        test: "faults::a_call",
        why: "creates several thousand drivers; qemu keeps a record of every address and needs 24 GiB",
    },
];

/// `cargo xtask arm`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let sysroot = need::sysroot(workspace)?;
    let needs = [
        need::std_sources(&sysroot),
        Need {
            what: "qemu-aarch64, registered for programs for Arm",
            found: Path::new(REGISTERED).exists(),
            install: &[
                "apt-get",
                "install",
                "-y",
                "--no-install-recommends",
                "qemu-user",
                "qemu-user-binfmt",
                "binfmt-support",
            ],
        },
        Need {
            what: "a C compiler and library for Arm",
            found: need::program(COMPILER).is_some(),
            install: &["apt-get", "install", "-y", "gcc-aarch64-linux-gnu"],
        },
    ];
    need::meet(&needs, options.install.install)?;
    let suite = Suite {
        name: "arm".to_owned(),
        packages: options.package.clone(),
        cargo: vec![
            "-Zbuild-std".to_owned(),
            format!("--target={TARGET}"),
            format!("--config=target.{TARGET}.linker='{COMPILER}'"),
        ],
        // A stable compiler can build the standard library only with this variable.
        build_env: vec![("RUSTC_BOOTSTRAP", "1".into())],
        // The installed NVRTC is for this machine. Tests that need it are skipped, with a message.
        env: vec![
            ("QEMU_LD_PREFIX", LIBRARIES.into()),
            ("CC", COMPILER.into()),
            ("CUDA_FULL", "0".into()),
            ("CUDA_NVRTC_LIBRARY", "none-for-arm.so".into()),
            ("CUDA_TEST_NVRTC_DIR", "".into()),
        ],
        skips: SKIPS.to_vec(),
        finding: None,
        limit: Duration::from_secs(900),
        threads: 2,
        ..Suite::default()
    };
    suite.run(workspace)
}
