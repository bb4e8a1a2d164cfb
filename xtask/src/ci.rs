//! `ci`: all checks that must pass before a change is merged, ordered so that the checks that fail
//! fastest run first. The workflow runs each step, or a few of them, as a job of its own.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::generated::CHECK;
use crate::workspace::{self, Workspace};
use crate::{
    api, book, full, functions, matrix, minimal, observing, paste, python, regen_bindings, setup,
    test, tidy, untested,
};

/// Options of `ci`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Leave out the step `test`, if `cargo xtask test` has already run
    #[arg(long)]
    skip_tests: bool,
    /// When a step with a build folder of its own has ended, remove this folder
    #[arg(long)]
    save_space: bool,
    /// Run only these steps
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    only: Vec<String>,
}

type Step = (&'static str, fn(&Workspace) -> Result<()>);

const STEPS: &[Step] = &[
    ("format", |ws| cargo(ws, "fmt --all --check")),
    ("tidy", tidy::run),
    ("links", |ws| {
        cargo(ws, "test -p xtask --test it documents::")
    }),
    ("functions", |ws| functions::run(ws, CHECK)),
    ("untested", untested::run),
    ("lean", lean),
    ("minimal", minimal::run),
    ("clippy", |ws| {
        cargo(
            ws,
            "clippy --workspace --all-targets --all-features -- -D warnings",
        )
    }),
    ("panics", panics),
    ("test", |ws| test::run(ws, &test::Options::default())),
    ("doc", doc),
    ("book", book::build),
    ("package", api::package),
    ("api", |ws| api::run(ws, CHECK)),
    ("bindings", |ws| regen_bindings::run(ws, CHECK)),
    ("apart", apart),
    ("python", python::run),
    ("assembler", assembler),
    ("headers", matrix::some_headers),
    ("nvrtc", matrix::some_nvrtc),
    ("drivers", matrix::some_drivers),
    ("programs", full::some_programs),
    ("shares", |ws| full::shares(ws, None)),
    ("traces", |ws| observing::traces(ws, false)),
    ("mutants", |ws| full::mutants(ws, &["--few", "2"])),
    ("rebuild", rebuild),
    ("outside", outside),
    ("paste", paste::run),
];

/// The folders in `target` that only one step uses.
const FOLDERS: &[(&str, &[&str])] = &[
    ("package", &["packages", "package", "docs-rs"]),
    ("apart", &["apart"]),
    ("python", &["python"]),
    ("headers", &["headers-check"]),
    ("minimal", &["minimal"]),
    ("paste", &["paste"]),
];

fn remove_folders(workspace: &Workspace, step: &str) {
    let own = FOLDERS.iter().find(|(name, _)| *name == step);
    for folder in own.map(|(_, folders)| *folders).unwrap_or_default() {
        let folder = workspace.target.join(folder);
        if let Err(error) = std::fs::remove_dir_all(&folder)
            && error.kind() != ErrorKind::NotFound
        {
            println!("{} was not removed: {error}", folder.display());
        }
    }
}

/// `cargo xtask ci`. All steps run, even if an earlier one fails.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let known: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = options
        .only
        .iter()
        .find(|name| !known.contains(&name.as_str()))
    {
        bail!(
            "{unknown} is not a step; the steps are {}",
            known.join(", ")
        );
    }
    setup::try_default(workspace);
    let mut done: Vec<(&str, Duration, Result<()>)> = Vec::new();
    for (name, step) in STEPS {
        let wanted = options.only.is_empty() || options.only.iter().any(|only| only == name);
        if !wanted || (options.skip_tests && *name == "test") {
            continue;
        }
        println!("\n== {name}");
        let start = Instant::now();
        let result = step(workspace);
        if let Err(error) = &result {
            println!("failed: {error:#}");
        }
        done.push((name, start.elapsed(), result));
        if options.save_space {
            remove_folders(workspace, name);
        }
    }

    println!("\n{:<10} {:>8}  result", "step", "time");
    for (name, time, result) in &done {
        let shown = match result {
            Ok(()) => "passed".to_owned(),
            Err(error) => format!("FAILED: {error:#}").replace('\n', " "),
        };
        println!("{name:<10} {:>6.1} s  {shown}", time.as_secs_f64());
    }
    let failed = done.iter().filter(|(_, _, result)| result.is_err()).count();
    println!("\n{} passed, {failed} failed", done.len() - failed);
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Runs cargo with the arguments in a line of text.
fn cargo(workspace: &Workspace, args: &str) -> Result<()> {
    workspace::run(&mut workspace.cargo(args.split(' ')))
}

/// Checks that libraries return errors: no code in `crates/*/src` outside of tests unwraps or
/// panics.
fn panics(workspace: &Workspace) -> Result<()> {
    let mut clippy = workspace.cargo(["clippy", "--lib", "--all-features"]);
    for entry in workspace.root.join("crates").read_dir()? {
        clippy.arg("-p").arg(entry?.file_name());
    }
    clippy.arg("--");
    for lint in [
        "unwrap_used",
        "expect_used",
        "panic",
        "todo",
        "unimplemented",
    ] {
        clippy.args(["-D", &format!("clippy::{lint}")]);
    }
    workspace::run(&mut clippy)
}

/// Runs the tests that ask NVIDIA's assembler, in each pinned version.
fn assembler(workspace: &Workspace) -> Result<()> {
    setup::ensure(workspace, setup::ASSEMBLER_SETS)?;
    for test in [
        "test -p test-assembler",
        "test -p cuda-ptx --test it assembler -- --nocapture",
    ] {
        let mut test = workspace.cargo(test.split(' '));
        workspace::run(test.env("CUDA_TEST_REQUIRE_PTXAS", "1"))?;
    }
    Ok(())
}

fn doc(workspace: &Workspace) -> Result<()> {
    let mut doc = workspace.cargo("doc --workspace --no-deps --all-features".split(' '));
    workspace::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks that bindgen is a dependency by default only in cuda-sys, that the safe layer needs no
/// `syn` by default, and that it builds.
fn lean(workspace: &Workspace) -> Result<()> {
    for (package, features, other, is_needed) in [
        ("cuda-sys", "--no-default-features", "bindgen", false),
        ("cuda-sys", "--features=default", "bindgen", true),
        ("cuda-nvrtc", "--features=default", "bindgen", false),
        ("cuda-driver", "--features=default,nvrtc", "bindgen", false),
        ("cuda-driver", "--features=default", "syn v", false),
        ("cuda-driver", "--features=default,derive", "syn v", true),
    ] {
        let tree = ["tree", "-p", package, features, "--edges", "normal,build"];
        let output = workspace.cargo(tree).output()?;
        let tree = String::from_utf8(output.stdout).context("cargo's output")?;
        if !output.status.success() || tree.contains(other) != is_needed {
            let must = if is_needed { "must" } else { "must not" };
            bail!("{package} with {features} {must} depend on {other}; its dependencies:\n{tree}");
        }
    }
    cargo(workspace, "build -p cuda-driver --no-default-features")
}

/// Checks that the separate workspaces compile.
fn apart(workspace: &Workspace) -> Result<()> {
    // Also the tests and examples of the fuzz targets, and the program of cudarc in the book.
    for manifest in ["fuzz/Cargo.toml", "benches/peers/Cargo.toml"] {
        let mut check = workspace.cargo("check --workspace --locked".split(' '));
        check.args(["--all-targets", "--manifest-path"]);
        check
            .arg(manifest)
            .env("CARGO_TARGET_DIR", workspace.target.join("apart"));
        // Nothing is linked, so libFuzzer, which needs a C++ compiler, need not be built.
        check.env(
            "CUSTOM_LIBFUZZER_PATH",
            workspace.target.join("not-linked/libfuzzer.a"),
        );
        workspace::run(&mut check)?;
    }
    Ok(())
}

/// Runs programs in crates outside of the workspace: that of the README, and, on Linux, programs of
/// cudarc on the packages of the software device.
fn outside(workspace: &Workspace) -> Result<()> {
    let ignored = "-- --ignored --nocapture";
    cargo(
        workspace,
        &format!("test -p examples --test outside {ignored}"),
    )?;
    cargo(
        workspace,
        &format!("test -p cuda-sim-cdylib --test it {ignored}"),
    )
}

/// Checks that a second build compiles nothing and runs no build script, with default features and
/// without.
fn rebuild(workspace: &Workspace) -> Result<()> {
    for build in [
        "build --workspace --exclude xtask",
        "build -p cuda-driver --no-default-features",
    ] {
        cargo(workspace, build)?;
        let again = workspace
            .cargo(build.split(' '))
            .arg("--verbose")
            .output()?;
        let said = String::from_utf8_lossy(&again.stderr);
        let begins = |word: &&str| {
            said.lines()
                .any(|line| line.trim_start().starts_with(*word))
        };
        if ["Compiling", "Running", "Dirty"].iter().any(&begins) {
            bail!("a second `cargo {build}` is not a no-op:\n{said}");
        }
        if !again.status.success() || !begins(&"Fresh") {
            bail!("a second `cargo {build}` failed: {said}");
        }
    }
    Ok(())
}
