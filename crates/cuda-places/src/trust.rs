//! The check of owners and permissions of folders that are searched implicitly.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
mod unix;

/// Why a path is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untrusted {
    /// The path does not exist, or cannot be read.
    Io {
        /// The component that could not be read.
        path: PathBuf,
        /// The kind of the system's error.
        kind: io::ErrorKind,
        /// The system's error.
        message: String,
    },
    /// A component belongs to another user.
    OtherOwner {
        /// The component.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Every user can write to a component.
    WritableByOthers {
        /// The component.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A group with other members can write to a component.
    WritableByGroup {
        /// The component.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// The group.
        group: u32,
    },
    /// An access control list may allow other users to write to a component.
    AccessList {
        /// The component.
        path: PathBuf,
    },
    /// There is a symbolic link where none may be, or too many of them follow each other.
    Link {
        /// The link.
        path: PathBuf,
    },
}

impl Untrusted {
    /// Whether the path does not exist, or cannot be read: then nothing was refused.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// The component that is at fault.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::OtherOwner { path, .. }
            | Self::WritableByOthers { path, .. }
            | Self::WritableByGroup { path, .. }
            | Self::AccessList { path }
            | Self::Link { path } => path,
        }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path().display();
        match self {
            Self::Io { message, .. } => write!(f, "{path}: {message}"),
            Self::OtherOwner { owner, .. } => write!(
                f,
                "{path} belongs to another user (uid {owner}); it has to belong to this user or \
                 to root"
            ),
            Self::WritableByOthers { mode, .. } => write!(
                f,
                "{path} is writable by other users (mode {mode:04o}); run `chmod o-w {path}`"
            ),
            Self::WritableByGroup { mode, group, .. } => write!(
                f,
                "{path} is writable by other users through group {group} (mode {mode:04o}); run \
                 `chmod g-w {path}`"
            ),
            Self::AccessList { .. } => write!(
                f,
                "{path} may be writable by other users through its access control list; run \
                 `setfacl -b {path}`"
            ),
            Self::Link { .. } => write!(
                f,
                "{path} is a symbolic link where none is allowed, or one of more than 40 in a row"
            ),
        }
    }
}

impl Error for Untrusted {}

/// The users whose files are trusted: root and the effective user of this process.
///
/// On systems other than Unix every path that exists is trusted: the folders of a user there
/// inherit an access control list that lets only the user write.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Those beside root.
    #[cfg(unix)]
    users: Vec<u32>,
}

impl Trust {
    /// Trusts root and the effective user of this process.
    #[must_use]
    pub fn of_this_user() -> Self {
        Self {
            #[cfg(unix)]
            users: vec![unix::effective_user()],
        }
    }

    /// Also trusts the owner of `file`, if it exists. This is for the folders around a program that
    /// already runs: its owner has chosen all of its code.
    #[must_use]
    pub fn and_owner_of(self, file: &Path) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let mut users = self.users;
            users.extend(file.metadata().map(|metadata| metadata.uid()));
            Self { users }
        }
        #[cfg(not(unix))]
        {
            let _ = file;
            self
        }
    }

    /// Resolves every symbolic link of `path`, and checks that no other user can change what the
    /// result refers to.
    ///
    /// Every component from the root down has to belong to root or to a trusted user, and must not
    /// be writable by others. A component may be writable by
    /// - a group without other members: the user's private group, root's group, or a group of the
    ///   distribution that no other user is a member of;
    /// - everybody, if it is a folder with the sticky bit, such as `/tmp`, and not the last
    ///   component: other users cannot replace an entry there that does not belong to them.
    ///
    /// The folders that contain a link are checked like those of its target, and the owner of the
    /// link too. The result has no links left, and no other user can put one in its place. So what
    /// is opened by that path is what was checked.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first component that is at fault.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, Untrusted> {
        let path = std::path::absolute(path).map_err(|error| Untrusted::io(path, &error))?;
        #[cfg(unix)]
        {
            let real = unix::walk(&path, &self.users)?;
            let metadata = real
                .symlink_metadata()
                .map_err(|error| Untrusted::io(&real, &error))?;
            unix::check(&real, &metadata, &self.users, false)?;
            Ok(real)
        }
        #[cfg(not(unix))]
        match path.metadata() {
            Ok(_) => Ok(path),
            Err(error) => Err(Untrusted::io(&path, &error)),
        }
    }

    /// [Resolves](Self::resolve) `dir`, which has to be a folder.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first component that is at fault.
    pub fn resolve_dir(&self, dir: &Path) -> Result<PathBuf, Untrusted> {
        let real = self.resolve(dir)?;
        if real.is_dir() {
            Ok(real)
        } else {
            Err(Untrusted::io(
                &real,
                &io::Error::from(io::ErrorKind::NotADirectory),
            ))
        }
    }

    /// Creates the folder `dir` and those above it that do not exist, for this user alone, and
    /// [resolves](Self::resolve_dir) it. Nothing is created in a folder that is not trusted.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first component that is at fault, or that cannot be created.
    pub fn create_dir(&self, dir: &Path) -> Result<PathBuf, Untrusted> {
        let dir = std::path::absolute(dir).map_err(|error| Untrusted::io(dir, &error))?;
        #[cfg(unix)]
        {
            let mut names = Vec::new();
            let mut existing = dir.as_path();
            let mut at = loop {
                match (
                    unix::walk(existing, &self.users),
                    existing.parent(),
                    existing.file_name(),
                ) {
                    (Ok(real), ..) => break real,
                    (
                        Err(Untrusted::Io {
                            kind: io::ErrorKind::NotFound,
                            ..
                        }),
                        Some(parent),
                        Some(name),
                    ) => {
                        names.push(name);
                        existing = parent;
                    }
                    (Err(error), ..) => return Err(error),
                }
            };
            for name in names.into_iter().rev() {
                at.push(name);
                match unix::create_dir(&at) {
                    // Another process of this user may have been faster.
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(Untrusted::io(&at, &error));
                    }
                    _ => {}
                }
            }
            self.resolve_dir(&at)
        }
        #[cfg(not(unix))]
        {
            fs::create_dir_all(&dir).map_err(|error| Untrusted::io(&dir, &error))?;
            self.resolve_dir(&dir)
        }
    }

    /// Checks the owner and the permissions of everything below `dir`, which was
    /// [resolved](Self::resolve_dir). There must be no symbolic links. The permissions do not
    /// matter if other users cannot enter `dir`.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first file or folder that is at fault.
    pub fn check_tree(&self, dir: &Path) -> Result<(), Untrusted> {
        #[cfg(unix)]
        let is_closed = unix::is_closed(dir)?;
        let mut dirs = vec![dir.to_owned()];
        while let Some(dir) = dirs.pop() {
            let entries = fs::read_dir(&dir).map_err(|error| Untrusted::io(&dir, &error))?;
            for entry in entries {
                let path = entry.map_err(|error| Untrusted::io(&dir, &error))?.path();
                let metadata = path
                    .symlink_metadata()
                    .map_err(|error| Untrusted::io(&path, &error))?;
                if metadata.is_symlink() {
                    return Err(Untrusted::Link { path });
                }
                #[cfg(unix)]
                {
                    unix::check_owner(&path, &metadata, &self.users)?;
                    if !is_closed {
                        unix::check(&path, &metadata, &self.users, false)?;
                    }
                }
                if metadata.is_dir() {
                    dirs.push(path);
                }
            }
        }
        Ok(())
    }
}
