//! The folder of a cache: made, and looked at for who may write to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Makes the folder, for this user alone, and checks that none but this user and root can put anything into it or
/// put another in its place. Answers its path without symbolic links, or what is wrong.
pub(super) fn prepare(dir: &Path, create: bool) -> Result<PathBuf, String> {
    let wrong = |error: io::Error| format!("{}: {error}", dir.display());
    if create {
        make(dir).map_err(wrong)?;
    }
    let dir = dir.canonicalize().map_err(wrong)?;
    if !dir.metadata().map_err(wrong)?.is_dir() {
        return Err(format!("{} is no folder", dir.display()));
    }
    for folder in dir.ancestors() {
        check(folder, folder == dir)?;
    }
    Ok(dir)
}

/// Checks a folder within that of the cache, if it is there: it has to be one, no link to another, and for this user
/// alone too.
pub(super) fn check_within(folder: &Path) -> Result<(), String> {
    match folder.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => check(folder, true),
        Ok(_) => Err(format!("{} is no folder", folder.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{}: {error}", folder.display())),
    }
}

#[cfg(unix)]
pub(super) fn make(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

#[cfg(not(unix))]
pub(super) fn make(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Whether others could change what is in `folder`: itself for the cache's own, its entries' names for those above.
#[cfg(unix)]
fn check(folder: &Path, own: bool) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let metadata = folder
        .metadata()
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    // SAFETY: nothing is required ← it only answers a number.
    let user = unsafe { libc::geteuid() };
    if metadata.uid() != 0 && metadata.uid() != user {
        return Err(format!("{} belongs to another user", folder.display()));
    }
    // In a folder with the sticky bit nobody can rename what belongs to another.
    let open = metadata.mode() & WRITABLE_BY_OTHERS != 0;
    if open && (own || metadata.mode() & STICKY == 0) {
        return Err(format!("others can write to {}", folder.display()));
    }
    Ok(())
}

/// Whether others could change what is in `folder`. The folders of a user are the user's own here, by inheritance.
#[cfg(not(unix))]
fn check(_folder: &Path, _own: bool) -> Result<(), String> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::prepare;

    #[test]
    fn a_new_folder_is_for_its_user_alone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        assert!(prepare(&dir, false).is_err());
        let real = prepare(&dir, true).unwrap();
        assert_eq!(real, dir.canonicalize().unwrap());
        assert_eq!(
            fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a");
        for (mode, good) in [
            (0o700, true),
            (0o755, true),
            (0o775, false),
            (0o1777, false),
        ] {
            fs::create_dir_all(&dir).unwrap();
            fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
            assert_eq!(prepare(&dir, true).is_ok(), good, "{mode:o}");
            // One above it.
            let inner = dir.join("inner");
            let good = good || mode & 0o1000 != 0;
            assert_eq!(prepare(&inner, true).is_ok(), good, "inner, {mode:o}");
            fs::remove_dir_all(&dir).unwrap();
        }
        // Not through a link, either.
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        symlink(&dir, temp.path().join("link")).unwrap();
        assert!(prepare(&temp.path().join("link"), true).is_err());
    }

    #[test]
    fn a_file_is_no_folder() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(prepare(&file, true).is_err());
        assert!(prepare(&file.join("below"), true).is_err());
    }
}
