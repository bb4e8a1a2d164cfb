//! The items that are found in source files.

use super::{Source, implemented};

#[test]
fn an_item_is_named_with_its_type() {
    let source = Source::new(
        "a.rs",
        "pub struct Type;\nimpl<T: Into<U>> Trait for some::Type<T> {\n    \
         pub const MAX: u32 = 1;\n    pub const unsafe fn get<A>(&self) {\n        body;\n    }\n}\n",
    );
    let items: Vec<_> = (0..6).map(|line| source.item_at(line)).collect();
    let expected = ["Type", "", "Type::MAX", "Type::get", "", ""];
    assert_eq!(
        items,
        expected.map(|name| (!name.is_empty()).then(|| name.to_owned()))
    );
    assert_eq!(implemented("pub trait Extension {"), Some("Extension"));
}
