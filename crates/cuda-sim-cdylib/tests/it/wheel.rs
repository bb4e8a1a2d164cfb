//! The Python package: installed in a new environment, used, and removed.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{library, text};

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

#[test]
fn the_wheel_runs_programs_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let environment = folder.path().join("venv");
    let made = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&environment)
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        test_needs::skipped("the Python package: `python3 -m venv` does not work here");
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = package.join("../../xtask/dist/build.py");
    let mut build = Command::new(environment.join("bin/python3"));
    build.arg(script).arg("--library").arg(library());
    must(build.arg("--out").arg(folder.path()));
    let packages: Vec<PathBuf> = files(folder.path())
        .into_iter()
        .filter(|path| path.parent() == Some(folder.path()) && path.is_file())
        .collect();
    let wheel = packages
        .iter()
        .find(|path| path.extension().is_some_and(|it| it == "whl"));
    let archive = packages
        .iter()
        .find(|path| path.extension().is_some_and(|it| it == "gz"));

    let before = files(&environment);
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(environment.join("bin/python3"));
        must(pip.args(["-m", "pip", "--quiet"]).args(arguments));
    };
    pip(&[
        "install",
        "--no-index",
        "--no-deps",
        wheel.unwrap().to_str().unwrap(),
    ]);

    let programs = package.join("tests/python");
    let add = package.join("../cuda-sim/tests/it/kernels/add.ptx");
    let check = |launcher: &Path| {
        let on_device = |arguments: &[&str], program: &str| {
            let mut command = Command::new(launcher);
            command.arg("run").args(arguments).args(["--", "python3"]);
            run(command.arg(programs.join(program)).arg(&add))
        };
        let plain = on_device(&[], "vector_add.py");
        assert_eq!(text(&plain), "the sum of 1000 pairs is right\n");
        assert_eq!(plain.status.code(), Some(0));
        let bad = on_device(&["--set", "check=all"], "out_of_bounds.py");
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
        let wrong = on_device(&["--set", "devices=many"], "vector_add.py");
        assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong));
        assert!(text(&wrong).contains("devices=many"));
    };
    check(&environment.join("bin/cuda-sim"));

    pip(&["uninstall", "--yes", "cuda-sim"]);
    assert_eq!(files(&environment), before);

    let mut unpack = Command::new("tar");
    must(
        unpack
            .arg("-xzf")
            .arg(archive.unwrap())
            .arg("-C")
            .arg(folder.path()),
    );
    let name = archive.unwrap().file_name().unwrap().to_str().unwrap();
    let unpacked = folder.path().join(name.trim_end_matches(".tar.gz"));
    check(&unpacked.join("bin/cuda-sim"));
}
