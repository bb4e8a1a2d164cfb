//! Where NVIDIA's compilers and linkers may be: those that come with a toolkit, not with the driver.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::named;

/// The folder that `cargo xtask setup` fills, below Cargo's target folder.
const SETUP_DIR: &str = "cuda-setup";

/// The files that Cargo writes to its target folder: one of them is there from the first build on.
const TARGET_MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// Where a toolkit for several targets has the libraries of this one.
const TARGET: &str = if cfg!(target_arch = "aarch64") {
    "targets/sbsa-linux/lib"
} else {
    "targets/x86_64-linux/lib"
};

/// The files to try, in order: what the environment variable `variable` names, alone, when it is set; else `names` on the
/// system loader's path, in the toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual places, in `packages` below the
/// site-packages of Python and conda environments, and in the folder that `cargo xtask setup` fills.
pub(super) fn candidates(variable: &str, names: &[&str], packages: &[&str]) -> Vec<PathBuf> {
    if let Some(path) = named(variable) {
        return vec![path];
    }
    let mut paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    for dir in toolkit_dirs()
        .into_iter()
        .chain(python_dirs(packages))
        .chain(setup_dir().map(|setup| setup.join("lib")))
    {
        paths.extend(
            names
                .iter()
                .map(|name| dir.join(name))
                .filter(|path| path.is_file()),
        );
    }
    paths
}

/// The toolkits of `CUDA_PATH`, `CUDA_HOME` and the usual places, there or not.
pub(super) fn toolkits() -> impl Iterator<Item = PathBuf> {
    let roots = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(named);
    roots.chain(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from))
}

fn toolkit_dirs() -> Vec<PathBuf> {
    toolkits()
        .flat_map(|root| ["lib64", "lib", TARGET, "bin/x64", "bin"].map(|dir| root.join(dir)))
        .collect()
}

fn python_dirs(packages: &[&str]) -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(named);
    let user = named("HOME").map(|home| home.join(".local"));
    let mut dirs = Vec::new();
    for root in environments
        .chain(user)
        .chain(["/usr/local", "/usr"].map(PathBuf::from))
    {
        dirs.push(root.join("lib"));
        let mut sites = vec![
            root.join("Lib/site-packages"),
            root.join("lib/python3/dist-packages"),
        ];
        if let Ok(entries) = fs::read_dir(root.join("lib")) {
            let mut pythons: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            pythons.retain(|path| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("python3."))
            });
            // The newest first; the order of a folder's entries is no order.
            pythons.sort();
            pythons.reverse();
            sites.extend(pythons.iter().flat_map(|python| {
                ["site-packages", "dist-packages"].map(|name| python.join(name))
            }));
        }
        for site in sites {
            let common = ["nvidia/cu13/lib", "nvidia/cu13/bin/x86_64"];
            dirs.extend(common.iter().chain(packages).map(|dir| site.join(dir)));
        }
    }
    dirs
}

/// `target/cuda-setup` of the workspace that this program was built in, if it is there.
///
/// Not of the folder that it is run in, nor of any other: whoever can write there would choose the code that this
/// program loads.
pub(super) fn setup_dir() -> Option<PathBuf> {
    setup_dir_of(&env::current_exe().ok()?)
}

/// The `cuda-setup` in the target folder that `program` lies in.
fn setup_dir_of(program: &Path) -> Option<PathBuf> {
    program
        .ancestors()
        .skip(1)
        .filter(|dir| TARGET_MARKS.iter().any(|mark| dir.join(mark).is_file()))
        .filter(|dir| is_of(dir, program))
        .map(|dir| dir.join(SETUP_DIR))
        .find(|setup| setup.is_dir())
}

/// Whether `dir` belongs to the owner of `program` or to root, and not everybody can write to it.
#[cfg(unix)]
fn is_of(dir: &Path, program: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const WRITABLE_BY_ALL: u32 = 0o002;
    let (Ok(dir), Ok(program)) = (dir.metadata(), program.metadata()) else {
        return false;
    };
    (dir.uid() == 0 || dir.uid() == program.uid()) && dir.mode() & WRITABLE_BY_ALL == 0
}

/// Whether `dir` belongs to the owner of `program`. The folders of a user are the user's own here, by inheritance.
#[cfg(not(unix))]
fn is_of(_dir: &Path, _program: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{TARGET_MARKS, setup_dir_of};

    /// A program in `debug/deps` below `root`, with the folder of `cargo xtask setup` in `root`.
    fn program(root: &Path) -> std::path::PathBuf {
        let deps = root.join("debug/deps");
        fs::create_dir_all(&deps).unwrap();
        fs::create_dir_all(root.join("cuda-setup/lib")).unwrap();
        let program = deps.join("program");
        fs::write(&program, "").unwrap();
        program
    }

    #[test]
    fn only_the_target_folder_of_the_program_is_looked_in() {
        for mark in TARGET_MARKS {
            let temp = tempfile::tempdir().unwrap();
            let root = temp.path().join("any-name");
            let program = program(&root);
            assert_eq!(setup_dir_of(&program), None);
            fs::write(root.join(mark), "").unwrap();
            assert_eq!(setup_dir_of(&program), Some(root.join("cuda-setup")));
            // Of the target folders that it lies in, the one that was filled.
            let inner = root.join("debug/deps/inner");
            let other = self::program(&inner);
            fs::write(inner.join(mark), "").unwrap();
            assert_eq!(setup_dir_of(&other), Some(inner.join("cuda-setup")));
            fs::remove_dir_all(inner.join("cuda-setup")).unwrap();
            assert_eq!(setup_dir_of(&other), Some(root.join("cuda-setup")));
        }
    }

    #[test]
    fn no_program_has_no_target_folder() {
        assert_eq!(setup_dir_of(Path::new("")), None);
        assert_eq!(setup_dir_of(Path::new("program")), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_target_folder_that_all_can_write_to_is_not_looked_in() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("target");
        let program = program(&root);
        fs::write(root.join(TARGET_MARKS[0]), "").unwrap();
        for (mode, good) in [
            (0o755, true),
            (0o775, true),
            (0o777, false),
            (0o1777, false),
        ] {
            fs::set_permissions(&root, Permissions::from_mode(mode)).unwrap();
            assert_eq!(setup_dir_of(&program).is_some(), good, "{mode:o}");
        }
    }
}
