//! Tests with two users of one machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is a part of tests, which panic if the machine cannot run them"
)]

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skipped;

/// The user whose process the other user attacks. No account of a machine has this number.
pub const VICTIM: u32 = 61_001;

/// The other user.
pub const OTHER: u32 = 61_002;

/// A folder in which files can be given to different users.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Prepares the temporary folder `root` of this process. If that is not possible, reports that
    /// `test` is skipped and why: only root can give files to other users.
    ///
    /// # Panics
    ///
    /// Panics if the folder cannot be used.
    #[must_use]
    pub fn new(root: &Path, test: &str) -> Option<Self> {
        let tree = Self {
            root: root.canonicalize().unwrap(),
        };
        let probe = tree.root.join("probe");
        fs::write(&probe, "").unwrap();
        if let Err(error) = chown(&probe, Some(OTHER), Some(OTHER)) {
            skipped(&format!(
                "{test}: files cannot be given to other users, which needs root: {error}"
            ));
            return None;
        }
        fs::remove_file(&probe).unwrap();
        fs::set_permissions(&tree.root, Permissions::from_mode(0o755)).unwrap();
        // The program's own folder may be accessible only to its user.
        fs::copy(env::current_exe().unwrap(), tree.path("program")).unwrap();
        let output = tree
            .command(VICTIM, "--list")
            .output()
            .is_ok_and(|output| output.status.success());
        if !output {
            skipped(&format!(
                "{test}: another user cannot start a program in {}",
                tree.root.display()
            ));
        }
        output.then_some(tree)
    }

    /// Returns a path in the folder.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Creates the folder `path` with the given owner and permissions. Its parents must exist.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be created.
    pub fn dir(&self, path: &str, owner: u32, mode: u32) {
        fs::create_dir(self.path(path)).unwrap();
        self.give(path, owner, mode);
    }

    /// Creates the folders of `path` that do not exist, owned by `owner`.
    ///
    /// # Panics
    ///
    /// Panics if one cannot be created.
    pub fn dirs(&self, path: &str, owner: u32) {
        let mut at = PathBuf::new();
        for name in Path::new(path) {
            at.push(name);
            if !self.path(&at).exists() {
                self.dir(at.to_str().unwrap(), owner, 0o755);
            }
        }
    }

    /// Creates a file with the given text, owned by `owner`.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be created.
    pub fn file(&self, path: &str, owner: u32, text: &str) {
        fs::write(self.path(path), text).unwrap();
        self.give(path, owner, 0o644);
    }

    /// Creates a symbolic link, owned by `owner`.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be created.
    pub fn link(&self, path: &str, owner: u32, target: impl AsRef<Path>) {
        let link = self.path(path);
        std::os::unix::fs::symlink(target, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(owner), Some(owner)).unwrap();
    }

    /// Gives the file or folder to `owner` and to the group of the same number, and sets its
    /// permissions.
    ///
    /// # Panics
    ///
    /// Panics if that fails.
    pub fn give(&self, path: &str, owner: u32, mode: u32) {
        let path = self.path(path);
        chown(&path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(path.metadata().unwrap().uid(), owner);
    }

    /// Runs the ignored test `test` of this program in a process of `user`, with only the given
    /// environment variables. Returns its output.
    ///
    /// # Panics
    ///
    /// Panics if the test fails.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, user: u32, test: &str, variables: &[(&str, S)]) -> String {
        let mut command = self.command(user, test);
        for (name, value) in variables {
            command.env(name, value);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        text
    }

    /// Returns the command that [`run`](Self::run) runs.
    #[must_use]
    pub fn command(&self, user: u32, test: &str) -> Command {
        let mut command = Command::new(self.path("program"));
        command
            .args([test, "--exact", "--ignored", "--nocapture"])
            .arg("--test-threads=1")
            .env_clear()
            .current_dir(&self.root)
            .uid(user)
            .gid(user);
        command
    }
}
