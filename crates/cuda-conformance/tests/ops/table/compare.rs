//! Comparisons and selections.

use std::cmp::Ordering;

use crate::number::{Format, Number};
use crate::operation::{Operation, Source, Ty, bits};
use crate::table::integer::int;

/// Whether the outcome of a comparison, `None` if one operand is a NaN, satisfies `name`.
fn holds(name: &str, order: Option<Ordering>) -> bool {
    let Some(order) = order else {
        return matches!(name, "equ" | "neu" | "ltu" | "leu" | "gtu" | "geu" | "nan");
    };
    match name {
        "eq" | "equ" => order.is_eq(),
        "ne" | "neu" => order.is_ne(),
        "lt" | "ltu" | "lo" => order.is_lt(),
        "le" | "leu" | "ls" => order.is_le(),
        "gt" | "gtu" | "hi" => order.is_gt(),
        "ge" | "geu" | "hs" => order.is_ge(),
        "num" => true,
        _ => false,
    }
}

/// A type, and the comparisons that it supports.
struct Compared {
    ty: Ty,
    format: Option<Format>,
    flush: bool,
    names: Vec<&'static str>,
}

impl Compared {
    fn order(&self, a: u64, b: u64) -> Option<Ordering> {
        let Some(format) = self.format else {
            return Some(int(self.ty, a).cmp(&int(self.ty, b)));
        };
        let read = |bits| match self.flush {
            true => Number::read(format.flush(bits), format),
            false => Number::read(bits, format),
        };
        read(a).order(&read(b))
    }

    fn suffix(&self) -> String {
        let flush = if self.flush { ".ftz" } else { "" };
        format!("{flush}.{}", self.ty)
    }
}

fn compared() -> Vec<Compared> {
    let mut list = Vec::new();
    for ty in [
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64",
    ] {
        let mut names = vec!["eq", "ne"];
        if !ty.starts_with('b') {
            names.extend(["lt", "le", "gt", "ge"]);
        }
        if ty.starts_with('u') {
            names.extend(["lo", "ls", "hi", "hs"]);
        }
        list.push(Compared {
            ty,
            format: None,
            flush: false,
            names,
        });
    }
    for (ty, flush) in [
        ("f32", false),
        ("f32", true),
        ("f64", false),
        ("f16", false),
        ("f16", true),
        ("bf16", false),
    ] {
        list.push(Compared {
            ty,
            format: Some(Format::of(ty)),
            flush,
            names: vec![
                "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                "num", "nan",
            ],
        });
    }
    list
}

/// The first architecture that can compare a type.
fn since(ty: Ty) -> u32 {
    if ty == "bf16" { 90 } else { 75 }
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for compared in compared() {
        for &name in &compared.names {
            predicate(&mut all, &compared, name);
        }
    }
    combined(&mut all);
    for compared in compared() {
        sets(&mut all, &compared);
    }
    packed(&mut all);
    selections(&mut all);
    tests(&mut all);
    all
}

fn predicate(all: &mut Vec<Operation>, compared: &Compared, name: &'static str) {
    let (ty, suffix) = (compared.ty, compared.suffix());
    let text = format!("setp.{name}{suffix} %p, %a, %b; selp.u32 %d, 1, 0, %p;");
    let compared = Compared {
        names: Vec::new(),
        ..*compared
    };
    let reference = move |v: &[u64]| u64::from(holds(name, compared.order(v[0], v[1])));
    all.push(Operation::new(text, &[ty; 2], "u32", reference).since(since(ty)));
}

/// Comparisons that are combined with a predicate, and comparisons with two results.
fn combined(all: &mut Vec<Operation>) {
    type Logic = fn(bool, bool) -> bool;
    let list: [(&str, Logic); 3] = [
        ("and", |a, b| a && b),
        ("or", |a, b| a || b),
        ("xor", |a, b| a != b),
    ];
    for ty in ["s32", "u64", "f32", "f64"] {
        for (name, f) in list {
            let text = format!(
                "setp.lt.u32 %q, %c, 0x60000000; setp.gt.{name}.{ty} %p|%q, %a, %b, %q;
selp.u32 %d, 1, 0, %p; selp.u32 %e, 1, 0, %q;"
            );
            let sources: [Ty; 3] = [ty, ty, "u32"];
            let compared = Compared {
                ty,
                format: ty.starts_with('f').then(|| Format::of(ty)),
                flush: false,
                names: Vec::new(),
            };
            let reference = move |v: &[u64]| {
                let is_greater = holds("gt", compared.order(v[0], v[1]));
                let with = v[2] < 0x6000_0000;
                [f(is_greater, with).into(), f(!is_greater, with).into()]
            };
            let one = Operation::pair(text, &sources, ["u32", "u32"], reference);
            all.push(one.named(format!("setp.gt.{name}.{ty}")));
            let text =
                format!("setp.lt.u32 %q, %c, 0x60000000; set.gt.{name}.u32.{ty} %d, %a, %b, !%q;");
            let compared = Compared {
                ty,
                format: ty.starts_with('f').then(|| Format::of(ty)),
                flush: false,
                names: Vec::new(),
            };
            let reference = move |v: &[u64]| {
                let is_greater = holds("gt", compared.order(v[0], v[1]));
                if f(is_greater, v[2] >= 0x6000_0000) {
                    0xffff_ffff
                } else {
                    0
                }
            };
            let one = Operation::new(text, &sources, "u32", reference);
            all.push(one.named(format!("set.gt.{name}.u32.{ty}")));
        }
    }
}

fn sets(all: &mut Vec<Operation>, compared: &Compared) {
    let (ty, suffix) = (compared.ty, compared.suffix());
    let one = |to: Ty| match to {
        "f32" => 0x3f80_0000,
        "f16" => 0x3c00,
        "bf16" => 0x3f80,
        _ => u64::MAX,
    };
    let to: &[Ty] = match ty {
        "f16" => &["u16", "s16", "u32", "s32", "f16"],
        "bf16" => &["u16", "s16", "u32", "s32", "bf16"],
        _ => &["u32", "s32", "f32"],
    };
    for (k, &to) in to.iter().enumerate() {
        // Only some comparisons for each type, as the format of the result does not depend on the
        // comparison.
        let names = &compared.names;
        let name = names[(k * 2 + 1) % names.len()];
        let flush = if compared.flush { ".ftz" } else { "" };
        let text = format!(
            "set.{name}{flush}.{to}{} %d, %a, %b;",
            &suffix[flush.len()..]
        );
        let compared = Compared {
            names: Vec::new(),
            ..*compared
        };
        let reference = move |v: &[u64]| match holds(name, compared.order(v[0], v[1])) {
            true => one(to),
            false => 0,
        };
        all.push(Operation::new(text, &[ty; 2], to, reference).since(since(ty)));
    }
}

/// Two comparisons of halves at once.
fn packed(all: &mut Vec<Operation>) {
    for (ty, packed, flush, since) in [
        ("f16", "f16x2", false, 75),
        ("f16", "f16x2", true, 75),
        ("bf16", "bf16x2", false, 90),
    ] {
        let suffix = if flush { ".ftz" } else { "" };
        let make = move || Compared {
            ty,
            format: Some(Format::of(ty)),
            flush,
            names: Vec::new(),
        };
        let orders = |compared: &Compared, v: &[u64]| {
            [0, 16].map(|shift| compared.order(v[0] >> shift & 0xffff, v[1] >> shift & 0xffff))
        };
        for name in ["eq", "ne", "lt", "ge", "gtu", "neu", "nan"] {
            let compared = make();
            let text = format!(
                "setp.{name}{suffix}.{packed} %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; selp.u32 %e, 1, 0, %q;"
            );
            let reference =
                move |v: &[u64]| orders(&compared, v).map(|order| u64::from(holds(name, order)));
            let one = Operation::pair(text, &[packed; 2], ["u32", "u32"], reference);
            all.push(one.since(since));
            for (to, one) in [(packed, 0x3c00), ("u32", 0xffff)] {
                let one = if to == "bf16x2" { 0x3f80 } else { one };
                let compared = make();
                let text = format!("set.{name}{suffix}.{to}.{packed} %d, %a, %b;");
                let reference = move |v: &[u64]| {
                    let [low, high] = orders(&compared, v).map(|order| holds(name, order));
                    (if low { one } else { 0 }) | (if high { one << 16 } else { 0 })
                };
                all.push(Operation::new(text, &[packed; 2], to, reference).since(since));
            }
        }
    }
}

fn selections(all: &mut Vec<Operation>) {
    for ty in [
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64",
    ] {
        let text = format!("setp.lt.u32 %p, %c, 0x60000000; selp.{ty} %d, %a, %b, %p;");
        let sources: [Ty; 3] = [ty, ty, "u32"];
        let reference = |v: &[u64]| if v[2] < 0x6000_0000 { v[0] } else { v[1] };
        let one = Operation::new(text, &sources, ty, reference);
        all.push(one.named(format!("selp.{ty}")));
        for (by, flush) in [("s32", ""), ("f32", ""), ("f32", ".ftz")] {
            let text = format!("slct{flush}.{ty}.{by} %d, %a, %b, %c;");
            let sources: [Source; 3] = [ty.into(), ty.into(), by.into()];
            let reference = move |v: &[u64]| {
                let first = match by {
                    "s32" => int("s32", v[2]) >= 0,
                    _ => {
                        // Negative zero counts as zero; a NaN selects the second source.
                        let format = Format::of("f32");
                        let bits = if flush.is_empty() {
                            v[2]
                        } else {
                            format.flush(v[2])
                        };
                        let number = Number::read(bits, format);
                        !number.is_nan() && (number.is_zero() || !number.is_negative())
                    }
                };
                if first { v[0] } else { v[1] }
            };
            all.push(Operation::new(text, &sources, ty, reference));
        }
    }
}

fn tests(all: &mut Vec<Operation>) {
    for ty in ["f32", "f64"] {
        let format = Format::of(ty);
        assert_eq!(bits(ty), format.bits());
        for name in [
            "finite",
            "infinite",
            "number",
            "notanumber",
            "normal",
            "subnormal",
        ] {
            let text = format!("testp.{name}.{ty} %p, %a; selp.u32 %d, 1, 0, %p;");
            let reference = move |v: &[u64]| {
                let exponent = v[0] & format.infinity();
                let fraction = v[0] & ((1 << format.fraction) - 1);
                let full = exponent == format.infinity();
                u64::from(match name {
                    "finite" => !full,
                    "infinite" => full && fraction == 0,
                    "number" => !full || fraction == 0,
                    "notanumber" => full && fraction != 0,
                    // Zero counts as normal.
                    "normal" => !full && (exponent != 0 || fraction == 0),
                    _ => exponent == 0 && fraction != 0,
                })
            };
            all.push(Operation::new(text, &[ty], "u32", reference));
        }
    }
}
