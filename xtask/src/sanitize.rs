//! `sanitize`: runs the tests under AddressSanitizer or ThreadSanitizer, with a rebuilt standard
//! library.
//!
//! Kernels run in this process, on device memory, for which CUDA defines the rules about races.
//! `sanitize/thread.txt` suppresses reports only for accesses that the interpreter makes on behalf
//! of a kernel or a copy.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::need::{self, Install};
use crate::suite::{Skip, Suite};
use crate::workspace::Workspace;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The list of reports that ThreadSanitizer suppresses.
const RACES: &str = "xtask/src/sanitize/thread.txt";

/// Options of `sanitize`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The sanitizer
    which: Which,
    #[command(flatten)]
    install: Install,
    /// Only these packages
    #[arg(long, short, value_delimiter = ',', value_name = "PACKAGE")]
    package: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Which {
    Address,
    Thread,
}

/// Tests that run other programs, which are not instrumented.
pub(crate) const SKIPS: [Skip; 3] = [
    Skip {
        package: "cuda-driver",
        test: "ui::",
        why: "runs the compiler, not the library",
    },
    Skip {
        package: "cuda-nvrtc",
        test: "ui::",
        why: "runs the compiler, not the library",
    },
    Skip {
        package: "cuda-sys",
        test: "c_compiler::",
        why: "runs a C compiler, not the library",
    },
];

/// `cargo xtask sanitize address|thread`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut suite = instrumented(workspace, options.which, &options.install)?;
    suite.packages.clone_from(&options.package);
    suite.run(workspace)
}

/// Runs the attacks of cuda-driver under AddressSanitizer, on all schedules. Each attack appends a
/// line to the file `count`.
pub(crate) fn attacks(workspace: &Workspace, install: &Install, count: &Path) -> Result<()> {
    let mut suite = instrumented(workspace, Which::Address, install)?;
    suite.packages = vec!["cuda-driver".to_owned()];
    suite.target = Some("attacks");
    suite.env.retain(|(name, _)| *name != "CUDA_FULL");
    suite.env.push(("CUDA_FULL", "1".into()));
    suite.env.push(("CUDA_ATTACKS_COUNT", count.into()));
    suite.env.push(("CUDA_ATTACKS_LIMIT", "240".into()));
    suite.run(workspace)
}

/// Returns how to build and run the tests under a sanitizer.
fn instrumented(workspace: &Workspace, which: Which, install: &Install) -> Result<Suite> {
    let sysroot = need::sysroot(workspace)?;
    let (kind, runtime) = match which {
        Which::Address => ("address", "asan"),
        Which::Thread => ("thread", "tsan"),
    };
    need::meet(
        &[
            need::std_sources(&sysroot),
            need::sanitizer(&sysroot, runtime),
        ],
        install.install,
    )?;
    let (variable, settings, finding) = match which {
        // Leak detection is off because tests leak deliberately; the software device counts live
        // objects.
        Which::Address => (
            "ASAN_OPTIONS",
            "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1".to_owned(),
            "ERROR: AddressSanitizer",
        ),
        Which::Thread => (
            "TSAN_OPTIONS",
            format!(
                "suppressions={}:history_size=4",
                workspace.root.join(RACES).display()
            ),
            "WARNING: ThreadSanitizer",
        ),
    };
    let mut skips = SKIPS.to_vec();
    if matches!(which, Which::Thread) {
        skips.push(Skip {
            package: "cuda-nvrtc",
            test: "cache::",
            why: "NVRTC is not instrumented, and these tests compile for minutes",
        });
    }
    Ok(Suite {
        name: format!("sanitize-{kind}"),
        cargo: vec![
            "-Zbuild-std".to_owned(),
            format!("--target={TARGET}"),
            // A low optimisation level; building the interpreter with a higher one takes minutes.
            "--config=profile.dev.opt-level=1".to_owned(),
            "--config=profile.dev.debug='line-tables-only'".to_owned(),
            "--config=profile.dev.package.cuda-sim.opt-level=1".to_owned(),
        ],
        build_env: vec![
            // A stable compiler can build the standard library only with this variable.
            ("RUSTC_BOOTSTRAP", "1".into()),
            ("RUSTFLAGS", format!("-Zsanitizer={kind}").into()),
        ],
        env: vec![
            (variable, OsString::from(settings)),
            ("CUDA_FULL", "0".into()),
        ],
        skips,
        finding: Some(finding),
        limit: Duration::from_secs(900),
        threads: 2,
        ..Suite::default()
    })
}
