//! The rules of `cargo xtask tidy`.

use super::*;

#[test]
fn a_tidy_file_passes() {
    assert_eq!(
        check("a/src/b.rs", "//! Streams.\n\nfn f() {}\n"),
        Vec::<String>::new()
    );
    let generated = format!("// @generated\n{}", "type A = u8; \n".repeat(900));
    assert_eq!(
        check("src/generated/a.rs", &generated),
        Vec::<String>::new()
    );
}

#[test]
fn each_broken_rule_is_a_problem() {
    let long = format!("//! Long.\n{}", "// line\n".repeat(MAX_LINES));
    let wide = format!("//! A.\n// {}\n", "é".repeat(MAX_WIDTH - 2));
    let wide_text = "a ".repeat(50) + "a";
    let long_name = format!("//! A.\nfn {}() {{}}\n", "n".repeat(MAX_NAME + 1));
    for (name, text, said) in [
        ("a.rs", "//! A.\n\tfn f() {}\n", "a tab"),
        ("a.md", "text \n", "a space at the end"),
        ("a.rs", "fn f() {}\n", "//!"),
        ("a.rs", &long, "501 lines"),
        ("a.rs", &long_name, "61 characters"),
        ("a.rs", &wide, "line 2 has 101 characters"),
        ("a.md", &wide_text, "line 1 has 101 characters"),
        (
            "src/a.rs",
            "//! @generated from cuda.h\n",
            "below generated/",
        ),
        ("src/generated/a.rs", "fn f() {}\n", "no header"),
    ] {
        let problems = check(name, text);
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
        assert!(problems[0].contains(said), "{problems:?}");
    }
}

#[test]
fn a_crate_is_complete() {
    let has_file = |file: &str| file != "LICENSE-MIT";
    let complete = "[package]\nrust-version.workspace = true\npublish = false\n";
    assert!(incomplete(complete, has_file).is_empty());
    assert_eq!(
        incomplete("[package]\n", has_file),
        [
            "does not state its rust-version",
            "is published without LICENSE-MIT"
        ]
    );
}

#[test]
fn tables_code_and_urls_may_be_wide() {
    let wide = "a ".repeat(60) + "a";
    let text = format!("| {wide} |\n```\n{wide}\n```\nhttps://example.org {wide}\n");
    assert_eq!(check("a.md", &text), Vec::<String>::new());
    let lines: Vec<String> = text.lines().map(|line| format!("//! {line}\n")).collect();
    assert_eq!(check("a.rs", &lines.concat()), Vec::<String>::new());
    // Only comments are checked here; rustfmt formats the code.
    let code = format!("//! A.\nconst A: &str = \"{wide}\";\n");
    assert_eq!(check("a.rs", &code), Vec::<String>::new());
}

#[test]
fn cargo_makes_targets_in_examples_and_tests() {
    for (folder, is_target) in [("examples", true), ("tests", true), ("it", false)] {
        assert_eq!(is_target_folder(Some(OsStr::new(folder))), is_target);
    }
}
