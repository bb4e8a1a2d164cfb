//! The packages in a folder that is the root for their programs. It has Python, the C library,
//! GCC's `libgcc_s.so.1` and `env`, but no Rust and no toolkit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{Packages, check, files, kernel_of, must, run};
use crate::{library, package};

/// Parts of Python's library that the programs do not use.
const LEFT_OUT: &[&str] = &[
    "__pycache__",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "site-packages",
    "test",
    "tests",
    "tkinter",
];

/// A folder in which files have the paths that they have on this machine.
struct Root {
    folder: PathBuf,
    /// The interpreter, its prefix and its standard library.
    python: PathBuf,
    prefix: PathBuf,
    library: PathBuf,
}

impl Root {
    /// Copies the Python of this machine, and pip of the virtual environment.
    fn new(folder: PathBuf, packages: &Packages) -> Root {
        let asked = "import os, sys, sysconfig\n\
             base = {'installed_base': sys.base_prefix, 'base': sys.base_prefix}\n\
             print(os.path.realpath(sys.executable), sys.base_prefix, sep='\\n')\n\
             print(sysconfig.get_path('stdlib', vars=base))";
        let mut ask = Command::new(packages.environment.join("bin/python3"));
        let answer = must(ask.args(["-c", asked]));
        let mut lines = answer.lines().map(PathBuf::from);
        let mut next = || lines.next().unwrap();
        let root = Root {
            folder,
            python: next(),
            prefix: next(),
            library: next(),
        };
        root.copy_folder(&root.library, &root.library);
        let mut programs = vec![root.python.clone(), PathBuf::from("/usr/bin/env")];
        for program in &programs {
            root.copy(program, program);
        }
        let modules = files(&root.library.join("lib-dynload"));
        programs.extend(modules.into_iter().filter(|path| path.is_file()));
        let needed = root.libraries_of(&[library()]).into_iter();
        let runtime = needed.filter(|path| path.ends_with("libgcc_s.so.1"));
        for library in root.libraries_of(&programs).into_iter().chain(runtime) {
            root.copy(&library, &library);
        }
        // pip, from the virtual environment.
        let version = root.library.file_name().unwrap();
        let from = packages.environment.join("lib").join(version);
        let pip = from.join("site-packages/pip");
        root.copy_folder(&pip, &root.library.join("site-packages/pip"));
        for name in ["tmp", "usr/bin"] {
            fs::create_dir_all(root.folder.join(name)).unwrap();
        }
        let link = root.folder.join("usr/bin/python3");
        if !link.exists() {
            std::os::unix::fs::symlink(&root.python, link).unwrap();
        }
        root
    }

    /// Returns the place in the folder of an absolute path.
    fn inside(&self, path: &Path) -> PathBuf {
        self.folder.join(path.strip_prefix("/").unwrap())
    }

    fn copy(&self, from: &Path, to: &Path) {
        let to = self.inside(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }

    fn copy_folder(&self, from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            let source = from.join(&name);
            if LEFT_OUT.iter().any(|it| name == *it) {
                continue;
            }
            if source.is_dir() {
                self.copy_folder(&source, &to.join(&name));
            } else if source.is_file() {
                self.copy(&source, &to.join(&name));
            }
        }
    }

    /// Returns the shared libraries that programs load when they start.
    fn libraries_of(&self, programs: &[PathBuf]) -> BTreeSet<PathBuf> {
        // A module may need a library that this machine lacks.
        let listed = run(Command::new("ldd").args(programs));
        let listed = String::from_utf8(listed.stdout).unwrap();
        let paths = listed.split_whitespace().filter(|it| it.starts_with('/'));
        let paths = paths.filter(|it| !it.ends_with(':')).map(PathBuf::from);
        paths.collect()
    }

    /// Returns a command that runs with the folder as its root, and without a network.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "chroot"]);
        command.arg(&self.folder).arg(program);
        let path = format!("/usr/bin:/usr/sbin:{}", self.prefix.join("bin").display());
        command.env_clear().env("PATH", path).env("HOME", "/tmp");
        command
            .env("PIP_NO_CACHE_DIR", "1")
            .env("PIP_ROOT_USER_ACTION", "ignore");
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        run(self.command(program).args(arguments))
    }

    fn pip(&self, arguments: &[&str]) {
        let mut pip = self.command("python3");
        pip.args(["-m", "pip", "--quiet"]);
        must(pip.args(arguments));
    }
}

/// Returns a folder with Python for programs in `/programs`, which has the PTX and the wheel. If
/// this machine lacks what that needs, reports the test as skipped.
fn root_for_programs(packages: &Packages) -> Option<Root> {
    let root = Root::new(packages.folder.path().join("root"), packages);
    if !root.run("python3", &["-c", ""]).status.success() {
        test_needs::skipped("the packages in an empty root: unshare and chroot do not work here");
        return None;
    }
    let wheel = &packages.wheel;
    let kernels = ["vector_add", "out_of_bounds"].map(kernel_of);
    for file in kernels.iter().chain([wheel]) {
        root.copy(file, &in_programs(file));
    }
    for name in ["cargo", "rustc", "cc", "nvcc", "nvidia-smi"] {
        let found = root.run("env", &[name]);
        assert_eq!(found.status.code(), Some(127), "{name} is in the root");
    }
    Some(root)
}

/// Returns the path in the root of a file that is copied to `/programs`.
fn in_programs(file: &Path) -> PathBuf {
    Path::new("/programs").join(file.file_name().unwrap())
}

/// Checks programs with the wheel and with the archive, and that both leave nothing. `command` is
/// that of a program, without the PTX.
fn check_packages(root: &Root, packages: &Packages, command: impl Fn(&str) -> Vec<String>) {
    let on_device = |launcher: &str, arguments: &[&str], program: &str| {
        let mut words = vec!["run".to_owned()];
        words.extend(arguments.iter().map(|it| (*it).to_owned()));
        words.push("--".to_owned());
        words.extend(command(program));
        let kernel = in_programs(&kernel_of(program));
        run(root.command(launcher).args(words).arg(kernel))
    };
    let before = files(&root.folder);
    let wheel = in_programs(&packages.wheel);
    let install = ["install", "--no-index", "--no-deps"];
    root.pip(&[&install[..], &[wheel.to_str().unwrap()]].concat());
    check(|arguments, program| on_device("cuda-sim", arguments, program));
    root.pip(&["uninstall", "--yes", "cuda-sim"]);
    assert_eq!(files(&root.folder), before);

    let unpacked = packages.unpack(&root.folder);
    let name = unpacked.file_name().unwrap().to_str().unwrap();
    let launcher = format!("/{name}/bin/cuda-sim");
    check(|arguments, program| on_device(&launcher, arguments, program));
    fs::remove_dir_all(&unpacked).unwrap();
    assert_eq!(files(&root.folder), before);
}

#[test]
fn the_packages_need_only_python() {
    let Some(packages) = Packages::new() else {
        return;
    };
    let Some(root) = root_for_programs(&packages) else {
        return;
    };
    for name in ["driver.py", "out_of_bounds.py", "vector_add.py"] {
        let script = package().join("tests/python").join(name);
        root.copy(&script, &in_programs(&script));
    }
    check_packages(&root, &packages, |program| {
        vec!["python3".to_owned(), format!("/programs/{program}.py")]
    });
}

/// Builds the programs of `tests/cudarc` and returns the folder that has them.
fn cudarc_programs() -> PathBuf {
    // The folder is kept, so that only the first run compiles cudarc.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cudarc");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(package().join("tests/cudarc/Cargo.toml"));
    must(cargo.arg("--target-dir").arg(&target));
    target.join("debug")
}

#[test]
#[ignore = "builds cudarc; `cargo xtask ci --only outside` runs it"]
fn cudarc_programs_need_only_the_packages() {
    let Some(packages) = Packages::new() else {
        return;
    };
    let Some(root) = root_for_programs(&packages) else {
        return;
    };
    let built = cudarc_programs();
    let programs = ["vector_add", "out_of_bounds"].map(|name| built.join(name));
    for program in &programs {
        root.copy(program, &in_programs(program));
    }
    for library in root.libraries_of(&programs) {
        root.copy(&library, &library);
    }
    check_packages(&root, &packages, |program| {
        vec![format!("/programs/{program}")]
    });
}
