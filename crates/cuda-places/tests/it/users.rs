//! The check of folders, with two users: the victim, who runs it, and another.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use cuda_places::{Trust, is_privileged, variable};
use test_needs::users::{OTHER, Tree, VICTIM};

/// The paths that the processes of the test deal with.
const PATHS: &str = "CUDA_PLACES_TEST_PATHS";

fn paths() -> Vec<PathBuf> {
    let paths = env::var_os(PATHS).unwrap_or_default();
    env::split_paths(&paths).collect()
}

fn joined(paths: &[PathBuf]) -> [(&'static str, std::ffi::OsString); 1] {
    [(PATHS, env::join_paths(paths).unwrap())]
}

#[test]
#[ignore = "a process of another test"]
fn resolves() {
    println!();
    for path in paths() {
        match Trust::of_this_user().resolve(&path) {
            Ok(real) => println!("trusted {}", real.display()),
            Err(error) => println!("refused {error}"),
        }
    }
}

/// Tries to put something else in the place of each path and of each folder above it.
#[test]
#[ignore = "a process of another test"]
fn attacks() {
    println!();
    for path in paths() {
        for at in path.ancestors().filter(|at| at.parent().is_some()) {
            let aside = at.with_file_name("aside");
            let done = fs::rename(at, &aside).is_ok()
                || fs::remove_file(at).is_ok()
                || fs::remove_dir(at).is_ok()
                // A new name in a sticky folder above is harmless.
                || at == path && File::create(at.join("planted")).is_ok()
                || File::options().append(true).open(at).is_ok();
            assert!(!done, "{}", at.display());
        }
    }
}

/// The lines of the child that resolves.
fn resolved(tree: &Tree, paths: &[PathBuf]) -> Vec<String> {
    tree.run(VICTIM, "users::resolves", &joined(paths))
        .lines()
        .filter(|line| line.starts_with("trusted ") || line.starts_with("refused "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn folders_that_another_user_can_change_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = Tree::new(temp.path(), "folders of two users") else {
        return;
    };
    tree.dir("home", VICTIM, 0o755);
    tree.dir("other", OTHER, 0o755);
    tree.dirs("other/lib", OTHER);
    tree.dir("open", VICTIM, 0o777);
    tree.dirs("open/lib", VICTIM);
    tree.dir("group", VICTIM, 0o775);
    tree.dir("sticky", 0, 0o1777);
    tree.dirs("sticky/other", OTHER);
    tree.dirs("root", 0);
    tree.link("home/to-other", VICTIM, tree.path("other/lib"));
    tree.link("home/to-open", VICTIM, "../open/lib");
    tree.link("open/to-root", VICTIM, tree.path("root"));
    tree.link("sticky/to-root", OTHER, tree.path("root"));
    tree.link("home/twice", VICTIM, "../sticky/to-root");
    tree.file("home/file", VICTIM, "");
    tree.give("home/file", VICTIM, 0o666);
    tree.file("home/others-file", OTHER, "");
    let other = "belongs to another user (uid 61002)";
    let writable = "is writable by other users (mode 0777)";
    let cases = [
        ("open", "open", writable),
        ("open/lib", "open", writable),
        ("open/none/at/all", "open", writable),
        ("other", "other", other),
        ("other/lib", "other", other),
        // The group 61001 is not known, so its members are not.
        (
            "group",
            "group",
            "is writable by other users through group 61001",
        ),
        ("sticky", "sticky", "is writable by other users (mode 1777)"),
        ("sticky/other", "sticky/other", other),
        ("home/to-other", "other", other),
        ("home/to-open", "open", writable),
        ("open/to-root", "open", writable),
        ("sticky/to-root", "sticky/to-root", other),
        ("home/twice", "sticky/to-root", other),
        ("home/../other/lib", "other", other),
        (
            "home/file",
            "home/file",
            "is writable by other users (mode 0666)",
        ),
        ("home/others-file", "home/others-file", other),
    ];
    let paths: Vec<PathBuf> = cases.iter().map(|case| tree.path(case.0)).collect();
    let lines = resolved(&tree, &paths);
    assert_eq!(lines.len(), cases.len(), "{lines:?}");
    for ((path, at, reason), line) in cases.into_iter().zip(lines) {
        let expected = format!("refused {} {reason}", tree.path(at).display());
        assert!(line.starts_with(&expected), "{path}: {line}");
    }
}

#[test]
fn folders_that_no_other_user_can_change_are_trusted() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = Tree::new(temp.path(), "folders of one user") else {
        return;
    };
    tree.dir("home", VICTIM, 0o755);
    tree.dirs("home/lib", VICTIM);
    tree.dir("closed", VICTIM, 0o700);
    tree.dirs("closed/lib", VICTIM);
    tree.dirs("root/lib", 0);
    tree.dir("sticky", 0, 0o1777);
    tree.dirs("sticky/mine/lib", VICTIM);
    tree.link("home/to-root", VICTIM, tree.path("root"));
    tree.link("root/to-home", 0, "../home/lib");
    tree.link("sticky/to-home", VICTIM, tree.path("home"));
    let cases = [
        ("home/lib", "home/lib"),
        ("closed/lib", "closed/lib"),
        ("root/lib", "root/lib"),
        ("sticky/mine/lib", "sticky/mine/lib"),
        ("home/to-root/lib", "root/lib"),
        ("root/to-home", "home/lib"),
        ("sticky/to-home/lib", "home/lib"),
    ];
    let paths: Vec<PathBuf> = cases.iter().map(|case| tree.path(case.0)).collect();
    let lines = resolved(&tree, &paths);
    assert_eq!(lines.len(), cases.len(), "{lines:?}");
    for ((path, real), line) in cases.into_iter().zip(lines) {
        let expected = format!("trusted {}", tree.path(real).display());
        assert_eq!(line, expected, "{path}");
    }
    // The other user can put nothing in the place of what was accepted, and replace no link.
    let _ = tree.run(OTHER, "users::attacks", &joined(&paths));
}

/// Between the check and the use, the owner of the link points it at another user's folder.
#[test]
fn a_link_that_is_swapped_later_is_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    fs::create_dir(root.join("good")).unwrap();
    fs::create_dir(root.join("bad")).unwrap();
    for (dir, text) in [("good", "good"), ("bad", "bad")] {
        fs::write(root.join(dir).join("file"), text).unwrap();
    }
    let link = root.join("link");
    std::os::unix::fs::symlink("good", &link).unwrap();
    let real = Trust::of_this_user().resolve(&link.join("file")).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("bad", &link).unwrap();
    assert_eq!(fs::read_to_string(link.join("file")).unwrap(), "bad");
    assert_eq!(fs::read_to_string(real).unwrap(), "good");
}

#[test]
#[ignore = "a process of another test"]
fn reads_the_environment() {
    println!("\nprivileged: {}", is_privileged());
    println!("variable: {:?}", variable("CUDA_PLACES_TEST"));
    println!("empty: {:?}", variable("CUDA_PLACES_EMPTY"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_privileged_program_ignores_the_environment() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = Tree::new(temp.path(), "a set-user-ID program") else {
        return;
    };
    let run = || {
        let variables = [("CUDA_PLACES_TEST", "value"), ("CUDA_PLACES_EMPTY", "")];
        tree.run(OTHER, "users::reads_the_environment", &variables)
    };
    let text = run();
    assert!(text.contains("\nprivileged: false\n"), "{text}");
    assert!(
        text.contains("\nvariable: Some(\"value\")\nempty: None\n"),
        "{text}"
    );
    tree.give("program", VICTIM, 0o4755);
    let text = run();
    if text.contains("\nprivileged: false\n") {
        test_needs::skipped(
            "a set-user-ID program: the file system of the temporary folder has none",
        );
        return;
    }
    assert!(text.contains("\nvariable: None\nempty: None\n"), "{text}");
}

/// The path of a folder that does not exist is checked as far as it exists.
#[test]
fn a_missing_folder_is_absent() {
    let error = Trust::of_this_user()
        .resolve(Path::new("/no/such/folder"))
        .unwrap_err();
    assert!(error.is_absent(), "{error}");
}
