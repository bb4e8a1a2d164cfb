//! The folder that `cargo xtask setup` fills.

use std::env;
use std::path::{Path, PathBuf};

use crate::Trust;

/// The name of the folder that `cargo xtask setup` fills, below Cargo's target folder.
const NAME: &str = "cuda-setup";

/// The files that Cargo writes to its target folder. One of them exists after the first build.
const TARGET_MARKS: [&str; 2] = ["CACHEDIR.TAG", ".rustc_info.json"];

/// The folder that `cargo xtask setup` fills.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The path of the folder, which exists but has not been checked.
    pub dir: PathBuf,
    /// The trust with which to check the folder and its content. It includes the owner of the
    /// program, as in [`Trust::and_owner_of`].
    pub trust: Trust,
}

impl Setup {
    /// Returns the folder `cuda-setup` in the Cargo target folder that contains `file`, or `None`
    /// if there is none.
    ///
    /// `file` is the running program or the output folder of a build script. No other folder is
    /// searched, in particular not the current one.
    #[must_use]
    pub fn around(file: &Path) -> Option<Self> {
        file.ancestors()
            .skip(1)
            .filter(|dir| TARGET_MARKS.iter().any(|mark| dir.join(mark).is_file()))
            .map(|dir| dir.join(NAME))
            .find(|dir| dir.is_dir())
            .map(|dir| Self {
                dir,
                trust: Trust::of_this_user().and_owner_of(file),
            })
    }

    /// Returns the folder `cuda-setup` of the Cargo target folder that contains the running
    /// program: see [`around`](Self::around).
    #[must_use]
    pub fn around_this_program() -> Option<Self> {
        Self::around(&env::current_exe().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Setup, TARGET_MARKS};

    fn setup_dir(program: &Path) -> Option<PathBuf> {
        Setup::around(program).map(|setup| setup.dir)
    }

    /// Creates a program in `debug/deps` below `root`, and the folder `cuda-setup` in `root`.
    fn program(root: &Path) -> PathBuf {
        let deps = root.join("debug/deps");
        fs::create_dir_all(&deps).unwrap();
        fs::create_dir_all(root.join("cuda-setup/lib")).unwrap();
        let program = deps.join("program");
        fs::write(&program, "").unwrap();
        program
    }

    #[test]
    fn only_the_target_folder_of_the_program_is_searched() {
        for mark in TARGET_MARKS {
            let temp = tempfile::tempdir().unwrap();
            let root = temp.path().canonicalize().unwrap().join("any-name");
            let program = program(&root);
            assert_eq!(setup_dir(&program), None);
            fs::write(root.join(mark), "").unwrap();
            assert_eq!(setup_dir(&program), Some(root.join("cuda-setup")));
            // If several target folders contain each other, the innermost with `cuda-setup` is
            // used.
            let inner = root.join("debug/deps/inner");
            let other = self::program(&inner);
            fs::write(inner.join(mark), "").unwrap();
            assert_eq!(setup_dir(&other), Some(inner.join("cuda-setup")));
            fs::remove_dir_all(inner.join("cuda-setup")).unwrap();
            assert_eq!(setup_dir(&other), Some(root.join("cuda-setup")));
        }
    }

    #[test]
    fn a_path_without_parents_has_no_target_folder() {
        assert_eq!(setup_dir(Path::new("")), None);
        assert_eq!(setup_dir(Path::new("program")), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_writable_target_or_setup_folder_is_refused() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("target");
        let program = program(&root);
        fs::write(root.join(TARGET_MARKS[0]), "").unwrap();
        for dir in [root.clone(), root.join("cuda-setup")] {
            for (mode, good) in [(0o777, false), (0o755, true)] {
                fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
                let setup = Setup::around(&program).unwrap();
                let resolved = setup.trust.resolve_dir(&setup.dir);
                assert_eq!(resolved.is_ok(), good, "{dir:?} {mode:o}");
            }
        }
    }
}
