//! Random texts by the grammar of the PTX manual: the chapters about syntax, state spaces, types,
//! variables, operands and directives. About half of them have a mistake.

use fastrand::Rng;

/// Names, some of which are reserved, and some the names of other things.
const NAMES: &[&str] = &[
    "a", "b", "A", "_a", "$x", "%a", "%r1", "%r01", "%r9", "%r", "x1", "add", "reg", "u32",
    "sm_75", "%laneid", "generic", "k", "f", "g", "p", "L1", "L2", "%1", "$1", "inlined",
];

/// What replaces or joins a part of a text.
const PARTS: &[&str] = &[
    ";",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ":",
    "+",
    "-",
    "*",
    "/",
    "!",
    "~",
    "@",
    "|",
    "&",
    "=",
    "?",
    "%",
    "_",
    "$",
    ".",
    "0",
    "1",
    "07",
    "08",
    "0x1F",
    "0b101",
    "0b2",
    "1U",
    "1u",
    "1.5",
    "1.",
    ".5",
    "1e3",
    "1e",
    "0f3F800000",
    "0f3F80000",
    "0d3FF0000000000000",
    "-1",
    "+4",
    "WARP_SZ",
    "inlined_at",
    "function_name",
    "%",
    "a",
    "%r1",
    "%r01",
    "%r99",
    "L1",
    "g",
    "k",
    "p",
    ".reg",
    ".b32",
    ".u64",
    ".f32",
    ".pred",
    ".foo",
    ".global",
    ".shared",
    ".local",
    ".const",
    ".param",
    ".align",
    ".v2",
    ".v3",
    ".v4",
    ".visible",
    ".extern",
    ".weak",
    ".common",
    ".entry",
    ".func",
    ".maxntid",
    ".reqntid",
    ".noreturn",
    ".ptr",
    ".attribute",
    ".pragma",
    ".loc",
    ".file",
    ".section",
    ".alias",
    ".version",
    ".target",
    "\"s\"",
    "\"é\"",
    "é",
    "ret",
    "mov",
    "// c\n",
    "/* c */",
    "/*",
    "'",
    "#",
    "0x1ffffffff",
    "18446744073709551616",
    "4294967298",
];

fn pick<'t>(rng: &mut Rng, from: &[&'t str]) -> &'t str {
    from[rng.usize(..from.len())]
}

/// A name that probably no other part of the text has, or one of the list.
fn name(rng: &mut Rng) -> String {
    match rng.u32(..8) {
        0 => pick(rng, NAMES).to_owned(),
        _ => fresh(rng),
    }
}

fn fresh(rng: &mut Rng) -> String {
    let prefix = pick(rng, &["v", "_v", "$v", "%v", "V"]);
    let letter = char::from(rng.u8(b'a'..=b'z'));
    format!("{prefix}{}{letter}", rng.u32(..100_000))
}

/// A text, which has a mistake in about half of all cases.
pub(super) fn text(rng: &mut Rng) -> String {
    let text = module(rng);
    match rng.u32(..5) {
        0..=1 => text,
        2..=3 => mutated(rng, &text, 1),
        _ => mutated(rng, &text, 2),
    }
}

/// The text with some of its parts changed.
fn mutated(rng: &mut Rng, text: &str, count: u32) -> String {
    let mut parts = split(text);
    for _ in 0..count {
        // Not the three lines at the beginning.
        let first = 8.min(parts.len() - 1);
        let at = rng.usize(first..parts.len());
        let other = rng.usize(first..parts.len());
        match rng.u32(..5) {
            0 => drop(parts.remove(at)),
            1 => parts.insert(at, pick(rng, PARTS).to_owned()),
            2 => parts[at] = pick(rng, PARTS).to_owned(),
            3 => parts.swap(at, other),
            _ => {
                let part = parts[other].clone();
                parts[at] = part;
            }
        }
        if parts.len() < 10 {
            break;
        }
    }
    parts.join(" ")
}

/// The words and signs of a text.
fn split(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut is_word = false;
    for character in text.chars() {
        let is_own = character.is_ascii_alphanumeric() || "_$%.:\"".contains(character);
        if character == '\n' {
            parts.push(String::from("\n"));
        } else if is_own && is_word {
            if let Some(last) = parts.last_mut() {
                last.push(character);
            }
        } else if character != ' ' {
            parts.push(character.to_string());
        }
        is_word = is_own;
    }
    parts
}

fn module(rng: &mut Rng) -> String {
    let mut text = String::from(".version 8.3\n.target sm_75\n.address_size 64\n");
    if rng.u32(..4) == 0 {
        text += ".file 1 \"a.cu\"\n";
    }
    for _ in 0..rng.u32(..3) {
        text += &variable(rng, &["global", "const", "shared"]);
        text.push('\n');
    }
    if rng.u32(..3) == 0 {
        text += &function(rng);
    }
    text + &kernel(rng)
}

fn integer_type(rng: &mut Rng) -> &'static str {
    pick(
        rng,
        &[
            "u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64",
        ],
    )
}

/// The declaration of a variable in one of the spaces.
fn variable(rng: &mut Rng, spaces: &[&str]) -> String {
    let space = pick(rng, spaces);
    let mut text = String::new();
    let is_module = spaces.len() > 2 && spaces[0] == "global";
    if is_module && rng.u32(..12) == 0 {
        text += pick(rng, &[".visible ", ".weak ", ".extern ", ".common "]);
    }
    text += &format!(".{space} ");
    if rng.u32(..3) == 0 {
        let aligns: &[&str] = match rng.u32(..9) {
            0 => &["3", "0", "24"],
            _ => &["1", "2", "4", "8", "16"],
        };
        text += &format!(".align {} ", pick(rng, aligns));
    }
    let vector = match rng.u32(..8) {
        0 => 2,
        1 => 4,
        _ => 1,
    };
    if vector > 1 {
        text += &format!(".v{vector} ");
    }
    let is_float = rng.u32(..4) == 0;
    let ty = match is_float {
        true => pick(rng, &["f32", "f64"]),
        false => integer_type(rng),
    };
    text += &format!(".{ty} {}", name(rng));
    let dims: Vec<u32> = (0..rng.u32(..3)).map(|_| rng.u32(1..4)).collect();
    for dim in &dims {
        text += &format!("[{dim}]");
    }
    if matches!(space, "global" | "const") && rng.bool() {
        let mut all = dims.clone();
        if vector > 1 {
            all.push(vector);
        }
        text += " = ";
        text += &initial(rng, &all, is_float, vector > 1);
    }
    text + ";"
}

fn initial(rng: &mut Rng, dims: &[u32], is_float: bool, is_vector: bool) -> String {
    let Some((&length, rest)) = dims.split_first() else {
        return match is_float {
            true => float(rng, 2),
            false => expression(rng, 3),
        };
    };
    let is_last_of_vector = is_vector && rest.is_empty();
    let count = match rng.u32(..6) {
        0 if !is_last_of_vector => rng.u32(..=length),
        1 if rng.u32(..4) == 0 => length + 1,
        _ => length,
    };
    let values = (0..count).map(|_| initial(rng, rest, is_float, is_vector));
    format!("{{{}}}", values.collect::<Vec<_>>().join(", "))
}

/// An integer literal in each of its forms.
fn integer(rng: &mut Rng) -> String {
    let value = match rng.u32(..4) {
        0 => rng.u64(..),
        1 => rng.u64(..).leading_zeros().into(),
        _ => rng.u64(..100),
    };
    let digits = match rng.u32(..5) {
        0 => format!("{value:#x}"),
        1 => format!("0{value:o}"),
        2 => format!("{value:#b}"),
        _ => value.to_string(),
    };
    let suffix = if rng.u32(..6) == 0 { "U" } else { "" };
    digits + suffix
}

/// A constant expression with integers, as in the section "Constant Expressions".
fn expression(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 || rng.bool() {
        return match rng.u32(..12) {
            0 => String::from("WARP_SZ"),
            _ => integer(rng),
        };
    }
    let mut inner = || expression(rng, depth - 1);
    let (a, b, c) = (inner(), inner(), inner());
    match rng.u32(..8) {
        0 => format!("({a})"),
        1 => format!("{}{a}", pick(rng, &["-", "+", "~", "!"])),
        2 => format!("({}){a}", pick(rng, &[".s64", ".u64"])),
        3 => format!("({a} ? {b} : {c})"),
        4 => format!("{a} {} {b}", pick(rng, &["/", "%"])),
        5 => format!("{a} {} {b}", pick(rng, &["<", ">", "<=", ">=", "==", "!="])),
        6 => format!(
            "{a} {} {b}",
            pick(rng, &["&&", "||", "&", "|", "^", "<<", ">>"])
        ),
        _ => format!("{a}{}{b}", pick(rng, &["+", "-", "*"])),
    }
}

fn float(rng: &mut Rng, depth: u32) -> String {
    if depth == 0 || rng.u32(..3) > 0 {
        let value = f64::from(rng.i32(..1000)) / 8.0;
        return match rng.u32(..6) {
            0 => format!("0d{:016X}", value.to_bits()),
            1 if depth == 2 => format!("0f{:08x}", (value as f32).to_bits()),
            2 => format!("{value:e}").replace("inf", "0.0") + "0",
            3 => format!("{}.", rng.u32(..9)),
            4 => format!(".{}", rng.u32(1..9)),
            _ => format!("{value:?}"),
        };
    }
    let (a, b) = (float(rng, depth - 1), float(rng, depth - 1));
    match depth {
        // A literal with `0f` takes part in no expression.
        2 if a.starts_with("0f") || b.starts_with("0f") => a,
        _ => format!("{a}{}{b}", pick(rng, &[" + ", " - ", "*", "+"])),
    }
}

fn parameters(rng: &mut Rng, is_kernel: bool) -> String {
    let count = rng.u32(..3);
    let list = (0..count).map(|number| {
        let name = match number {
            0 => String::from("p"),
            _ => name(rng),
        };
        match rng.u32(..4) {
            0 => format!(".param .align 8 .b8 {name}[16]"),
            1 if is_kernel || rng.u32(..9) == 0 => {
                format!(".param .u64 .ptr .global .align 4 {name}")
            }
            _ => format!(".param .{} {name}", pick(rng, &["u32", "u64", "f32"])),
        }
    });
    list.collect::<Vec<_>>().join(", ")
}

fn function(rng: &mut Rng) -> String {
    let name = pick(rng, &["f", "f", "g", "a"]);
    let list = parameters(rng, false);
    let mut text = String::new();
    if rng.bool() {
        text += &format!(".func {name}({list});\n");
    }
    text + &format!(".func {name}({list}) {{ ret; }}\n")
}

fn kernel(rng: &mut Rng) -> String {
    let mut text = format!(".visible .entry k({})\n", parameters(rng, true));
    if rng.u32(..4) == 0 {
        text += pick(
            rng,
            &[
                ".maxntid 32\n",
                ".reqntid 32, 2, 1\n",
                ".maxntid 0x20 .minnctapersm 2\n",
            ],
        );
    }
    text += "{\n.reg .b32 %q<4>; .reg .b64 %w<4>; .reg .f32 %e<3>; .reg .pred %y<3>;\n";
    for _ in 0..rng.u32(1..8) {
        text += &statement(rng, 0);
        text.push('\n');
    }
    text + "ret;\n}\n"
}

fn statement(rng: &mut Rng, depth: u32) -> String {
    match rng.u32(..14) {
        0 => {
            let ty = pick(rng, &["b32", "u64", "f32", "pred", "b16"]);
            match rng.bool() {
                true => format!(".reg .{ty} {};", name(rng)),
                false => format!(".reg .{ty} {}<{}>;", name(rng), rng.u32(..12)),
            }
        }
        1 => variable(rng, &["local", "shared"]),
        2 => {
            let label = match rng.u32(..6) {
                0 => pick(rng, &["L1", "L2", "a", "$x"]).to_owned(),
                _ => fresh(rng),
            };
            format!("{label}: @%y1 bra {label};")
        }
        3 if depth < 2 => {
            let inner: Vec<String> = (0..rng.u32(..3))
                .map(|_| statement(rng, depth + 1))
                .collect();
            format!("{{ {} }}", inner.join(" "))
        }
        4 => format!("mov.u32 %q{}, {};", rng.u32(..4), expression(rng, 3)),
        5 => format!("mov.u64 %w0{}, {};", rng.u32(..4), expression(rng, 2)),
        6 => format!("add.f32 %e1, %e2, {};", float(rng, 2)),
        7 => format!("ld.global.u32 %q1, [%w1+{}];", expression(rng, 1)),
        8 => format!(
            "st.global.u32 [%w{}+-{}], %q1;",
            rng.u32(..4),
            rng.u32(..99)
        ),
        9 => format!("@!%y{} add.s32 %q1, %q2, %q{};", rng.u32(..3), rng.u32(..4)),
        10 => String::from(pick(
            rng,
            &[
                ".pragma \"nounroll\";",
                "{ }",
                "mov.u32 %q1, %laneid;",
                "mov.u32 %q1, %tid.x;",
                "setp.lt.s32 %y1|%y2, %q1, 3;",
                "mov.b64 %w1, {%q1, 2};",
                "mov.b64 {%q1, _}, %w1;",
            ],
        )),
        11 => String::from("mov.f32 %e1, 0f3F800000;"),
        12 if rng.u32(..6) == 0 => format!("mov.b32 {}, 1;", name(rng)),
        _ => {
            let numbers: &[&str] = match rng.u32(..12) {
                0 => &["4", "04", "4294967300"],
                _ => &["1", "2", "02", "4294967298"],
            };
            format!("mov.u32 %q1, %q{};", pick(rng, numbers))
        }
    }
}
