//! `bundle`: builds tests, examples and benchmarks for a machine with a GPU and CUDA but without
//! Rust.
//!
//! `bundle/<package>/{tests,examples,benches}/` contain the programs, stripped, and `lib` the
//! libraries that the benchmark against other crates loads. `bundle/run.sh` runs the programs. Each
//! runs in `bundle/<package>`, with `CARGO_MANIFEST_DIR` set to that folder, which contains the
//! files of the package's `tests/fixtures`. A path compiled in with `env!("CARGO_MANIFEST_DIR")`
//! does not exist on the other machine: tests must read the variable at run time, or embed the
//! files that they need.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::built::{self, Artifact};
use crate::workspace::{Workspace, describe};

const RUNNER: &str = include_str!("bundle/run.sh");

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
    /// Fail if the bundle is larger than this
    #[arg(long, value_name = "MIB")]
    max_mib: Option<u64>,
}

/// One built program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    package: String,
    /// `tests`, `examples`, `benches`, or `lib` for a library that a benchmark loads.
    folder: &'static str,
    name: String,
    built: PathBuf,
}

/// `cargo xtask bundle`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let packages = packages(workspace, &options.only)?;
    let mut programs = BTreeSet::new();
    for package in &packages {
        programs.extend(build(workspace, package, &["test", "--no-run"])?);
        if !options.no_benches
            && workspace
                .package_dir(package)
                .is_some_and(|dir| dir.join("benches").is_dir())
        {
            let built = build(workspace, package, &["bench", "--no-run", "--benches"])?;
            programs.extend(
                built
                    .into_iter()
                    .filter(|program| program.folder == "benches"),
            );
        }
    }
    if options.peers {
        programs.extend(build_peers(workspace)?);
    }
    if programs.is_empty() {
        bail!(
            "{} have no tests, examples or benchmarks",
            packages.join(", ")
        );
    }

    let bundle = workspace.root.join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle)
            .with_context(|| format!("cannot clear {}", bundle.display()))?;
    }
    let mut sizes = Vec::new();
    for program in &programs {
        let to = bundle
            .join(&program.package)
            .join(program.folder)
            .join(&program.name);
        fs::create_dir_all(to.parent().unwrap_or(&bundle))?;
        fs::copy(&program.built, &to)
            .with_context(|| format!("cannot copy {}", program.built.display()))?;
        strip(&to);
        sizes.push((fs::metadata(&to)?.len(), workspace.relative(&to)));
    }
    for package in &packages {
        if let Some(dir) = workspace.package_dir(package) {
            copy_below(
                &dir.join("tests/fixtures"),
                &bundle.join(package).join("tests/fixtures"),
            )?;
        }
    }
    let runner = bundle.join("run.sh");
    fs::write(&runner, RUNNER)?;
    make_executable(&runner)?;

    sizes.sort_by(|a, b| b.cmp(a));
    let total: u64 = sizes.iter().map(|(size, _)| size).sum();
    for (size, name) in &sizes {
        println!("{:>8.2} MiB  {name}", mib(*size));
    }
    println!("{:>8.2} MiB  in {} programs", mib(total), sizes.len());
    if let Some(max) = options.max_mib
        && mib(total) > max as f64
    {
        bail!("the bundle is larger than {max} MiB; choose packages with --only");
    }
    println!(
        "copy bundle/ to the machine and start bundle/run.sh there (--help lists its options)"
    );
    Ok(())
}

/// Returns the packages to bundle: those in `only`, or all that link CUDA.
fn packages(workspace: &Workspace, only: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| workspace.package_dir(name).is_none())
    {
        bail!("there is no package {unknown}");
    }
    if !only.is_empty() {
        return Ok(only.to_vec());
    }
    let all = [
        "cuda-sys",
        "cuda-driver",
        "cuda-nvrtc",
        "cuda-sim",
        "examples",
        "benches",
    ];
    Ok(all
        .map(str::to_owned)
        .into_iter()
        .filter(|name| workspace.package_dir(name).is_some())
        .collect())
}

/// Builds one package in release mode and returns the programs that cargo reports.
fn build(workspace: &Workspace, package: &str, command: &[&str]) -> Result<Vec<Program>> {
    let (verb, flags) = command.split_first().context("no cargo command")?;
    let mut cargo = workspace.cargo([verb]);
    if *verb == "test" {
        cargo.arg("--release");
    }
    cargo
        .arg("--all-features")
        .args(flags)
        .args(["-p", package]);
    programs(package, built::build(&mut cargo)?)
}

/// Builds the benchmark against other crates, and the null driver that it loads. NVIDIA's crate is
/// included if its headers are installed.
fn build_peers(workspace: &Workspace) -> Result<Vec<Program>> {
    let mut cargo = workspace.cargo(["build", "--release", "--workspace"]);
    cargo.args(["--manifest-path", "benches/peers/Cargo.toml"]);
    cargo.args(["--target-dir", "target/peers"]);
    if ["CUDA_TOOLKIT_PATH", "CUDA_HOME"].iter().any(|name| {
        env::var_os(name).is_some_and(|path| Path::new(&path).join("include/curand.h").is_file())
    }) {
        cargo.args(["--features", "nvlabs"]);
    }
    let found = peers(built::build(&mut cargo)?)?;
    if found.len() != 2 {
        bail!(
            "`{}` built {} files, not a program and a library",
            describe(&cargo),
            found.len()
        );
    }
    Ok(found)
}

/// Returns the program and the library among the build output.
fn peers(artifacts: Vec<Artifact>) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for artifact in artifacts {
        let (folder, built) = match artifact.kind.as_str() {
            "bin" => ("benches", artifact.executable),
            "cdylib" if artifact.name == "cuda_null_driver" => {
                ("lib", artifact.files.into_iter().next())
            }
            _ => continue,
        };
        let Some(built) = built else { continue };
        let name = built.file_name().context("a built file has a name")?;
        found.push(Program {
            package: "peers".to_owned(),
            folder,
            name: name.to_string_lossy().into_owned(),
            built,
        });
    }
    Ok(found)
}

/// Returns the programs among the build output.
fn programs(package: &str, artifacts: Vec<Artifact>) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for artifact in artifacts {
        let Some(built) = artifact.executable else {
            continue;
        };
        let (folder, name) = match artifact.kind.as_str() {
            "example" => ("examples", artifact.name),
            "bench" => ("benches", artifact.name),
            "test" => ("tests", artifact.name),
            // The package's own program, which was built because its tests run it.
            "bin" if !artifact.is_test => continue,
            // Unit tests: several targets of a package may share their name.
            other => ("tests", format!("unit-{other}")),
        };
        found.push(Program {
            package: package.to_owned(),
            folder,
            name,
            built,
        });
    }
    Ok(found)
}

/// Strips a program if the machine has `strip`. A program with symbols is merely larger.
fn strip(program: &Path) {
    match Command::new("strip").arg(program).output() {
        Ok(output) if output.status.success() => {}
        _ => println!("note: {} is not stripped", program.display()),
    }
}

fn copy_below(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_below(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
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

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built::read;

    #[test]
    fn programs_are_read_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"dep"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"cuda_sys"},"executable":"/t/cuda_sys-1"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"it"},"executable":"/t/it-2"}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"saxpy"},"executable":"/t/saxpy"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"x"},"profile":{"test":false},"executable":"/t/x"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"x"},"profile":{"test":true},"executable":"/t/x-3"}
{"reason":"build-finished","success":true}
"#;
        let found = programs("cuda-sys", read(messages).unwrap()).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|p| (p.folder, p.name.as_str())).collect();
        let expected = [
            ("tests", "unit-lib"),
            ("tests", "it"),
            ("examples", "saxpy"),
            ("tests", "unit-bin"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_peers_are_a_program_and_the_library_that_it_loads() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"cudarc"},"filenames":["/t/libcudarc.rlib"],"executable":null}
{"reason":"compiler-artifact","target":{"kind":["cdylib"],"name":"other"},"filenames":["/t/libother.so"],"executable":null}
{"reason":"compiler-artifact","target":{"kind":["cdylib"],"name":"cuda_null_driver"},"filenames":["/t/libcuda_null_driver.so"],"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"peers"},"filenames":["/t/peers"],"executable":"/t/peers"}
{"reason":"build-finished","success":true}
"#;
        let found = peers(read(messages).unwrap()).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|p| (p.folder, p.name.as_str())).collect();
        let expected = [("lib", "libcuda_null_driver.so"), ("benches", "peers")];
        assert_eq!(found, expected);
    }
}
