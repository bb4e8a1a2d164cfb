//! The page `docs/safe-launch-forms.md`, which is written from the list.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use cuda_ptx::forms;
use test_needs::skip;

/// The variable with which the test writes the page.
const UPDATE: &str = "CUDA_PTX_UPDATE_FORMS";

const HEAD: &str = "# Instruction forms of safe launches

Generated from the list in `crates/cuda-ptx/src/flow/forms/table` by the test
`the_page_is_up_to_date` of cuda-ptx, which writes it if `CUDA_PTX_UPDATE_FORMS=1` is set.

`launch_safe` refuses a kernel that has an instruction with another form, or a name that the text
does not declare. The reason names the instruction, the operand and what it must be. The assembler
of NVIDIA (`ptxas` 12.0 to 13.5) accepts an example of every row, with every pair of modifiers; a
test asks it.

## Notation

| notation | meaning |
|---|---|
| `?.sat` | an optional modifier |
| `.(a\\|b)`, `.@round` | one of the modifiers, or one of a set (below) |
| `.T=@int` | one of a set, which operands call `T` |
| `>T` | a result in a register of the type `T` |
| `T` | a register of the type or a number |
| `T!` | a register |
| `T%`, `T&` | also a special register; also the address of a variable |
| `T+` | the register may be wider than the type |
| `>T_` | the result may be discarded with `_` |
| `>T\\|pred`, `>T&pred` | an optional, or a needed second result |
| `4*T`, `V*T` | a vector of 4 elements, or of the number in the modifier `V` |
| `#0..255`, `#(4\\|8)` | a number in a range, or one of a list |
| `[r T]`, `[w T]`, `[x T]` | an address at which a value of the type is read, written, or both |
| `[r 16 shared]`, `[r size]` | 16 bytes in shared memory; the bytes of the matrix or the copy |
| `<2*f32>`, `<handle>` | the handle of a texture or surface with coordinates, or alone |
| `?u32` | an operand that may be absent |
| `policy` | a register that `createpolicy.fractional` of this kernel set in every path; it is present with `.L2::cache_hint` only |
| `barrier` | a constant below 16 |
| `threads` | a constant: a multiple of 32, at most the threads of the block |

The space of an address is the one behind its size, or the modifier with the letter `S`, or generic.
A register fits a type if it has its size and is declared with bits (`.b32`), or with the same kind:
integers for integers, floating-point numbers for floating-point numbers. Vectors have at most 128
bits, except where a row has one number of elements only.

";

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn page() -> String {
    let mut page = String::from(HEAD);
    page += "| set | modifiers |\n|---|---|\n";
    for (name, modifiers) in forms::sets() {
        let _ = writeln!(page, "| `@{name}` | `{}` |", modifiers.join("` `"));
    }
    page += "\n## Special registers\n\n";
    page += "Each of these, and `%envreg0` to `%envreg31`, `%pm0` to `%pm7`, `%pm0_64` to \
             `%pm7_64` and `WARP_SZ`:\n\n";
    for name in forms::special_registers() {
        let _ = writeln!(page, "- `{name}`");
    }
    page += "\n## Refused instructions\n\n| instruction | reason |\n|---|---|\n";
    for (opcode, reason) in forms::refused() {
        let _ = writeln!(page, "| `{opcode}` | {reason} |");
    }
    for family in forms::families() {
        let _ = write!(page, "\n## {}\n\n", family.title);
        if !family.note.is_empty() {
            let _ = write!(page, "{}\n\n", family.note);
        }
        page += "| form | PTX | target | note |\n|---|---|---|---|\n";
        for row in family.rows {
            let (version, target) = match (row.version, row.target) {
                ("7.0", "sm_75") => ("", ""),
                newer => newer,
            };
            let (form, note) = (cell(row.form), row.note);
            let _ = writeln!(page, "| `{form}` | {version} | {target} | {note} |");
        }
    }
    page
}

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/safe-launch-forms.md");
    let new = page();
    if env::var(UPDATE).is_ok_and(|value| value == "1") {
        fs::write(&path, &new).unwrap();
    }
    if !path.parent().is_some_and(Path::is_dir) {
        return skip("the documents of the workspace are not on this machine");
    }
    let old = fs::read_to_string(&path).unwrap_or_default();
    let is_same = old.replace("\r\n", "\n") == new;
    assert!(
        is_same,
        "run this test with {UPDATE}=1, which writes {}",
        path.display()
    );
}
