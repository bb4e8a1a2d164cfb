//! `api`: writes docs/api, which lists the public items of each published crate, one in a line, so
//! that review sees a change of the API. `full api` runs cargo-semver-checks.
//!
//! `ci --only package` packages these crates, and builds their documentation as docs.rs does.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::generated::{self, Options, texts};
use crate::workspace::{self, Workspace};

/// The Rust version whose JSON the crate `public-api` reads, in the version that xtask uses.
const RUST: &str = "1.95";

/// The version of cargo-semver-checks.
const SEMVER_CHECKS: &str = "0.51.0";

/// The variables that name files of CUDA, which docs.rs does not have.
const CUDA: [&str; 4] = [
    "CUDA_PATH",
    "CUDA_HOME",
    "CUDA_SYS_HEADERS",
    "LIBCLANG_PATH",
];

/// `cargo xtask api`.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    let version = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(&format!("rustc {RUST}.")) {
        bail!(
            "the API is listed with Rust {RUST}, and this is {}; run `rustup toolchain install \
             {RUST} --profile minimal` and `cargo +{RUST} xtask api`",
            version.trim()
        );
    }
    let flags = "-Zunstable-options --output-format=json";
    docs_rs(workspace, &workspace.root, "doc --no-deps", flags)?;
    let fresh = workspace.target.join("api");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    let mut list = workspace.cargo("run --quiet -p xtask --example api --".split(' '));
    list.arg(&fresh);
    for name in published(workspace)? {
        let json = format!("docs-rs/doc/{}.json", name.replace('-', "_"));
        list.arg(workspace.target.join(json));
    }
    workspace::run(&mut list)?;
    let committed = workspace.root.join("docs/api");
    let old = texts(&committed)?;
    generated::renew(&committed, &old, &texts(&fresh)?, "api", options)
}

/// The step `package` of `ci`: packages all crates, and unpacks them to a workspace in which they
/// depend on each other. Compiling each package by itself, as cargo does, takes several times as
/// long.
pub(crate) fn package(workspace: &Workspace) -> Result<()> {
    let names = published(workspace)?;
    let mut package = workspace.cargo("package --allow-dirty --no-verify --quiet".split(' '));
    workspace::run(package.args(names.iter().flat_map(|name| ["-p", name])))?;
    let folder = workspace.target.join("packages");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let (mut members, mut patches) = (String::new(), String::new());
    for name in &names {
        let file = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let archive = workspace.target.join(format!("package/{file}.crate"));
        // The files get the current time (`m`): in an archive, all have the same time, from which
        // cargo would conclude that they did not change.
        let mut tar = Command::new("tar");
        workspace::run(tar.arg("-xzmf").arg(archive).current_dir(&folder))?;
        members += &format!("{file:?}, ");
        patches += &format!("{name} = {{ path = {file:?} }}\n");
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patches}"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    docs_rs(workspace, &folder, "check", "")?;
    docs_rs(
        workspace,
        &folder,
        "doc --no-deps",
        "--cfg docsrs -D warnings",
    )?;
    println!(
        "{} packages compiled, and documented as on docs.rs",
        names.len()
    );
    Ok(())
}

/// Runs a cargo command on the published crates in `folder`, in the environment of docs.rs: without
/// network and files of CUDA, with all features, and with unstable options of rustdoc.
fn docs_rs(workspace: &Workspace, folder: &Path, command: &str, flags: &str) -> Result<()> {
    workspace::run(&mut workspace.cargo(["fetch", "--quiet"]))?;
    let mut cargo = workspace.cargo(command.split(' '));
    cargo.args(["--lib", "--all-features", "--offline"]);
    for name in published(workspace)? {
        cargo.args(["-p", &name]);
    }
    for variable in CUDA {
        cargo.env_remove(variable);
    }
    cargo.env("DOCS_RS", "1").env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_TARGET_DIR", workspace.target.join("docs-rs"));
    workspace::run(cargo.env("RUSTDOCFLAGS", flags).current_dir(folder))
}

/// `cargo xtask full api`: compares the API with that of the Git revision `baseline`. Crates that
/// the revision does not have are left out, because the tool fails for them.
pub(crate) fn semver(workspace: &Workspace, baseline: &str) -> Result<()> {
    let is_known = |object: &str| -> Result<bool> {
        let mut git = Command::new("git");
        git.args(["cat-file", "-e", object]).stderr(Stdio::null());
        Ok(git.current_dir(&workspace.root).status()?.success())
    };
    if !is_known(&format!("{baseline}^{{commit}}"))? {
        bail!("{baseline} is not a Git revision; name one with --baseline");
    }
    let tools = workspace.target.join("tools");
    let program = format!("bin/cargo-semver-checks{}", std::env::consts::EXE_SUFFIX);
    let program = tools.join(program);
    if !program.is_file() {
        let install = "install --locked cargo-semver-checks --version".split(' ');
        let mut install = workspace.cargo(install.chain([SEMVER_CHECKS, "--root"]));
        workspace::run(install.arg(&tools))?;
    }
    let mut check = Command::new(program);
    check.args(["semver-checks", "--workspace", "--baseline-rev", baseline]);
    for name in published(workspace)? {
        if !is_known(&format!("{baseline}:crates/{name}/Cargo.toml"))? {
            println!("{name} is not in {baseline}");
            check.args(["--exclude", &name]);
        }
    }
    check.current_dir(&workspace.root).env("DOCS_RS", "1");
    workspace::run(check.env("CARGO_TARGET_DIR", workspace.target.join("semver-checks")))
}

/// Returns the names of the crates that are published.
pub(crate) fn published(workspace: &Workspace) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in workspace.root.join("crates").read_dir()? {
        let entry = entry?;
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml"))?;
        if !manifest.contains("\npublish = false\n") {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
