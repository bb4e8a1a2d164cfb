//! The manifests of the check of the oldest versions.

use super::{of_workspace, without_tests};

#[test]
fn dependencies_of_tests_are_left_out() {
    let manifest = "\
[package]
name = \"a\"

[dependencies]
b = \"1\"

[[test]]
name = \"t\"
harness = false

[dev-dependencies]
c = \"2\"

[target.'cfg(unix)'.dev-dependencies]
d = \"3\"

[target.'cfg(unix)'.dependencies]
e = \"4\"
";
    let want = "\
[package]
name = \"a\"

[dependencies]
b = \"1\"

[target.'cfg(unix)'.dependencies]
e = \"4\"
";
    assert_eq!(without_tests(manifest), want);
}

#[test]
fn only_the_published_crates_are_members() {
    let manifest = "[workspace]\nmembers = [\"crates/*\", \"xtask\"]\nexclude = [\"fuzz\"]\n";
    assert_eq!(
        of_workspace(manifest).unwrap(),
        "[workspace]\nmembers = [\"crates/*\"]\n"
    );
    assert!(of_workspace("[workspace]\n").is_err());
}
