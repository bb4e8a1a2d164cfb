//! The check of folders, with the files of one user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use cuda_places::{Trust, Untrusted};

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_created_folder_is_for_its_user_alone() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("a/b");
    let trust = Trust::of_this_user();
    assert!(trust.resolve_dir(&dir).unwrap_err().is_absent());
    let real = trust.create_dir(&dir).unwrap();
    assert_eq!(real, dir.canonicalize().unwrap());
    for dir in [&dir, &temp.path().join("a")] {
        let mode = dir.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    assert_eq!(trust.create_dir(&dir), Ok(real));
}

#[test]
fn nothing_is_created_in_a_writable_folder() {
    let temp = tempfile::tempdir().unwrap();
    let open = temp.path().join("open");
    fs::create_dir(&open).unwrap();
    set(&open, 0o777);
    symlink(&open, temp.path().join("link")).unwrap();
    for dir in ["open/a/b", "link/a", "open/../open/a"] {
        let error = Trust::of_this_user()
            .create_dir(&temp.path().join(dir))
            .unwrap_err();
        assert!(
            matches!(error, Untrusted::WritableByOthers { .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("open is writable by other users (mode 0777)"),
            "{text}"
        );
        assert!(text.contains("chmod o-w "), "{text}");
    }
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
}

#[test]
fn a_sticky_folder_is_trusted_only_above_another() {
    let temp = tempfile::tempdir().unwrap();
    let sticky = temp.path().join("sticky");
    fs::create_dir(&sticky).unwrap();
    set(&sticky, 0o1777);
    let trust = Trust::of_this_user();
    let refused =
        |dir: &Path| matches!(trust.resolve(dir), Err(Untrusted::WritableByOthers { .. }));
    assert!(refused(&sticky));
    let inner = trust.create_dir(&sticky.join("inner")).unwrap();
    assert_eq!(trust.resolve(&sticky.join("inner")), Ok(inner.clone()));
    // Also by another way to it.
    assert!(refused(&inner.join("..")));
    symlink("..", inner.join("up")).unwrap();
    assert!(refused(&inner.join("up")));
}

#[test]
fn links_are_resolved_and_loops_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let trust = Trust::of_this_user();
    fs::create_dir_all(root.join("a/b")).unwrap();
    symlink("../a/./b", root.join("a/relative")).unwrap();
    symlink(root.join("a"), root.join("absolute")).unwrap();
    fs::write(root.join("a/b/file"), "").unwrap();
    for path in [
        "a/relative/file",
        "absolute/b/file",
        "absolute/relative/../b/file",
    ] {
        assert_eq!(trust.resolve(&root.join(path)), Ok(root.join("a/b/file")));
    }
    symlink("loop", root.join("loop")).unwrap();
    let error = trust.resolve(&root.join("loop")).unwrap_err();
    assert!(
        matches!(error, Untrusted::TooManyLinks { most: 40, .. }),
        "{error}"
    );
    for path in ["a/b/file/..", "a/b/file/more", "none"] {
        let error = trust.resolve(&root.join(path)).unwrap_err();
        assert!(error.is_absent(), "{error}");
    }
    assert!(trust.resolve_dir(&root.join("a/b/file")).is_err());
    assert!(trust.create_dir(&root.join("a/b/file")).is_err());
    assert!(trust.create_dir(&root.join("a/b/file/below")).is_err());
}

#[test]
fn a_tree_must_not_contain_links() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let trust = Trust::of_this_user();
    fs::create_dir(root.join("a")).unwrap();
    fs::write(root.join("a/file"), "").unwrap();
    assert_eq!(trust.check_tree(&root), Ok(()));
    // The permissions in a folder that is closed to others do not matter.
    set(&root.join("a/file"), 0o666);
    set(&root, 0o700);
    assert_eq!(trust.check_tree(&root), Ok(()));
    set(&root, 0o755);
    assert!(trust.check_tree(&root).is_err());
    set(&root.join("a/file"), 0o644);
    assert_eq!(trust.check_tree(&root), Ok(()));
    symlink("file", root.join("a/link")).unwrap();
    let error = trust.check_tree(&root).unwrap_err();
    assert_eq!(error.path(), root.join("a/link"));
    assert!(matches!(error, Untrusted::Link { .. }), "{error}");
}

#[test]
fn the_owner_of_a_file_can_be_trusted() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    if std::os::unix::fs::chown(&file, Some(12_345), None).is_err() {
        test_needs::skipped("the_owner_of_a_file_can_be_trusted: only root can change owners");
        return;
    }
    let trust = Trust::of_this_user();
    assert!(trust.resolve(&file).is_err());
    let absent = trust.clone().and_owner_of(&temp.path().join("absent"));
    assert!(absent.resolve(&file).is_err());
    let real = trust.and_owner_of(&file).resolve(&file).unwrap();
    assert_eq!(real, file.canonicalize().unwrap());
}
