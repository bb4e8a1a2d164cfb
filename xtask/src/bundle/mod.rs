//! `bundle`: builds tests, examples and benchmarks for a machine with a GPU and CUDA but without
//! Rust.
//!
//! `bundle/<package>/{tests,examples,benches}/` contain the programs, stripped, and `lib` the
//! libraries that the benchmark against other crates loads. `bundle/run.sh` runs the programs. Each
//! runs in `bundle/<package>`, with `CARGO_MANIFEST_DIR` set to that folder, which contains the
//! files of the package's `tests/fixtures`. A path compiled in with `env!("CARGO_MANIFEST_DIR")`
//! does not exist on the other machine: tests must read the variable at run time, or embed the
//! files that they need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::{Workspace, describe, files_below};

const RUNNER: &str = include_str!("run.sh");

/// The packages that use CUDA.
const PACKAGES: [&str; 9] = [
    "cuda-sys",
    "cuda-driver",
    "cuda-nvrtc",
    "cuda-sim",
    "cuda-conformance",
    "examples",
    "build-script",
    "nccl",
    "benches",
];

/// Options of `bundle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Bundle only these packages
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE")]
    only: Vec<String>,
    /// Leave the benchmarks out
    #[arg(long)]
    no_benches: bool,
    /// Also bundle the benchmark against other crates, `benches/peers`
    #[arg(long)]
    peers: bool,
}

/// A built program, or a library that programs load.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Built {
    /// The name of the target.
    name: String,
    /// `lib`, `bin`, `test`, `example`, `bench` or `cdylib`.
    kind: String,
    /// Whether it is a test program: an integration test, or the unit tests of another target.
    is_test: bool,
    path: PathBuf,
}

/// `cargo xtask bundle`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut packages: Vec<&str> = options.only.iter().map(String::as_str).collect();
    if packages.is_empty() {
        packages.extend(PACKAGES);
    }
    // Everything is built before the bundle of an earlier run is removed.
    let mut programs = Vec::new();
    for package in &packages {
        let dir = workspace.package_dir(package);
        let dir = dir.with_context(|| format!("the workspace has no package {package}"))?;
        let mut cargo = workspace.cargo(["test", "--release", "--no-run", "--all-features"]);
        let built = build(cargo.args(["-p", package]))?;
        programs.extend(built.into_iter().map(|program| (*package, program)));
        if !options.no_benches && dir.join("benches").is_dir() {
            let mut cargo = workspace.cargo(["bench", "--no-run", "--benches", "--all-features"]);
            let mut built = build(cargo.args(["-p", package]))?;
            built.retain(|program| program.kind == "bench");
            programs.extend(built.into_iter().map(|program| (*package, program)));
        }
    }
    if options.peers {
        programs.extend(
            build_peers(workspace)?
                .into_iter()
                .map(|program| ("peers", program)),
        );
    }

    let bundle = workspace.root.join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)
            .with_context(|| format!("cannot clear {}", bundle.display()))?;
    }
    let mut sizes = Vec::new();
    for (package, program) in &programs {
        let Some((folder, name)) = place(program) else {
            continue;
        };
        let to = bundle.join(package).join(folder).join(name);
        copy(&program.path, &to)?;
        strip(&to);
        sizes.push((fs::metadata(&to)?.len(), workspace.relative(&to)));
    }
    if sizes.is_empty() {
        bail!(
            "{} have no tests, examples or benchmarks",
            packages.join(", ")
        );
    }
    for package in &packages {
        let dir = workspace.package_dir(package).unwrap_or_default();
        let fixtures = dir.join("tests/fixtures");
        if fixtures.is_dir() {
            for file in files_below(&fixtures, &[])? {
                copy(&file, &bundle.join(package).join(file.strip_prefix(&dir)?))?;
            }
        }
    }
    let runner = bundle.join("run.sh");
    fs::write(&runner, RUNNER)?;
    make_executable(&runner)?;

    sizes.sort_by(|a, b| b.cmp(a));
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let total = mib(sizes.iter().map(|(size, _)| size).sum());
    for (size, name) in &sizes {
        println!("{:>8.2} MiB  {name}", mib(*size));
    }
    println!("{total:>8.2} MiB  in {} programs", sizes.len());
    println!(
        "copy bundle/ to the machine and start bundle/run.sh there (--help lists its options)"
    );
    Ok(())
}

/// Builds the benchmark against other crates, and the null driver that it loads. NVIDIA's crate is
/// included if its headers are installed.
fn build_peers(workspace: &Workspace) -> Result<Vec<Built>> {
    let mut cargo = workspace.cargo(["build", "--release", "--workspace"]);
    cargo.args(["--manifest-path", "benches/peers/Cargo.toml"]);
    cargo.args(["--target-dir", "target/peers"]);
    let toolkits = ["CUDA_TOOLKIT_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(std::env::var_os);
    if toolkits
        .into_iter()
        .any(|dir| Path::new(&dir).join("include/curand.h").is_file())
    {
        cargo.args(["--features", "nvlabs"]);
    }
    let mut built = build(&mut cargo)?;
    built.retain(|it| it.kind == "bin" || it.name == "cuda_null_driver");
    if built.len() != 2 {
        bail!(
            "benches/peers has {} files, not a program and a library",
            built.len()
        );
    }
    Ok(built)
}

/// Runs a cargo command that builds, and returns its output.
fn build(cargo: &mut Command) -> Result<Vec<Built>> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    println!("{}", describe(cargo));
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.context("cargo could not be started")?;
    if !output.status.success() {
        bail!("`{}` failed", describe(cargo));
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads cargo's messages.
fn read(messages: &str) -> Vec<Built> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let built = messages.filter_map(|message| {
        let kind = message["target"]["kind"][0].as_str()?;
        let path = match kind {
            "cdylib" => message["filenames"][0].as_str(),
            _ => message["executable"].as_str(),
        };
        Some(Built {
            name: message["target"]["name"].as_str()?.to_owned(),
            kind: kind.to_owned(),
            is_test: message["profile"]["test"] == true,
            path: path?.into(),
        })
    });
    built.collect()
}

/// Returns the folder and the name of a program in the bundle; `None` if it is not for the bundle.
fn place(program: &Built) -> Option<(&'static str, String)> {
    let name = program.name.clone();
    Some(match program.kind.as_str() {
        "example" => ("examples", name),
        "bench" => ("benches", name),
        "test" => ("tests", name),
        "cdylib" if name == "cuda_null_driver" => {
            let file = program.path.file_name()?;
            ("lib", file.to_string_lossy().into_owned())
        }
        // A benchmark with arguments of its own. The programs of other packages are built because
        // their tests run them.
        "bin" if !program.is_test && name == "peers" => ("benches", name),
        "bin" | "cdylib" if !program.is_test => return None,
        // Unit tests: several targets of a package may share their name.
        other => ("tests", format!("unit-{other}")),
    })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Strips a program if the machine has `strip`. A program with symbols is merely larger.
fn strip(program: &Path) {
    match Command::new("strip").arg(program).output() {
        Ok(output) if output.status.success() => {}
        _ => println!("note: {} is not stripped", program.display()),
    }
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> Result<()> {
    bail!("a bash script runs the bundle: build it on Linux")
}

#[cfg(test)]
#[path = "../../tests/unit/bundle.rs"]
mod tests;
