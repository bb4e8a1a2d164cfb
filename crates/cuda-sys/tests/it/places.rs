//! Libraries that another user has planted are not loaded; those of this user and of root are.

use std::path::Path;

use test_needs::users::{OTHER, Tree, VICTIM};

use crate::c_compiler::shared_library;

const CHILD: &str = "loader_nvrtc::child_looks_for_the_system_nvrtc";

const SITE: &str = "lib/python3.99/site-packages/nvidia/cu13/lib";

const NVRTC: &str = "libnvrtc.so.13";

/// A tree with a library in `source` that behaves as NVRTC 13.0.
fn tree(root: &Path, test: &str) -> Option<Tree> {
    let tree = Tree::new(root, test)?;
    tree.dir("source", 0, 0o755);
    let body = "int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }";
    shared_library(&tree.path("source"), "nvrtc", body)?;
    Some(tree)
}

/// Copies the library into `dir`, which is created.
fn plant(tree: &Tree, dir: &str, owner: u32) {
    tree.dirs(dir, owner);
    let file = format!("{dir}/{NVRTC}");
    std::fs::copy(tree.path("source/nvrtc.so"), tree.path(&file)).unwrap();
    tree.give(&file, owner, 0o644);
}

/// The output of the victim's process with the folder `value` in the environment variable
/// `variable`.
fn search(tree: &Tree, variable: &str, value: &str) -> String {
    tree.run(VICTIM, CHILD, &[(variable, tree.path(value))])
}

/// Asserts that the library in `dir` is not a candidate, and that the error gives the reason.
fn is_skipped(tree: &Tree, text: &str, dir: &str, at: &str, reason: &str) {
    let file = tree.path(dir).join(NVRTC).display().to_string();
    assert!(!text.contains(&format!("candidate {file}")), "{text}");
    assert!(!text.contains(&format!("loaded {file}")), "{text}");
    if text.contains("loaded ") {
        test_needs::skipped("the list of skipped places: this machine has NVRTC in another one");
        return;
    }
    let reason = format!(": skipped: {} {reason}", tree.path(at).display());
    assert!(text.contains(&reason), "{reason}: {text}");
    assert!(
        text.contains("or set CUDA_NVRTC_LIBRARY to the file"),
        "{text}"
    );
}

/// Asserts that the library in `dir` is a candidate, and that it is loaded if the machine has no
/// other one.
fn is_found(tree: &Tree, text: &str, dir: &str) {
    let file = tree.path(dir).join(NVRTC).display().to_string();
    assert!(text.contains(&format!("candidate {file}\n")), "{text}");
    let loaded = text.lines().find_map(|line| line.strip_prefix("loaded "));
    let loaded = loaded.unwrap_or_else(|| panic!("{text}"));
    if loaded != file {
        test_needs::skipped("which NVRTC is loaded: this machine has one in an earlier place");
    }
}

#[test]
fn a_planted_library_is_skipped_and_listed() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = tree(temp.path(), "a planted library") else {
        return;
    };
    let writable = "is writable by other users (mode 0777)";
    let others = "belongs to another user (uid 61002)";

    tree.dir("open", VICTIM, 0o777);
    let dir = format!("open/.local/{SITE}");
    plant(&tree, &dir, OTHER);
    is_skipped(
        &tree,
        &search(&tree, "HOME", "open"),
        &dir,
        "open",
        writable,
    );

    tree.dir("home", VICTIM, 0o755);
    let dir = format!("home/.local/{SITE}");
    tree.dirs("home/.local/lib", VICTIM);
    plant(&tree, &dir, OTHER);
    let at = "home/.local/lib/python3.99";
    is_skipped(&tree, &search(&tree, "HOME", "home"), &dir, at, others);

    // An environment that belongs to another user, and links to one.
    plant(&tree, &format!("other/{SITE}"), OTHER);
    plant(&tree, "other/lib", OTHER);
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let text = search(&tree, variable, "other");
        is_skipped(&tree, &text, "other/lib", "other", others);
    }
    tree.dirs("venv", VICTIM);
    tree.link("venv/lib", VICTIM, "../other/lib");
    let text = search(&tree, "VIRTUAL_ENV", "venv");
    is_skipped(&tree, &text, "venv/lib", "other", others);
    tree.dirs("conda/lib", VICTIM);
    let library = tree.path("other/lib").join(NVRTC);
    tree.link(&format!("conda/lib/{NVRTC}"), VICTIM, library);
    let text = search(&tree, "CONDA_PREFIX", "conda");
    is_skipped(&tree, &text, "conda/lib", "other", others);

    // In a folder such as /tmp, any user can plant an environment of any name.
    tree.dir("sticky", 0, 0o1777);
    plant(&tree, "sticky/venv/lib", OTHER);
    let text = search(&tree, "VIRTUAL_ENV", "sticky/venv");
    is_skipped(&tree, &text, "sticky/venv/lib", "sticky/venv", others);
}

#[test]
fn libraries_of_this_user_and_of_root_are_found() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = tree(temp.path(), "libraries of the user") else {
        return;
    };
    tree.dir("sticky", 0, 0o1777);
    for (variable, root, dir, owner) in [
        // pip install --user, a virtual environment and conda, all owned by the user.
        ("HOME", "home", format!("home/.local/{SITE}"), VICTIM),
        ("VIRTUAL_ENV", "venv", format!("venv/{SITE}"), VICTIM),
        ("CONDA_PREFIX", "conda", "conda/lib".to_owned(), VICTIM),
        (
            "VIRTUAL_ENV",
            "sticky/venv",
            format!("sticky/venv/{SITE}"),
            VICTIM,
        ),
        // An environment that root has installed for all users.
        ("CONDA_PREFIX", "root", "root/lib".to_owned(), 0),
    ] {
        plant(&tree, &dir, owner);
        is_found(&tree, &search(&tree, variable, root), &dir);
    }
    // Links owned by the user to the user's own folders, as environments have them.
    tree.dirs("linked", VICTIM);
    tree.link("linked/lib", VICTIM, "../conda/lib");
    is_found(&tree, &search(&tree, "VIRTUAL_ENV", "linked"), "conda/lib");
}

/// The package is found without an active environment if its `python3` is the first in `PATH`.
#[test]
fn the_environment_of_python3_in_path_is_searched() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = tree(temp.path(), "python3 in PATH") else {
        return;
    };
    let program = |path: &str, owner: u32| {
        std::fs::write(tree.path(path), "").unwrap();
        tree.give(path, owner, 0o755);
    };
    let base = format!("base/{SITE}");
    plant(&tree, &base, VICTIM);
    tree.dirs("base/bin", VICTIM);
    program("base/bin/python3", VICTIM);
    is_found(&tree, &search(&tree, "PATH", "base/bin"), &base);

    // A virtual environment that is not active: its own packages and those of its base.
    let own = format!("venv/{SITE}");
    plant(&tree, &own, VICTIM);
    tree.dirs("venv/bin", VICTIM);
    tree.link("venv/bin/python3", VICTIM, "../../base/bin/python3");
    let text = search(&tree, "PATH", "venv/bin");
    is_found(&tree, &text, &own);
    let file = tree.path(&base).join(NVRTC).display().to_string();
    assert!(text.contains(&format!("candidate {file}\n")), "{text}");

    // pyenv: the program in `PATH` is a script.
    let version = format!("pyenv/versions/3.99.1/{SITE}");
    plant(&tree, &version, VICTIM);
    tree.dirs("pyenv/shims", VICTIM);
    program("pyenv/shims/python3", VICTIM);
    is_found(&tree, &search(&tree, "PATH", "pyenv/shims"), &version);

    // Another user's Python is skipped, and listed.
    let theirs = format!("theirs/{SITE}");
    plant(&tree, &theirs, OTHER);
    tree.dirs("theirs/bin", OTHER);
    program("theirs/bin/python3", OTHER);
    let text = search(&tree, "PATH", "theirs/bin");
    let others = "belongs to another user (uid 61002)";
    is_skipped(&tree, &text, &theirs, "theirs", others);
}

#[test]
fn the_error_lists_what_was_searched_and_the_package() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = tree(temp.path(), "the searched places") else {
        return;
    };
    tree.dirs("empty", VICTIM);
    let root = tree.path("empty").display().to_string();
    for (variable, kind) in [
        ("CUDA_PATH", "toolkit"),
        ("VIRTUAL_ENV", "Python or conda environment"),
    ] {
        let text = search(&tree, variable, "empty");
        if text.contains("loaded ") {
            test_needs::skipped("the list of searched places: this machine has NVRTC");
            return;
        }
        let line = format!("{root}: no {NVRTC} or libnvrtc.so.12 in this {kind}\n");
        assert!(text.contains(&line), "{text}");
        assert!(text.contains("pip install nvidia-cuda-nvrtc"), "{text}");
        assert!(text.contains("Getting NVRTC and the headers"), "{text}");
        assert!(!text.contains("xtask"), "{text}");
    }
}

/// A library that the user names explicitly is loaded as it is.
#[test]
fn an_explicit_place_is_not_checked() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = tree(temp.path(), "explicit places") else {
        return;
    };
    plant(&tree, "other/lib64", OTHER);
    tree.give("other", OTHER, 0o777);
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        let text = search(&tree, variable, "other");
        is_found(&tree, &text, "other/lib64");
    }
    let text = search(&tree, "CUDA_NVRTC_LIBRARY", "other/lib64");
    assert!(
        text.contains("other/lib64: this is a folder; name the file of the library in it"),
        "{text}"
    );
    let file = format!("other/lib64/{NVRTC}");
    let text = search(&tree, "CUDA_NVRTC_LIBRARY", &file);
    is_found(&tree, &text, "other/lib64");
}
