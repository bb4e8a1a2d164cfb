//! The page that `cargo xtask functions` writes.

use super::page;
use crate::source::Source;

const TABLE: &str = r#"
    /// `cuFree`. Since CUDA 2.0. [Memory](https://x).
    /// `cuFree_v2`. Since CUDA 3.2. [Memory](https://x).
    Function {
        name: "cuFree",
        base: "cuFree",
        since: 2000u32,
    Function {
        name: "cuFree_v2",
        base: "cuFree",
        since: 3020u32,
    Function {
        name: "cuHidden",
        base: "cuHidden",
        since: 12030u32,
    Function {
        name: "cuOther",
        base: "cuOther",
        since: 13000u32,
"#;

#[test]
fn each_function_has_a_row() {
    let driver = Source::new(
        "crates/cuda-driver/src/a.rs",
        "impl<T> Drop for Wrong<T> {\n}\n\nimpl<T: Copy> Buffer<T> {\n    \
         /// Frees.\n    #[doc(alias = \"cuFree\")]\n    #[must_use]\n    \
         pub fn free(self) {\n        call!(cuHidden) // not cuOther\n    }\n}\n",
    );
    let simulator = Source::new("b.rs", "exports! {\n    cuFree_v2 => free(p: u64);\n}\n");
    let page = page(TABLE, &[driver], &[simulator]).unwrap();
    for row in [
        "## Memory\n",
        "| `cuFree` | `Buffer::free` | 2.0 | yes |\n",
        "| `cuHidden` | internal | 12.3 | |\n",
        "| `cuOther` | | 13.0 | |\n",
        "Each of the 3 functions",
    ] {
        assert!(page.contains(row), "{row} is not in:\n{page}");
    }
}
