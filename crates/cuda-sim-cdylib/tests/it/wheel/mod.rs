//! The Python package and the archive: installed in a new environment, and in a folder that has
//! nothing but Python as its root.

mod root;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::{add_ptx, library, package, text};

/// Every file and folder below `folder`, except what Python compiles when it runs.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("__pycache__") {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                open.push(path.clone());
            }
            all.insert(path);
        }
    }
    all
}

fn run(command: &mut Command) -> Output {
    // The settings of this process are not those of a user.
    let names = [
        "CUDA_SIM",
        "CUDA_SIM_REPORTS",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
    ];
    for name in names {
        command.env_remove(name);
    }
    command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    command.output().unwrap()
}

#[track_caller]
fn must(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

/// The packages, and a virtual environment of Python.
struct Packages {
    folder: TempDir,
    environment: PathBuf,
    wheel: PathBuf,
    archive: PathBuf,
}

impl Packages {
    /// Builds the packages, or reports the test as skipped if this machine lacks Python.
    fn new() -> Option<Packages> {
        let folder = tempfile::tempdir().unwrap();
        let environment = folder.path().join("venv");
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment)
            .output();
        if !made.is_ok_and(|output| output.status.success()) {
            test_needs::skipped("the Python package: `python3 -m venv` does not work here");
            return None;
        }
        let script = package().join("../../xtask/dist/build.py");
        let mut build = Command::new(environment.join("bin/python3"));
        build.arg(script).arg("--library").arg(library());
        // `cargo xtask dist` passes these.
        build
            .args(["--cargo", "cargo", "--target"])
            .arg(folder.path());
        must(build.arg("--out").arg(folder.path()));
        let with_extension = |extension: &str| {
            let mut all = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap());
            let found = all.find(|it| it.path().extension().is_some_and(|it| it == extension));
            found.unwrap().path()
        };
        Some(Packages {
            wheel: with_extension("whl"),
            archive: with_extension("gz"),
            environment,
            folder,
        })
    }

    /// Unpacks the archive in `folder` and returns the path of its top folder.
    fn unpack(&self, folder: &Path) -> PathBuf {
        let mut unpack = Command::new("tar");
        must(unpack.arg("-xzf").arg(&self.archive).arg("-C").arg(folder));
        let name = self.archive.file_name().unwrap().to_str().unwrap();
        folder.join(name.trim_end_matches(".tar.gz"))
    }
}

/// Returns the PTX of one of the programs that [`check`] runs.
fn kernel_of(program: &str) -> PathBuf {
    match program {
        "out_of_bounds" => package().join("tests/kernels/fill.ptx"),
        _ => add_ptx(),
    }
}

/// Checks the outputs and the exit statuses of programs. `on_device` runs one with `cuda-sim run`.
fn check(on_device: impl Fn(&[&str], &str) -> Output) {
    let plain = on_device(&[], "vector_add");
    assert_eq!(text(&plain), "the sum of 1000 pairs is right\n");
    assert_eq!(plain.status.code(), Some(0));
    let bad = on_device(&["--set", "check=all"], "out_of_bounds");
    let words = text(&bad);
    assert_eq!(bad.status.code(), Some(99), "{words}");
    assert!(
        words.contains("cuda-sim: 1 report:\n  device 0: kernel `fill`"),
        "{words}"
    );
    assert!(
        words.contains("at offset 128 of the allocation of 128 bytes"),
        "{words}"
    );
    assert!(
        words.contains("thread 32,0,0") && words.contains("fill.cu:4"),
        "{words}"
    );
    // The status of a command without reports is its own.
    let wrong = on_device(&["--set", "devices=many"], "vector_add");
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong));
    assert!(text(&wrong).contains("devices=many"));
}

#[test]
fn the_wheel_runs_programs_and_leaves_nothing() {
    let Some(packages) = Packages::new() else {
        return;
    };
    let environment = &packages.environment;
    let before = files(environment);
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(environment.join("bin/python3"));
        must(pip.args(["-m", "pip", "--quiet"]).args(arguments));
    };
    pip(&[
        "install",
        "--no-index",
        "--no-deps",
        packages.wheel.to_str().unwrap(),
    ]);

    let launched_by = |launcher: PathBuf| {
        move |arguments: &[&str], program: &str| {
            let mut command = Command::new(&launcher);
            command.arg("run").args(arguments).args(["--", "python3"]);
            let script = package().join(format!("tests/python/{program}.py"));
            run(command.arg(script).arg(kernel_of(program)))
        }
    };
    check(launched_by(environment.join("bin/cuda-sim")));

    pip(&["uninstall", "--yes", "cuda-sim"]);
    assert_eq!(files(environment), before);

    let unpacked = packages.unpack(packages.folder.path());
    check(launched_by(unpacked.join("bin/cuda-sim")));
}

#[test]
fn the_packages_have_only_their_own_files() {
    let Some(packages) = Packages::new() else {
        return;
    };
    let name = packages.wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-py3-none-manylinux_2_"), "{name}");
    let check = |archive: &Path, wheel: &Path| {
        let program = "import pathlib, sys\n\
            sys.path.append(sys.argv[1])\n\
            import check\n\
            archive, wheel = map(pathlib.Path, sys.argv[2:])\n\
            check.check_archive('linux', archive)\n\
            check.check_wheel('linux', wheel)";
        let mut python = Command::new(packages.environment.join("bin/python3"));
        python.args(["-B", "-c", program]);
        python.arg(package().join("../../xtask/dist"));
        run(python.arg(archive).arg(wheel))
    };
    let good = check(&packages.archive, &packages.wheel);
    assert!(good.status.success(), "{}", text(&good));

    // An archive with one more file.
    let unpacked = packages.unpack(packages.folder.path());
    fs::write(unpacked.join("lib/libnvrtc.so"), "").unwrap();
    let other = packages.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let other = other.join(packages.archive.file_name().unwrap());
    let mut pack = Command::new("tar");
    pack.arg("-czf")
        .arg(&other)
        .arg("-C")
        .arg(packages.folder.path());
    must(pack.arg(unpacked.file_name().unwrap()));
    let bad = check(&other, &packages.wheel);
    assert!(text(&bad).contains("lib/libnvrtc.so"), "{}", text(&bad));
    assert!(!bad.status.success());
}
