//! `cargo xtask setup` with no Python, no pip, no network, and with a Python that only pretends to
//! install, which shows what is fetched when.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A machine without a toolkit, with a target folder and a `bin` folder of its own.
struct Machine {
    dir: TempDir,
    path: String,
}

struct Said {
    success: bool,
    out: String,
    err: String,
}

impl Machine {
    /// Nothing on the search path.
    fn bare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let path = bin.to_string_lossy().into_owned();
        Self { dir, path }
    }

    /// The search path of this machine, with `script` as its python3.
    fn with_python(script: &str) -> Self {
        let mut machine = Self::bare();
        let python = machine.dir.path().join("bin/python3");
        fs::write(&python, script).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        machine.path = format!("{}:{}", machine.path, std::env::var("PATH").unwrap());
        machine
    }

    fn setup(&self, args: &[&str]) -> Said {
        self.setup_with(args, None)
    }

    fn setup_with(&self, args: &[&str], toolkit: Option<&Path>) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .arg("setup")
            .args(args)
            .env("PATH", &self.path)
            .env("CARGO_TARGET_DIR", self.dir.path().join("target"))
            .env("CALLS", self.dir.path().join("calls"))
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_PATH");
        if let Some(toolkit) = toolkit {
            command.env("CUDA_PATH", toolkit);
        }
        let output = command.output().unwrap();
        let said = Said {
            success: output.status.success(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!said.err.contains("panicked"), "{}", said.err);
        said
    }

    fn installed(&self) -> PathBuf {
        self.dir.path().join("target/cuda-setup")
    }

    /// The packages that pip was asked for since the last time.
    fn downloads(&self) -> Vec<String> {
        let calls = self.dir.path().join("calls");
        let text = fs::read_to_string(&calls).unwrap_or_default();
        fs::write(&calls, "").unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Installs on `pip install` the files that the real wheels hold.
const PRETENDING_PYTHON: &str = r#"#!/bin/sh
case "$1 $2 $3" in
"-c "*) exit 0 ;;
"-m pip --version") exit 0 ;;
"-m pip install")
    while [ $# -gt 0 ]; do
        case "$1" in
        --target) target=$2 ;;
        --requirement) requirements=$2 ;;
        --require-hashes) checked=1 ;;
        esac
        shift
    done
    grep -q -- --hash=sha256: "$requirements" && [ -n "$checked" ] || exit 3
    names=$(grep -o '^[a-z].*==[0-9.]*' "$requirements")
    echo "$names" >> "$CALLS"
    d=$target/nvidia/cu13
    mkdir -p "$d/include/crt" "$d/include/cccl/nv" "$d/lib" "$target/clang/native"
    for f in cuda cudaProfiler cudaTypedefs cudaProfilerTypedefs cupti nvrtc crt/host_defines; do
        echo "$names" > "$d/include/$f.h"
    done
    if [ -n "$FAIL" ]; then echo "ERROR: the network went away" >&2; exit 1; fi
    touch "$d/include/cccl/nv/target" "$d/lib/libnvrtc.so.13" "$target/clang/native/libclang.so" ;;
*) exit 2 ;;
esac
"#;

#[test]
fn without_python_it_names_the_package() {
    let said = Machine::bare().setup(&["--force"]);
    assert!(!said.success);
    for needed in [
        "python3 is not on PATH",
        "apt install python3-pip",
        "CUDA_PATH",
        "NVRTC",
    ] {
        assert!(
            said.err.contains(needed),
            "{needed} is not in: {}",
            said.err
        );
    }
}

#[test]
fn without_pip_it_names_the_package() {
    let machine = Machine::with_python(
        "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\necho No module named pip >&2; exit 1\n",
    );
    // `python` and `py` are looked for too, and this machine may have them.
    for other in ["python", "py"] {
        fs::copy(
            machine.dir.path().join("bin/python3"),
            machine.dir.path().join("bin").join(other),
        )
        .unwrap();
    }
    let said = machine.setup(&["--force"]);
    assert!(!said.success);
    assert!(said.err.contains("python3 has no pip"), "{}", said.err);
    assert!(
        said.err.contains("python3-pip") && said.err.contains("CUDA_PATH"),
        "{}",
        said.err
    );
}

#[test]
fn a_second_run_downloads_nothing() {
    let machine = Machine::with_python(PRETENDING_PYTHON);
    let first = machine.setup(&["--force"]);
    assert!(first.success, "{}", first.err);
    assert_eq!(machine.downloads().len(), 6);
    for file in [
        "include/cuda.h",
        "include/nv/target",
        "lib/libnvrtc.so.13",
        "lib/libclang.so",
        "versions.txt",
    ] {
        assert!(machine.installed().join(file).is_file(), "{file}");
    }
    assert!(!machine.installed().join(".partial").exists());

    let second = machine.setup(&["--force"]);
    assert!(second.success, "{}", second.err);
    assert_eq!(machine.downloads(), Vec::<String>::new());
}

#[test]
fn a_broken_installation_is_repaired() {
    let machine = Machine::with_python(PRETENDING_PYTHON);
    assert!(machine.setup(&["--force"]).success);
    machine.downloads();
    for broken in ["versions.txt", "include/cuda.h"] {
        fs::remove_file(machine.installed().join(broken)).unwrap();
        assert!(machine.setup(&["--force"]).success);
        assert_eq!(machine.downloads().len(), 6, "{broken}");
        assert!(machine.installed().join(broken).is_file());
    }
}

#[test]
fn an_interrupted_download_leaves_nothing_that_looks_complete() {
    let failing = PRETENDING_PYTHON.replace("$FAIL", "yes");
    let machine = Machine::with_python(&failing);
    let said = machine.setup(&["--force"]);
    assert!(!said.success);
    for needed in ["toolkit.txt", "the network went away"] {
        assert!(said.err.contains(needed), "{}", said.err);
    }
    assert!(said.err.contains("CUDA_PATH"), "{}", said.err);
    assert!(!machine.installed().join("versions.txt").exists());
    assert!(!machine.installed().join("include").exists());
}

#[test]
fn only_requested_files_are_downloaded() {
    let machine = Machine::with_python(PRETENDING_PYTHON);
    assert!(machine.setup(&["--force"]).success);
    machine.downloads();
    let said = machine.setup(&["--force", "--nvrtc", "12.9"]);
    assert!(said.success, "{}", said.err);
    assert_eq!(machine.downloads(), ["nvidia-cuda-nvrtc-cu12==12.9.86"]);
    assert!(
        machine
            .installed()
            .join("nvrtc/12.9/include/nvrtc.h")
            .is_file()
    );

    let said = machine.setup(&["--force", "--all-headers"]);
    assert!(said.success, "{}", said.err);
    let asked = machine.downloads();
    assert_eq!(asked.len(), 22, "{asked:?}");
    let header = fs::read_to_string(machine.installed().join("headers/13.2/cuda.h")).unwrap();
    assert!(header.contains("nvidia-cuda-runtime==13.2.86"), "{header}");
    for file in ["headers/12.0/cudaProfiler.h", "cupti/12.0/cupti.h"] {
        assert!(machine.installed().join(file).is_file(), "{file}");
    }

    let said = machine.setup(&["--force", "--nvrtc", "11.8"]);
    assert!(!said.success && said.err.contains("12.9"), "{}", said.err);
}

#[test]
fn a_machine_with_a_toolkit_needs_no_setup() {
    let machine = Machine::with_python(PRETENDING_PYTHON);
    let toolkit = machine.dir.path().join("cuda");
    fs::create_dir_all(toolkit.join("include")).unwrap();
    fs::create_dir_all(toolkit.join("lib64")).unwrap();
    fs::write(toolkit.join("include/cuda.h"), "").unwrap();
    fs::write(toolkit.join("lib64/libnvrtc.so.13"), "").unwrap();
    let said = machine.setup_with(&[], Some(&toolkit));
    assert!(
        said.success && said.out.contains("not needed"),
        "{}{}",
        said.out,
        said.err
    );
    assert_eq!(machine.downloads(), Vec::<String>::new());
    assert!(machine.setup_with(&["--force"], Some(&toolkit)).success);
    assert_eq!(machine.downloads().len(), 6);
}
