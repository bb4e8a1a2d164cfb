//! The packages in a folder that is the root for their programs. It has Python, the C library,
//! GCC's `libgcc_s.so.1` and `env`, but no Rust and no toolkit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{Packages, add_ptx, check, files, library, must, package, run};

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

#[test]
fn the_packages_need_only_python() {
    let Some(packages) = Packages::new() else {
        return;
    };
    let root = Root::new(packages.folder.path().join("root"), &packages);
    if !root.run("python3", &["-c", ""]).status.success() {
        test_needs::skipped("the packages in an empty root: unshare and chroot do not work here");
        return;
    }
    let programs = package().join("tests/python");
    for name in ["driver.py", "out_of_bounds.py", "vector_add.py"] {
        root.copy(&programs.join(name), &Path::new("/programs").join(name));
    }
    root.copy(&add_ptx(), Path::new("/programs/add.ptx"));
    let wheel = packages.wheel.file_name().unwrap().to_str().unwrap();
    let wheel = format!("/programs/{wheel}");
    root.copy(&packages.wheel, Path::new(&wheel));
    for name in ["cargo", "rustc", "cc", "nvcc", "nvidia-smi"] {
        let found = root.run("env", &[name]);
        assert_eq!(found.status.code(), Some(127), "{name} is in the root");
    }

    let on_device = |launcher: &str, arguments: &[&str], program: &str| {
        let program = format!("/programs/{program}");
        let command = ["--", "python3", &program, "/programs/add.ptx"];
        root.run(launcher, &[&["run"], arguments, &command].concat())
    };
    let before = files(&root.folder);
    root.pip(&["install", "--no-index", "--no-deps", &wheel]);
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
