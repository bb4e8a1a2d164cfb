//! The check of owners and permissions for folders that are searched implicitly.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
mod unix;

/// The reason why a path is not trusted.
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
    /// There is a symbolic link in a folder that must not contain any.
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A path goes through too many symbolic links.
    TooManyLinks {
        /// The first link that is not followed.
        path: PathBuf,
        /// The largest number of links that are followed.
        most: usize,
    },
}

impl Untrusted {
    /// Returns whether the path does not exist or cannot be read, so that nothing was refused.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// Returns the component that caused the refusal.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::OtherOwner { path, .. }
            | Self::WritableByOthers { path, .. }
            | Self::WritableByGroup { path, .. }
            | Self::AccessList { path }
            | Self::Link { path }
            | Self::TooManyLinks { path, .. } => path,
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
                "{path} belongs to another user (uid {owner}); it must belong to this user or \
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
                "{path} is a symbolic link in a folder that must not contain any; replace the link by its target"
            ),
            Self::TooManyLinks { most, .. } => write!(
                f,
                "{path} is a symbolic link after {most} others in the same path, the largest number that is followed; use the path of the target"
            ),
        }
    }
}

impl Error for Untrusted {}

/// The set of users whose files are trusted: root and the effective user of this process.
///
/// On systems other than Unix every existing path is trusted, because a user's folders there
/// inherit an access control list that lets only the user write.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The trusted users other than root.
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

    /// Adds the owner of `file` to the trusted users, if `file` exists. This is for the folders
    /// around the running program, whose owner has chosen all of its code already.
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

    /// Resolves all symbolic links of `path`, and checks that no other user can change what the
    /// result refers to.
    ///
    /// Every component from the root down must belong to root or to a trusted user and must not be
    /// writable by others, with two exceptions. A component may be writable by
    /// - a group without other members: the user's private group, root's group, or a group of the
    ///   distribution of which no other user is a member;
    /// - everyone, if it is a folder with the sticky bit, such as `/tmp`, and not the last
    ///   component: other users cannot replace an entry there that does not belong to them.
    ///
    /// The folders that contain a link are checked in the same way as those of its target, and so
    /// is the owner of the link. The result contains no links, and no other user can insert one. So
    /// opening the result opens the file or folder that was checked.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first component that is not trusted.
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

    /// [Resolves](Self::resolve) `dir`, which must be a folder.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first component that is not trusted, or with `dir` if it is not a
    /// folder.
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

    /// Creates the folder `dir` and its missing parents, accessible only to this user, and
    /// [resolves](Self::resolve_dir) it. Nothing is created in a folder that is not trusted.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first component that is not trusted or cannot be created.
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
                    // Another process of this user may have created it meanwhile.
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

    /// Checks the owner and the permissions of everything below `dir`, which must have been
    /// [resolved](Self::resolve_dir). Symbolic links are not allowed. The permissions are not
    /// checked if other users cannot enter `dir`.
    ///
    /// # Errors
    ///
    /// [`Untrusted`] with the first file or folder that is not trusted.
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
