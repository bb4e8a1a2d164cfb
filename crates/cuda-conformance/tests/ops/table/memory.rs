//! Loads, stores and moves of each width, in each state space, of one value or a vector.

use crate::operation::{Operation, Source, Ty, bits, cut};
use crate::table::integer::int;

/// A state space: its name in instructions, the code before an access, and the address of 16 bytes
/// that belong to the thread.
const SPACES: [(&str, &str, &str); 6] = [
    (".global", "", "%m"),
    (".shared", "", "%s"),
    (".local", "mov.b64 %own, mine;", "%own"),
    ("", "mov.b64 %own, %m;", "%own"),
    (
        "",
        "cvt.u64.u32 %own, %s; cvta.shared.u64 %own, %own;",
        "%own",
    ),
    ("", "mov.b64 %own, mine; cvta.local.u64 %own, %own;", "%own"),
];

/// Adds the code around an access.
fn around(text: &str) -> String {
    format!("{{ .reg .b64 %own, %x, %y; .local .align 16 .b8 mine[16];\n{text} }}")
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    loads(&mut all);
    stores(&mut all);
    vectors(&mut all);
    moves(&mut all);
    spaces(&mut all);
    all
}

/// Loads. A 64-bit register accepts any type: the value is extended according to its type.
fn loads(all: &mut Vec<Operation>) {
    let types: [Ty; 12] = [
        "u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64",
    ];
    for (space, before, at) in SPACES {
        for ty in types {
            let text = around(&format!(
                "{before} st{space}.b64 [{at}], %a; ld{space}.{ty} %d, [{at}];"
            ));
            let to = if ty.starts_with('s') { "s64" } else { "u64" };
            let extended = move |v: &[u64]| {
                let value = cut_byte(ty, v[0]);
                match ty {
                    "s8" => value as u8 as i8 as u64,
                    ty if ty.starts_with('s') => int(ty, value) as u64,
                    _ => value,
                }
            };
            let one = Operation::new(text, &["b64"], to, extended);
            all.push(one.named(format!("ld{space}.{ty}")));
        }
    }
    for hint in [
        ".ca",
        ".cg",
        ".cs",
        ".volatile",
        ".relaxed.gpu",
        ".acquire.sys",
    ] {
        let text = match hint.split('.').nth(1) {
            Some("volatile" | "relaxed" | "acquire") => {
                format!("st.global.b64 [%m], %a; ld{hint}.global.u32 %d, [%m];")
            }
            _ => format!("st.global.b64 [%m], %a; ld.global{hint}.u32 %d, [%m];"),
        };
        let one = Operation::new(text, &["b64"], "u32", |v| v[0]);
        all.push(one.named(format!("ld{hint}.global.u32")));
    }
}

fn cut_byte(ty: Ty, value: u64) -> u64 {
    match &ty[1..] {
        "8" => value & 0xff,
        _ => cut(ty, value),
    }
}

/// Stores. Bytes that are not stored to keep their value.
fn stores(all: &mut Vec<Operation>) {
    for (space, before, at) in SPACES {
        for (ty, from, offset) in [
            ("u8", "u32", 3),
            ("b8", "b32", 7),
            ("u16", "u16", 2),
            ("s16", "s32", 6),
            ("b32", "b32", 4),
            ("u32", "u64", 0),
            ("f32", "f32", 4),
            ("b64", "b64", 0),
            ("f64", "f64", 0),
        ] {
            let text = around(&format!(
                "{before} st{space}.b64 [{at}], %b; st{space}.{ty} [{at}+{offset}], %a; ld{space}.b64 %d, [{at}];"
            ));
            let size = ty[1..].parse::<u32>().unwrap();
            let ones = u64::MAX >> (64 - size);
            let shift = 8 * offset;
            let reference = move |v: &[u64]| v[1] & !(ones << shift) | (v[0] & ones) << shift;
            let sources: [Ty; 2] = [from, "b64"];
            let one = Operation::new(text, &sources, "b64", reference);
            all.push(one.named(format!("st{space}.{ty}")));
        }
    }
}

fn vectors(all: &mut Vec<Operation>) {
    // The vector is stored and loaded in another order, so that each element shows where it was.
    for (ty, count) in [
        ("u8", 2),
        ("u8", 4),
        ("b16", 2),
        ("b16", 4),
        ("b32", 2),
        ("b32", 4),
        ("f32", 4),
        ("b64", 2),
    ] {
        let register: Ty = match ty {
            "u8" | "b16" => "b16",
            "f32" => "f32",
            ty => ty,
        };
        let names = &["%a", "%b", "%c", "%f"][..count];
        let list = names.join(", ");
        for (space, before, at) in &SPACES[1..3] {
            for part in 0..count {
                let mut into: Vec<String> = (0..count).map(|k| format!("%z{k}")).collect();
                into[part] = "%d".to_owned();
                let into = into.join(", ");
                let text = around(&format!(
                    ".reg .{register} %z<4>; {before} st{space}.v{count}.{ty} [{at}], {{{list}}}; ld{space}.v{count}.{ty} {{{into}}}, [{at}];"
                ));
                let mask = if ty == "u8" { 0xff } else { u64::MAX };
                let sources = vec![register; count];
                let one = Operation::new(text, &sources, register, move |v| v[part] & mask);
                all.push(one.named(format!("ld{space}.v{count}.{ty}")));
            }
        }
    }
}

fn moves(all: &mut Vec<Operation>) {
    for ty in [
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64",
    ] {
        let one = Operation::new(format!("mov.{ty} %d, %a;"), &[ty], ty, |v| v[0]);
        all.push(one);
    }
    let sources: [Source; 4] = ["b16".into(); 4];
    let joined = |v: &[u64]| v.iter().rev().fold(0, |all, part| all << 16 | part);
    all.push(Operation::new(
        "mov.b64 %d, {%a, %b, %c, %f};",
        &sources,
        "b64",
        joined,
    ));
    all.push(Operation::new(
        "mov.b32 %d, {%a, %b};",
        &["b16"; 2],
        "b32",
        joined,
    ));
    let joined = |v: &[u64]| v[1] << 32 | v[0];
    all.push(Operation::new(
        "mov.b64 %d, {%a, %b};",
        &["b32"; 2],
        "b64",
        joined,
    ));
    for (ty, part, count) in [("b64", "b32", 2), ("b64", "b16", 4), ("b32", "b16", 2)] {
        for k in 0..count {
            let mut into = vec!["_"; count];
            into[k] = "%d";
            let text = format!("mov.{ty} {{{}}}, %a;", into.join(", "));
            let size = bits(part);
            let one = Operation::new(text, &[ty], part, move |v| v[0] >> (size * k as u32));
            all.push(one.named(format!("mov.{ty} to {count} of {part}")));
        }
    }
    // The elements may be the registers of the source.
    let text = "mov.b64 {%b, %c}, %a; mov.b64 %d, {%c, %b};";
    let sources: [Ty; 3] = ["b64", "b32", "b32"];
    all.push(Operation::new(text, &sources, "b64", |v| {
        v[0].rotate_left(32)
    }));
}

/// The state space of an address, and the address within that space.
fn spaces(all: &mut Vec<Operation>) {
    for (k, (_, before, at)) in SPACES[3..].iter().enumerate() {
        for (j, space) in ["global", "shared", "local"].into_iter().enumerate() {
            let text = around(&format!(
                "{before} isspacep.{space} %p, {at}; selp.u32 %d, 1, 0, %p;"
            ));
            let one = Operation::new(text, &["b32"], "u32", move |_| u64::from(k == j));
            all.push(one.named(format!("isspacep.{space}")));
        }
    }
    for (space, before, at) in &SPACES[4..5] {
        let text = around(&format!(
            "{before} cvta.to.shared.u64 %x, {at}; st{space}.b32 [{at}], %a; ld.shared.b32 %d, [%x];"
        ));
        let one = Operation::new(text, &["b32"], "b32", |v| v[0]);
        all.push(one.named("cvta.to.shared.u64"));
    }
    let text = around(
        "mov.b64 %x, mine; cvta.local.u64 %own, %x; cvta.to.local.u64 %y, %own; st.local.b32 [%y], %a; ld.b32 %d, [%own];",
    );
    let one = Operation::new(text, &["b32"], "b32", |v| v[0]);
    all.push(one.named("cvta.to.local.u64"));
    let text = around("cvta.to.global.u64 %x, %m; st.global.b32 [%x], %a; ld.b32 %d, [%m];");
    let one = Operation::new(text, &["b32"], "b32", |v| v[0]);
    all.push(one.named("cvta.to.global.u64"));
}
