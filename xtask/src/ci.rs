//! `ci`: all checks that must pass before a change is merged, in the order of how soon they fail.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, Workspace};
use crate::{drivers, functions, headers, nvrtc, programs, regen_bindings, setup, test, tidy};

/// Options of `ci`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Leave out the step `test`, if `cargo xtask test` has already run
    #[arg(long)]
    skip_tests: bool,
    /// Run only these steps
    #[arg(long, value_delimiter = ',', value_name = "STEP")]
    only: Vec<String>,
}

type Step = (&'static str, fn(&Workspace) -> Result<()>);

const STEPS: &[Step] = &[
    ("format", format),
    ("tidy", tidy::run),
    ("functions", |ws| {
        functions::run(ws, &functions::Options { check: true })
    }),
    ("lean", lean),
    ("clippy", clippy),
    ("panics", panics),
    ("test", |ws| test::run(ws, &test::Options::default())),
    ("doc", doc),
    ("bindings", |ws| {
        regen_bindings::run(ws, &regen_bindings::Options { check: true })
    }),
    ("apart", apart),
    ("headers", headers::reduced),
    ("nvrtc", nvrtc::reduced),
    ("drivers", drivers::reduced),
    ("programs", programs::reduced),
    ("rebuild", rebuild),
];

/// `cargo xtask ci`. All steps run, even if an earlier one fails.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    if let Some(unknown) = options
        .only
        .iter()
        .find(|name| !STEPS.iter().any(|(step, _)| step == *name))
    {
        let known: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        bail!(
            "there is no step {unknown}; the steps are {}",
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
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn format(workspace: &Workspace) -> Result<()> {
    workspace::run(&mut workspace.cargo(["fmt", "--all", "--check"]))
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ];
    workspace::run(&mut workspace.cargo(clippy))
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

fn doc(workspace: &Workspace) -> Result<()> {
    let doc = ["doc", "--workspace", "--no-deps", "--all-features"];
    workspace::run(workspace.cargo(doc).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks that bindgen is a dependency by default only in cuda-sys, and that the safe layer builds.
fn lean(workspace: &Workspace) -> Result<()> {
    for (package, features) in [
        ("cuda-sys", "--no-default-features"),
        ("cuda-nvrtc", "--features=default"),
        ("cuda-driver", "--features=default,nvrtc"),
    ] {
        let tree = ["tree", "-p", package, features, "--edges", "normal,build"];
        let tree = output(workspace, &tree)?;
        if let Some(line) = tree.lines().find(|line| line.contains("bindgen")) {
            bail!("{package} with {features} depends on {}", line.trim());
        }
    }
    let raw = output(workspace, &["tree", "-p", "cuda-sys", "--edges", "build"])?;
    if !raw.contains("bindgen") {
        bail!("cuda-sys does not depend on bindgen by default");
    }
    workspace::run(&mut workspace.cargo(["build", "-p", "cuda-driver", "--no-default-features"]))
}

/// Checks that the separate workspaces compile.
fn apart(workspace: &Workspace) -> Result<()> {
    for manifest in ["fuzz/Cargo.toml", "benches/peers/Cargo.toml"] {
        let mut check = workspace.cargo(["check", "--workspace", "--manifest-path", manifest]);
        check.arg("--locked");
        check.env("CARGO_TARGET_DIR", workspace.target.join("apart"));
        // Nothing is linked, so libFuzzer, which needs a C++ compiler, need not be built.
        let none = workspace.target.join("not-linked/libfuzzer.a");
        check.env("CUSTOM_LIBFUZZER_PATH", none);
        workspace::run(&mut check)?;
    }
    Ok(())
}

/// Checks that a second build compiles nothing and runs no build script, with default features and
/// without.
fn rebuild(workspace: &Workspace) -> Result<()> {
    for build in [
        &["build", "--workspace", "--exclude", "xtask"][..],
        &["build", "-p", "cuda-driver", "--no-default-features"],
    ] {
        workspace::run(&mut workspace.cargo(build))?;
        let again = workspace.cargo(build).arg("--verbose").output()?;
        let said = String::from_utf8_lossy(&again.stderr);
        let ran = |line: &&str| {
            ["Compiling", "Running", "Dirty"]
                .iter()
                .any(|word| line.trim_start().starts_with(word))
        };
        if let Some(line) = said.lines().find(ran) {
            bail!(
                "a second `cargo {}` is not a no-op: {}",
                build.join(" "),
                line.trim()
            );
        }
        if !again.status.success()
            || !said
                .lines()
                .any(|line| line.trim_start().starts_with("Fresh"))
        {
            bail!("a second `cargo {}` failed: {said}", build.join(" "));
        }
    }
    Ok(())
}

fn output(workspace: &Workspace, args: &[&str]) -> Result<String> {
    let output = workspace
        .cargo(args)
        .output()
        .context("cargo could not be started")?;
    if !output.status.success() {
        bail!(
            "`cargo {}` failed:\n{}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).context("cargo's output")
}
