//! Finds the programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Assembler;

/// The versions that are pinned in `xtask/requirements`. There is no 12.0 for 64-bit Arm.
const VERSIONS: &[&str] = if cfg!(target_arch = "aarch64") {
    &["12.4", "12.9", "13.0", "13.5"]
} else {
    &["12.0", "12.4", "12.9", "13.0", "13.5"]
};

/// The version in which the disassembler is installed.
const NEWEST: &str = "13.5";

/// Returns all assemblers that the machine has, with the oldest first. Without one, reports that the
/// running test is skipped.
///
/// # Panics
///
/// Panics if `CUDA_TEST_REQUIRE_PTXAS` is 1 and a pinned version is missing.
#[track_caller]
pub fn assemblers() -> Option<Vec<Assembler>> {
    let missing: Vec<&str> = VERSIONS
        .iter()
        .copied()
        .filter(|version| !is_installed(version))
        .collect();
    let pinned = match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "version {} is not in target/cuda-setup/assembler; `cargo xtask ci --only assembler` \
             installs it",
            missing.join(", ")
        )),
    };
    if test_needs::is_required("ptxas") {
        test_needs::found("ptxas", pinned)?;
    }
    let found = all();
    let found = match found.is_empty() {
        true => Err("not in target/cuda-setup/assembler, CUDA_PATH, CUDA_HOME or PATH"),
        false => Ok(found),
    };
    test_needs::found("ptxas", found)
}

/// Returns the newest assembler that the machine has. Without one, reports that the running test is
/// skipped.
///
/// # Panics
///
/// Panics if `CUDA_TEST_REQUIRE_PTXAS` is 1 and a pinned version is missing.
#[track_caller]
pub fn newest() -> Option<Assembler> {
    assemblers()?.pop()
}

fn setup() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda-setup")
}

fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{}", env::consts::EXE_SUFFIX))
}

fn is_installed(version: &str) -> bool {
    let folder = setup().join("assembler").join(version);
    folder.join("versions.txt").exists() && program(&folder, "ptxas").exists()
}

/// The assemblers of the setup folder, or the one of the machine's toolkit.
fn all() -> Vec<Assembler> {
    let pinned = setup().join("assembler");
    let disassembler = program(&pinned.join(NEWEST), "nvdisasm");
    let found: Vec<Assembler> = VERSIONS
        .iter()
        .filter(|version| is_installed(version))
        .filter_map(|version| open(&program(&pinned.join(version), "ptxas"), &disassembler))
        .collect();
    if !found.is_empty() {
        return found;
    }
    let mut folders = vec![setup().join("nvcc/13.5/bin")];
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        folders.extend(env::var_os(variable).map(|root| Path::new(&root).join("bin")));
    }
    folders.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    let found = |name| {
        folders
            .iter()
            .map(|folder| program(folder, name))
            .find(|path| text_of(path, "--version").is_some())
    };
    let pair = found("ptxas").zip(found("nvdisasm"));
    pair.and_then(|(ptxas, nvdisasm)| open(&ptxas, &nvdisasm))
        .into_iter()
        .collect()
}

fn open(path: &Path, disassembler: &Path) -> Option<Assembler> {
    text_of(disassembler, "--version")?;
    let version = text_of(path, "--version")?;
    // `Cuda compilation tools, release 13.5, V13.5.37`
    let (_, version) = version.rsplit_once(", V")?;
    let version = version.split_whitespace().next()?.to_owned();
    let help = text_of(path, "--help")?;
    let words = help.split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_');
    let known = words.filter(|word| {
        let digit = word
            .strip_prefix("sm_")
            .and_then(|rest| rest.chars().next());
        digit.is_some_and(|digit| digit.is_ascii_digit())
    });
    let mut architectures: Vec<String> = known.map(str::to_owned).collect();
    architectures.sort();
    architectures.dedup();
    Some(Assembler {
        version,
        path: path.to_owned(),
        disassembler: disassembler.to_owned(),
        architectures,
    })
}

fn text_of(program: &Path, option: &str) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.arg(option).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}
