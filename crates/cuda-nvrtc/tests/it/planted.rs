//! Headers that another user has planted are not used.

use std::fs;
use std::path::Path;

use cuda_nvrtc::{Cache, CudaHeaders, Nvrtc};
use test_needs::skip;
use test_needs::users::{OTHER, Tree, VICTIM};

use crate::library::library;

const CHILD: &str = "planted::finds_headers";

/// A library that behaves like an NVRTC which reports bundled headers but writes none.
const NVRTC: &str = "
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 3; return 0; }
int nvrtcGetBundledHeadersInfo(void *info, const char **log) { return 0; }
int nvrtcInstallBundledHeaders(const char *path, int flags, const char **log) { return 0; }
";

/// The folder below the user's cache folder for the headers that this NVRTC bundles.
const CARRIED: &str = "cuda-nvrtc/headers-13.3-0-0";

#[test]
#[ignore = "a process of another test"]
fn finds_headers() {
    let nvrtc = Nvrtc::load().unwrap();
    println!();
    match CudaHeaders::find(&nvrtc) {
        Ok(headers) => {
            for dir in headers.dirs() {
                println!("found {}", dir.display());
            }
        }
        Err(error) => println!("error {error}"),
    }
    println!("cache problem {:?}", Cache::system().problem());
}

/// A tree with this NVRTC in `nvrtc/lib`.
fn tree(root: &Path, test: &str) -> Option<Tree> {
    if Path::new("/usr/local/cuda").exists() {
        skip("the headers of the toolkit in /usr/local/cuda would be found instead");
        return None;
    }
    let tree = Tree::new(root, test)?;
    tree.dirs("nvrtc/lib", 0);
    library(&tree.path("nvrtc/lib"), NVRTC);
    Some(tree)
}

/// Creates headers of this NVRTC's version.
fn plant(tree: &Tree, dir: &str, owner: u32) {
    tree.dirs(dir, owner);
    tree.file(&format!("{dir}/cuda_fp16.h"), owner, "");
    tree.file(
        &format!("{dir}/cuda.h"),
        owner,
        "#define CUDA_VERSION 13030\n",
    );
}

fn find(tree: &Tree, home: &str, toolkit: Option<&str>) -> String {
    let library = tree.path("nvrtc/lib/libfake.so");
    let mut variables = vec![("CUDA_NVRTC_LIBRARY", library), ("HOME", tree.path(home))];
    variables.extend(toolkit.map(|toolkit| ("CUDA_PATH", tree.path(toolkit))));
    tree.run(VICTIM, CHILD, &variables)
}

fn found(text: &str) -> Vec<&str> {
    let lines = text.lines();
    lines
        .filter_map(|line| line.strip_prefix("found "))
        .collect()
}

#[test]
fn headers_beside_nvrtc_are_checked() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = tree(temp.path(), "planted headers beside NVRTC") else {
        return;
    };
    tree.dirs("home", VICTIM);
    let include = tree.path("nvrtc/include");
    // A home folder that is not writable, so that the bundled headers cannot be installed instead.
    tree.give("home", 0, 0o755);

    plant(&tree, "nvrtc/include", 0);
    assert_eq!(
        found(&find(&tree, "home", None)),
        [include.to_str().unwrap()]
    );

    let refused = |at: &str, reason: &str| {
        let text = find(&tree, "home", None);
        assert!(found(&text).is_empty(), "{text}");
        let path = tree.path(at);
        let expected = format!(
            "{}: skipped: {} {reason}",
            include.display(),
            path.display()
        );
        assert!(text.contains(&expected), "{expected}: {text}");
    };
    tree.give("nvrtc/include", 0, 0o777);
    refused("nvrtc/include", "is writable by other users (mode 0777)");
    tree.give("nvrtc/include", OTHER, 0o755);
    refused("nvrtc/include", "belongs to another user (uid 61002)");
    tree.give("nvrtc/include", 0, 0o755);
    tree.give("nvrtc/include/cuda_fp16.h", OTHER, 0o644);
    refused("nvrtc/include/cuda_fp16.h", "belongs to another user");

    // A link to headers of another user, and headers whose C++ libraries are a link to them.
    fs::remove_dir_all(&include).unwrap();
    plant(&tree, "other/include", OTHER);
    tree.link("nvrtc/include", 0, tree.path("other/include"));
    refused("other", "belongs to another user");
    fs::remove_file(&include).unwrap();
    plant(&tree, "nvrtc/include", 0);
    tree.link("nvrtc/include/cccl", 0, tree.path("other/include"));
    refused("other", "belongs to another user");

    // A folder that the user names explicitly is used as it is.
    let text = find(&tree, "home", Some("other"));
    assert_eq!(found(&text), [tree.path("other/include").to_str().unwrap()]);
}

#[test]
fn carried_headers_are_not_kept_where_others_can_write() {
    let temp = tempfile::tempdir().unwrap();
    let Some(tree) = tree(temp.path(), "planted headers in the user's cache folder") else {
        return;
    };
    tree.dirs("home/.cache", VICTIM);
    let dir = tree.path(format!("home/.cache/{CARRIED}"));
    let expect_found = || {
        let text = find(&tree, "home", None);
        assert_eq!(found(&text), [dir.to_str().unwrap()], "{text}");
        assert!(text.contains("cache problem None"), "{text}");
    };
    let refused = |at: &str, reason: &str| {
        let text = find(&tree, "home", None);
        assert!(found(&text).is_empty(), "{text}");
        let expected = format!("{} {reason}", tree.path(at).display());
        assert!(text.contains(&expected), "{expected}: {text}");
        text
    };
    let others = "belongs to another user (uid 61002)";
    let writable = "is writable by other users (mode 0777)";
    // Twice: the folder is created, then used again.
    expect_found();
    expect_found();

    tree.give("home", VICTIM, 0o777);
    let text = refused("home", writable);
    assert!(text.contains("cache problem Some("), "{text}");
    tree.give("home", VICTIM, 0o755);
    expect_found();

    // In folders that were writable by others for a time, and no longer are.
    let carried = format!("home/.cache/{CARRIED}");
    tree.dir(&format!("{carried}/cub"), OTHER, 0o755);
    refused(&format!("{carried}/cub"), others);
    fs::remove_dir(dir.join("cub")).unwrap();
    tree.link(&format!("{carried}/cub"), VICTIM, tree.path("home"));
    refused(&format!("{carried}/cub"), "is a symbolic link");
    fs::remove_file(dir.join("cub")).unwrap();
    expect_found();

    fs::remove_dir(&dir).unwrap();
    plant(&tree, &carried, OTHER);
    refused(&carried, others);
    fs::remove_dir_all(&dir).unwrap();
    plant(&tree, "elsewhere", OTHER);
    tree.link(&carried, VICTIM, tree.path("elsewhere"));
    refused("elsewhere", others);
}
