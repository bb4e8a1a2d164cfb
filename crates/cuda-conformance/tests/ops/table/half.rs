//! Arithmetic on f16 and bf16, one or two values in a register.

use crate::number::{Format, Mode, Number};
use crate::operation::{Operation, Ty};
use crate::table::float::{Options, greater, smaller};

type Combine = fn(&[Number]) -> Number;

/// Applies `.relu` to a result: a NaN stays, negative numbers become zero.
fn relu(bits: u64, format: Format) -> u64 {
    if bits & format.sign() != 0 && !format.is_nan(bits) {
        0
    } else {
        bits
    }
}

/// Adds the form for one number, and the form for two packed numbers.
fn both(
    all: &mut Vec<Operation>,
    form: &str,
    format: (Ty, Ty),
    count: usize,
    make: impl Fn(Operation) -> Operation,
    reference: impl Fn(&[u64]) -> u64 + Clone + 'static,
) {
    let (ty, packed) = format;
    let sources = ["%a", "%b", "%c"][..count].join(", ");
    let text = format!("{form}.{ty} %d, {sources};");
    all.push(make(Operation::new(
        text,
        &vec![ty; count],
        ty,
        reference.clone(),
    )));
    let text = format!("{form}.{packed} %d, {sources};");
    all.push(make(Operation::new(
        text,
        &vec![packed; count],
        packed,
        move |v| {
            let half = |shift: u32| {
                let halves: Vec<u64> = v.iter().map(|value| value >> shift & 0xffff).collect();
                reference(&halves) << shift
            };
            half(16) | half(0)
        },
    )));
}

const HALF: (Ty, Ty) = ("f16", "f16x2");
const BRAIN: (Ty, Ty) = ("bf16", "bf16x2");

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    rounded(&mut all);
    extremes(&mut all);
    signs(&mut all);
    all
}

fn rounded(all: &mut Vec<Operation>) {
    let list: [(&str, usize, Combine); 4] = [
        ("add", 2, |v| v[0].plus(&v[1], Mode::Near)),
        ("sub", 2, |v| v[0].plus(&v[1].clone().negated(), Mode::Near)),
        ("mul", 2, |v| v[0].times(&v[1])),
        ("fma", 3, |v| v[0].times(&v[1]).plus(&v[2], Mode::Near)),
    ];
    for (name, count, combine) in list {
        for suffix in [
            ".rn",
            ".rn.ftz",
            ".rn.sat",
            ".rn.ftz.sat",
            ".rn.relu",
            ".rn.ftz.relu",
        ] {
            let rectifies = suffix.ends_with("relu");
            if rectifies && name != "fma" {
                continue;
            }
            let options = Options {
                format: Format::of("f16"),
                flush: suffix.contains("ftz"),
                saturate: suffix.ends_with("sat"),
            };
            let since = if rectifies { 80 } else { 75 };
            let form = format!("{name}{suffix}");
            both(
                all,
                &form,
                HALF,
                count,
                |one| one.since(since),
                move |v| {
                    let numbers: Vec<Number> = v.iter().map(|&bits| options.read(bits)).collect();
                    let bits = options.write(&combine(&numbers), Mode::Near);
                    if rectifies {
                        relu(bits, options.format)
                    } else {
                        bits
                    }
                },
            );
        }
        for suffix in [".rn", ".rn.relu"] {
            let rectifies = suffix.ends_with("relu");
            if rectifies && name != "fma" {
                continue;
            }
            let format = Format::of("bf16");
            let since = if name == "fma" { 80 } else { 90 };
            let form = format!("{name}{suffix}");
            both(
                all,
                &form,
                BRAIN,
                count,
                |one| one.since(since),
                move |v| {
                    let read = |&bits: &u64| Number::read(bits, format);
                    let numbers: Vec<Number> = v.iter().map(read).collect();
                    let bits = combine(&numbers).round(format, Mode::Near);
                    if rectifies { relu(bits, format) } else { bits }
                },
            );
        }
    }
}

fn extremes(all: &mut Vec<Operation>) {
    type Choose = fn(&Number, &Number, bool) -> Number;
    for (name, choose) in [("min", smaller as Choose), ("max", greater as Choose)] {
        for suffix in ["", ".ftz", ".NaN", ".ftz.NaN"] {
            for types in [HALF, BRAIN] {
                if types == BRAIN && suffix.contains("ftz") {
                    continue;
                }
                let format = Format::of(types.0);
                let flush = suffix.contains("ftz");
                let nan = suffix.ends_with("NaN");
                let form = format!("{name}{suffix}");
                both(
                    all,
                    &form,
                    types,
                    2,
                    |one| one.since(80),
                    move |v| {
                        let cut = |bits: u64| if flush { format.flush(bits) } else { bits };
                        let read = |bits: u64| Number::read(cut(bits), format);
                        choose(&read(v[0]), &read(v[1]), nan).round(format, Mode::Near)
                    },
                );
            }
        }
    }
}

fn signs(all: &mut Vec<Operation>) {
    for (types, suffix, since) in [(HALF, "", 75), (HALF, ".ftz", 75), (BRAIN, "", 80)] {
        let format = Format::of(types.0);
        let flush = move |bits: u64| match suffix {
            "" => bits,
            _ => format.flush(bits),
        };
        let (ty, packed) = types;
        for (name, f) in [
            ("neg", (|bits, sign| bits ^ sign) as fn(u64, u64) -> u64),
            ("abs", |bits, sign| bits & !sign),
        ] {
            both(
                all,
                &format!("{name}{suffix}"),
                (ty, packed),
                1,
                |one| one.since(since),
                move |v| format.canonical(f(flush(v[0]), format.sign())),
            );
        }
    }
}
