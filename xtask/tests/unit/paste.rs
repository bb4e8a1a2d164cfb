//! What a reader sees of a page, and the crates that are made from it.

use std::path::Path;

use super::{Dependencies, add_dependencies, manifest, parse, visible};

const PAGE: &str = r#"# A page

```toml
[dependencies]
other = "1"
first = { path = "cuda/crates/first", features = ["more"] }

[profile.dev]
debug = 0
```

```rust
# fn main() {
part();
# }
```

```sh
cp -r cuda/docs/book/kernels .
cargo run
```

`build.rs`:

<!-- The file build.rs -->
```rust,ignore
fn main() {}
```

`src/main.rs`:

```rust
# use hidden::Line;
#[derive(Debug)]
struct Shown;

fn main() {
#    hidden();
    println!("{:?}", Shown);
}
```

```rust,ignore
fn main() { of_another_crate() }
```
"#;

fn first() -> Dependencies {
    let mut dependencies = Dependencies::new();
    let block = [
        "[dependencies]",
        r#"first = { path = "cuda/crates/first" }"#,
    ];
    add_dependencies(&mut dependencies, &block);
    dependencies
}

#[test]
fn only_blocks_with_a_visible_main_are_whole_programs() {
    let programs = parse("page", PAGE, &first());
    assert_eq!(programs.len(), 1, "{programs:#?}");
    let program = &programs[0];
    assert_eq!(program.name, "page-32");
    let text =
        "#[derive(Debug)]\nstruct Shown;\n\nfn main() {\n    println!(\"{:?}\", Shown);\n}\n";
    assert_eq!(program.text, text);
}

#[test]
fn a_program_gets_the_files_and_folders_of_its_page() {
    let programs = parse("page", PAGE, &first());
    let files: Vec<_> = programs[0].files.iter().collect();
    let text = String::from("fn main() {}\n");
    assert_eq!(files, [(&String::from("build.rs"), &text)]);
    assert_eq!(programs[0].folders, ["docs/book/kernels"]);
}

#[test]
fn a_dependency_of_the_page_replaces_the_first_one() {
    let programs = parse("page", PAGE, &first());
    let text = manifest(Path::new("/repository"), &programs[0].dependencies);
    let (_, dependencies) = text.split_once("\n\n").unwrap();
    let expected = "[dependencies]\n\
        first = { path = \"/repository/crates/first\", features = [\"more\"] }\n\
        other = \"1\"\n";
    assert_eq!(dependencies, expected);
}

#[test]
fn lines_that_mdbook_hides_are_left_out() {
    let block = [
        "# hidden",
        "  # hidden",
        "#",
        "#[shown]",
        "#![shown]",
        "shown",
    ];
    assert_eq!(visible(&block), "#[shown]\n#![shown]\nshown\n");
}
