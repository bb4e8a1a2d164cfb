//! Generates the PTX that applies operations to arrays.

use std::fmt::Write;

use crate::operation::{Operation, bits};

/// The number of threads of a block.
pub(crate) const BLOCK: usize = 128;
/// The bytes that a thread writes: `%d`, `%e`, and the memory that `%m` points to.
pub(crate) const OUT: usize = 24;

/// The way registers are declared: with types, as compilers do for architectures up to 90, or as
/// untyped bits, as for 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Typed,
    Bits,
}

const SOURCES: [&str; 4] = ["a", "b", "c", "f"];
const RESULTS: [&str; 2] = ["d", "e"];

/// Generates a module with the kernels `op0`, `op1` and so on.
pub(crate) fn module<'a>(
    operations: impl Iterator<Item = &'a Operation> + Clone,
    dialect: Dialect,
    arch: u32,
) -> String {
    let needed = operations.clone().map(|operation| operation.version).max();
    // The first PTX version that supports the architecture.
    let first = if arch >= 100 { (8, 6) } else { (8, 0) };
    let (major, minor) = needed.unwrap_or(first).max(first);
    let mut text = format!(".version {major}.{minor}\n.target sm_{arch}\n.address_size 64\n");
    for (index, operation) in operations.enumerate() {
        kernel(&mut text, index, operation, dialect);
    }
    text
}

fn kernel(text: &mut String, index: usize, operation: &Operation, dialect: Dialect) {
    let register = |name: &str, ty: &str, bits: u32| match dialect {
        Dialect::Typed if !ty.contains("x2") && ty != "bf16" => format!(".reg .{ty} %{name};\n"),
        _ => format!(".reg .b{bits} %{name};\n"),
    };
    let mut body = String::new();
    let mut load = String::new();
    for (k, source) in operation.sources.iter().enumerate() {
        let (name, bits) = (SOURCES[k], bits(source.ty));
        body += &register(name, source.ty, bits);
        writeln!(load, "ld.global.b{bits} %{name}, [%in+{}];", 8 * k).unwrap();
    }
    let mut store = String::new();
    for (k, &ty) in operation.to.iter().enumerate() {
        let (name, bits) = (RESULTS[k], bits(ty));
        body += &register(name, ty, bits);
        writeln!(store, "st.global.b{bits} [%out+{}], %{name};", 8 * k).unwrap();
    }
    let stride = 8 * operation.sources.len();
    let word = match dialect {
        Dialect::Typed => "u64",
        Dialect::Bits => "b64",
    };
    write!(
        text,
        "
// {}
.visible .entry op{index}(.param .u64 in, .param .u64 out) {{
.reg .pred %p, %q;
.reg .b64 %m, %in, %out, %at;
.reg .b32 %s, %index, %thread;
.shared .align 16 .b8 cells[{}];
{body}ld.param.{word} %in, [in];
ld.param.{word} %out, [out];
mov.u32 %thread, %tid.x;
mov.u32 %index, %ctaid.x;
mad.lo.s32 %index, %index, {BLOCK}, %thread;
mul.wide.u32 %at, %index, {stride};
add.s64 %in, %in, %at;
mul.wide.u32 %at, %index, {OUT};
add.s64 %out, %out, %at;
add.s64 %m, %out, 16;
mov.u32 %s, cells;
mad.lo.s32 %s, %thread, 16, %s;
{load}{}
{store}ret;
}}
",
        operation.name,
        BLOCK * 16,
        operation.text,
    )
    .unwrap();
}
