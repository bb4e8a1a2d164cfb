//! Atomic operations: the value that they return, and the value that they leave in memory.

use std::fmt::Write;

use crate::number::{F32, Format, Mode, Number};
use crate::operation::{Operation, Rule, Source, Ty, bits};
use crate::table::integer::{int, range};

/// A state space: its name in instructions, the code that computes the address, and the address.
const SPACES: [(&str, &str, &str); 4] = [
    (".global", "", "%m"),
    (".shared", "", "%s"),
    ("", "mov.b64 %own, %m;", "%own"),
    (
        "",
        "cvt.u64.u32 %own, %s; cvta.shared.u64 %own, %own;",
        "%own",
    ),
];

/// Computes the new value from the old one and the sources `%b` and `%c`.
type Change = Box<dyn Fn(u64, &[u64]) -> u64>;

struct Form {
    name: String,
    ty: Ty,
    /// The number of sources, without the old value.
    count: usize,
    /// Whether `red` has the operation too.
    reduces: bool,
    since: u32,
    change: Change,
}

fn integers() -> Vec<Form> {
    let mut list = Vec::new();
    let mut push = |name: &str, ty: Ty, reduces: bool, change: Change| {
        list.push(Form {
            name: name.to_owned(),
            ty,
            count: if name == "cas" { 2 } else { 1 },
            reduces,
            since: 75,
            change,
        });
    };
    for ty in ["u32", "s32", "u64"] {
        let sum = move |old: u64, v: &[u64]| (int(ty, old) + int(ty, v[0])) as u64;
        push("add", ty, true, Box::new(sum));
    }
    for ty in ["u32", "s32", "u64", "s64"] {
        let least = move |old: u64, v: &[u64]| int(ty, old).min(int(ty, v[0])) as u64;
        push("min", ty, true, Box::new(least));
        let greatest = move |old: u64, v: &[u64]| int(ty, old).max(int(ty, v[0])) as u64;
        push("max", ty, true, Box::new(greatest));
    }
    for ty in ["b32", "b64"] {
        push("and", ty, true, Box::new(|old, v| old & v[0]));
        push("or", ty, true, Box::new(|old, v| old | v[0]));
        push("xor", ty, true, Box::new(|old, v| old ^ v[0]));
        push("exch", ty, false, Box::new(|_, v| v[0]));
    }
    for ty in ["b16", "b32", "b64"] {
        let swap = |old: u64, v: &[u64]| if old == v[0] { v[1] } else { old };
        push("cas", ty, false, Box::new(swap));
    }
    let (_, top) = range("u32");
    assert_eq!(top, 0xffff_ffff);
    let up = |old: u64, v: &[u64]| if old >= v[0] { 0 } else { old + 1 };
    push("inc", "u32", true, Box::new(up));
    let down = |old: u64, v: &[u64]| match old {
        0 => v[0],
        old if old > v[0] => v[0],
        old => old - 1,
    };
    push("dec", "u32", true, Box::new(down));
    list
}

/// `a + b` in a format, for each of the values packed in a register.
fn sum(format: Format, size: u32, a: u64, b: u64, flush: bool) -> u64 {
    let cut = |bits: u64| if flush { format.flush(bits) } else { bits };
    let parts = (0..size / format.bits()).map(|part| {
        let shift = part * format.bits();
        let mask = u64::MAX >> (64 - format.bits());
        let read = |value: u64| Number::read(cut(value >> shift & mask), format);
        let sum = read(a).plus(&read(b), Mode::Near);
        cut(sum.round(format, Mode::Near)) << shift
    });
    parts.sum()
}

/// The additions of floating-point numbers. In global memory f32 is flushed.
fn floats(shared: bool) -> Vec<Form> {
    let list: [(&str, Ty, u32); 6] = [
        ("add", "f32", 75),
        ("add", "f64", 75),
        ("add.noftz", "f16", 75),
        ("add.noftz", "f16x2", 75),
        ("add.noftz", "bf16", 90),
        ("add.noftz", "bf16x2", 90),
    ];
    list.into_iter()
        .map(|(name, ty, since)| {
            let format = Format::of(ty);
            let flush = format == F32 && !shared;
            Form {
                name: name.to_owned(),
                ty,
                count: 1,
                reduces: true,
                since,
                change: Box::new(move |old, v| sum(format, bits(ty), old, v[0], flush)),
            }
        })
        .collect()
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for (k, space) in SPACES.iter().enumerate() {
        let shared = k % 2 == 1;
        for form in integers().into_iter().chain(floats(shared)) {
            alone(&mut all, space, form);
        }
    }
    vectors(&mut all);
    together(&mut all);
    orders(&mut all);
    all
}

/// Each thread uses its own memory: `%d` is the old value, `%e` the new one.
fn alone(all: &mut Vec<Operation>, (space, before, at): &(&str, &str, &str), form: Form) {
    let (ty, size) = (form.ty, bits(form.ty));
    let sources: Vec<Source> = vec![ty.into(); 1 + form.count];
    let list = ["%b", "%c"][..form.count].join(", ");
    let rule = match ty {
        "f64" => Rule::AnyNan(Format::of("f64")),
        _ => Rule::Exact,
    };
    let mut text = format!("{{ .reg .b64 %own; {before} st{space}.b{size} [{at}], %a;\n");
    let store = text.clone();
    let name = format!("atom{space}.{}.{ty}", form.name);
    writeln!(
        text,
        "{name} %d, [{at}], {list}; ld{space}.b{size} %e, [{at}]; }}"
    )
    .unwrap();
    let change = std::rc::Rc::new(form.change);
    let of_atom = std::rc::Rc::clone(&change);
    let reference = move |v: &[u64]| [v[0], of_atom(v[0], &v[1..])];
    let one = Operation::pair(text, &sources, [ty, ty], reference);
    // A compare-and-swap rarely succeeds with random values: half of them compare with the value in
    // memory.
    all.push(one.named(name).since(form.since).rule(rule));
    if form.reduces {
        let name = format!("red{space}.{}.{ty}", form.name);
        let text = format!("{store}{name} [{at}], {list}; ld{space}.b{size} %d, [{at}]; }}");
        let one = Operation::new(text, &sources, ty, move |v| change(v[0], &v[1..]));
        all.push(one.named(name).since(form.since).rule(rule));
    }
    if form.name == "cas" {
        let name = format!("atom{space}.cas.{ty}");
        let text = format!("{store}{name} %d, [{at}], %a, %b; ld{space}.b{size} %e, [{at}]; }}");
        let one = Operation::pair(text, &sources[..2], [ty, ty], |v| [v[0], v[1]]);
        all.push(one.named(name).since(form.since));
    }
}

/// Vectors: several adjacent values, each of which is updated separately.
fn vectors(all: &mut Vec<Operation>) {
    for (name, ty, register, size) in [
        ("add.v2.f32", "f32", "b32", 32),
        ("add.noftz.v2.f16x2", "f16x2", "b32", 32),
        ("add.noftz.v2.bf16x2", "bf16x2", "b32", 32),
        ("add.noftz.v4.f16", "f16", "b16", 16),
    ] {
        let format = Format::of(ty);
        let count = 64 / size;
        let parts: Vec<String> = (0..count).map(|k| format!("%z{k}")).collect();
        let list = parts.join(", ");
        let before =
            format!("{{ .reg .{register} %z<4>; st.global.b64 [%m], %a; mov.b64 {{{list}}}, %b;");
        let changed = move |v: &[u64]| sum(format, 64, v[0], v[1], format == F32);
        let atom = format!("atom.global.{name}");
        let text = format!(
            "{before} {atom} {{{list}}}, [%m], {{{list}}}; mov.b64 %d, {{{list}}}; ld.global.b64 %e, [%m]; }}"
        );
        let to = ["b64", "b64"];
        let one = Operation::pair(text, &["b64"; 2], to, move |v| [v[0], changed(v)]);
        all.push(one.named(atom).since(90).version(8, 1));
        let red = format!("red.global.{name}");
        let text = format!("{before} {red} [%m], {{{list}}}; ld.global.b64 %d, [%m]; }}");
        let one = Operation::new(text, &["b64"; 2], "b64", changed);
        all.push(one.named(red).since(90).version(8, 1));
    }
}

/// All lanes of a warp update the memory of the first lane.
fn together(all: &mut Vec<Operation>) {
    type Combine = fn(i128, i128) -> i128;
    let list: [(&str, Ty, Combine); 8] = [
        ("add", "u32", |a, b| a + b),
        ("add", "u64", |a, b| a + b),
        ("min", "s32", |a, b| a.min(b)),
        ("max", "u64", |a, b| a.max(b)),
        ("min", "s64", |a, b| a.min(b)),
        ("and", "b32", |a, b| a & b),
        ("or", "b64", |a, b| a | b),
        ("xor", "b32", |a, b| a ^ b),
    ];
    for (space, stride) in [(".global", 24), (".shared", 16)] {
        for (name, ty, combine) in list {
            let size = bits(ty);
            // The memory of the first lane.
            let own = match space {
                ".global" => "%m",
                _ => "%wide",
            };
            let text = format!(
                "{{ .reg .b32 %lane; .reg .b64 %own, %wide; mov.u32 %lane, %laneid; cvt.u64.u32 %wide, %s;
mul.wide.u32 %own, %lane, {stride}; sub.s64 %own, {own}, %own;
setp.eq.u32 %p, %lane, 0; @%p st{space}.b{size} [%own], %a; bar.warp.sync 0xffffffff;
@!%p red{space}.{name}.{ty} [%own], %a; bar.warp.sync 0xffffffff;
ld{space}.b{size} %d, [%own]; }}"
            );
            let reference = move |warp: &[Vec<u64>]| {
                let values = warp.iter().map(|v| int(ty, v[0]));
                vec![[values.reduce(combine).unwrap() as u64, 0]; 32]
            };
            let sources: [Source; 1] = [ty.into()];
            let one = Operation::warp(text, &sources, &[ty], reference);
            all.push(one.named(format!("red{space}.{name}.{ty}")));
        }
    }
}

/// Memory orders and scopes.
fn orders(all: &mut Vec<Operation>) {
    for order in ["relaxed", "acquire", "release", "acq_rel"] {
        for scope in ["cta", "cluster", "gpu", "sys"] {
            let since = if scope == "cluster" { 90 } else { 75 };
            let text = format!(
                "st.global.b32 [%m], %a; atom.{order}.{scope}.global.add.u32 %d, [%m], %b; ld.global.b32 %e, [%m];"
            );
            let reference = |v: &[u64]| [v[0], v[0] + v[1]];
            let one = Operation::pair(text, &["u32"; 2], ["u32", "u32"], reference);
            let name = format!("atom.{order}.{scope}.global.add.u32");
            all.push(one.named(name).since(since));
        }
    }
}
