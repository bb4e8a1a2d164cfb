//! The calls that `cargo xtask untested` finds.

use super::{calls, examples, function};
use crate::source::Source;

#[test]
fn functions_are_read_from_the_listing() {
    for (line, name) in [
        ("pub const unsafe fn a::one(&self) -> Fn", Some("one")),
        (
            "pub fn a::B<T>::two<U: Fn(u32) -> T::Item>(&self, U)",
            Some("two"),
        ),
        (
            "pub fn a::B<T>::three<U: Into<T::Item>>(self)",
            Some("three"),
        ),
        ("pub const a::B::FOUR: unsafe fn (u32)", None),
        ("impl Fn for B", None),
    ] {
        assert_eq!(function(line), name, "{line}");
    }
}

#[test]
fn only_code_counts_as_a_call() {
    let library = "/// Text.\n/// ```\n/// example();\n/// ```\n/// prose\nfn body() {}\n\
                   #[cfg(test)]\nmod tests {\n    unit();\n}\n";
    let found = calls(&Source::new("crates/a/src/b.rs", library));
    for (name, is_call) in [
        ("example", true),
        ("unit", true),
        ("prose", false),
        ("body", false),
    ] {
        assert_eq!(found.contains(name), is_call, "{name}");
    }
    let elsewhere = "#[cfg(test)]\nmod tests;\nfn body() {}\n";
    assert!(calls(&Source::new("crates/a/src/b.rs", elsewhere)).is_empty());
    let page = "Prose.\n```text\ncode\n```\nMore prose.\n";
    assert_eq!(examples(page), ["code".to_owned()].into());
    let test = calls(&Source::new(
        "crates/a/tests/it/c.rs",
        "// comment\ncode();\n",
    ));
    assert!(test.contains("code") && !test.contains("comment"));
}
