//! Arithmetic on f32 and f64 whose results are defined exactly.

use std::cmp::Ordering;

use crate::number::{Format, Mode, Number};
use crate::operation::{Operation, Reference, Rule, Ty};

/// The modifiers, except rounding, that change sources and results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) format: Format,
    pub(crate) flush: bool,
    pub(crate) saturate: bool,
}

impl Options {
    /// Reads the number of a source.
    pub(crate) fn read(self, bits: u64) -> Number {
        let bits = if self.flush {
            self.format.flush(bits)
        } else {
            bits
        };
        Number::read(bits, self.format)
    }

    /// Rounds a result and returns its bits. It is flushed before it is rounded: measured on an
    /// H200 (driver 580), as the ISA does not say.
    pub(crate) fn write(self, number: &Number, mode: Mode) -> u64 {
        let flushed = self.flush && number.is_tiny(self.format);
        let zero = Number::zero(number.is_negative());
        let number = if flushed { &zero } else { number };
        self.finish(number.round(self.format, mode))
    }

    /// Applies the modifiers to a result that is rounded already.
    pub(crate) fn finish(self, bits: u64) -> u64 {
        let format = self.format;
        let bits = if self.flush { format.flush(bits) } else { bits };
        if !self.saturate {
            return bits;
        }
        let number = Number::read(bits, format);
        let one = Number::integer(1);
        match number.order(&one) {
            None => 0,
            _ if number.is_negative() => 0,
            Some(Ordering::Greater) => one.round(format, Mode::Near),
            _ => bits,
        }
    }
}

/// The smaller of two numbers; -0 is smaller than +0. Of a number and a NaN, the number, or a NaN
/// if `keeps_nan`.
pub(crate) fn smaller(a: &Number, b: &Number, keeps_nan: bool) -> Number {
    match a.order(b) {
        None if keeps_nan || (a.is_nan() && b.is_nan()) => Number::Nan,
        None if a.is_nan() => b.clone(),
        None => a.clone(),
        Some(Ordering::Less) => a.clone(),
        Some(Ordering::Greater) => b.clone(),
        Some(Ordering::Equal) if a.is_negative() => a.clone(),
        Some(Ordering::Equal) => b.clone(),
    }
}

/// The greater of two numbers, with the rules of [`smaller`].
pub(crate) fn greater(a: &Number, b: &Number, keeps_nan: bool) -> Number {
    let (a, b) = (a.clone().negated(), b.clone().negated());
    smaller(&a, &b, keeps_nan).negated()
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for ty in ["f32", "f64"] {
        for (name, mode) in Mode::ALL {
            rounded(&mut all, ty, name, mode);
        }
        extremes(&mut all, ty);
        signs(&mut all, ty);
    }
    pairs(&mut all);
    all
}

/// Two f32 values packed in a 64-bit register.
fn pairs(all: &mut Vec<Operation>) {
    for (name, mode) in Mode::ALL {
        let from = all.len();
        rounded(all, "f32", name, mode);
        for one in all.split_off(from) {
            let is_pair =
                ["add", "mul", "fma", "sub"].contains(&one.name.split('.').next().unwrap());
            if !is_pair || one.name.contains("sat") {
                continue;
            }
            let Reference::Lane(single) = one.reference else {
                continue;
            };
            let both = move |v: &[u64]| {
                let half = |shift: u32| {
                    let halves: Vec<u64> = v.iter().map(|v| v >> shift & 0xffff_ffff).collect();
                    single(&halves)[0] << shift
                };
                half(32) | half(0)
            };
            let text = one.text.replace(".f32 ", ".f32x2 ");
            let sources = vec!["f32x2"; one.sources.len()];
            let pair = Operation::new(text, &sources, "b64", both);
            all.push(pair.since(100).version(8, 6));
        }
    }
}

/// The combinations of `.ftz` and `.sat` that an instruction supports.
fn variants(ty: Ty, saturates: bool) -> Vec<(String, Options)> {
    let format = Format::of(ty);
    let mut list = Vec::new();
    for flush in [false, true] {
        for saturate in [false, true] {
            if (flush || saturate) && ty == "f64" || saturate && !saturates {
                continue;
            }
            let name = [(flush, ".ftz"), (saturate, ".sat")];
            let name = name.iter().filter(|(on, _)| *on).map(|(_, name)| *name);
            let options = Options {
                format,
                flush,
                saturate,
            };
            list.push((name.collect(), options));
        }
    }
    list
}

/// The rule for results of a type: an f64 NaN may be any NaN, as the ISA does not define which one.
pub(crate) fn rule(ty: Ty) -> Rule {
    match ty {
        "f64" => Rule::AnyNan(Format::of(ty)),
        _ => Rule::Exact,
    }
}

fn rounded(all: &mut Vec<Operation>, ty: Ty, round: &str, mode: Mode) {
    type Combine = fn(&[Number], Mode) -> Number;
    let list: [(&str, usize, bool, Combine); 7] = [
        ("add", 2, true, |v, mode| v[0].plus(&v[1], mode)),
        ("sub", 2, true, |v, mode| {
            v[0].plus(&v[1].clone().negated(), mode)
        }),
        ("mul", 2, true, |v, _| v[0].times(&v[1])),
        ("fma", 3, true, |v, mode| {
            v[0].times(&v[1]).plus(&v[2], mode)
        }),
        ("div", 2, false, |v, _| v[0].over(&v[1])),
        ("rcp", 1, false, |v, _| Number::integer(1).over(&v[0])),
        ("sqrt", 1, false, |v, _| v[0].root()),
    ];
    for (name, count, saturates, combine) in list {
        for (suffix, options) in variants(ty, saturates) {
            let sources = ["%a", "%b", "%c"][..count].join(", ");
            let text = format!("{name}.{round}{suffix}.{ty} %d, {sources};");
            let reference = move |v: &[u64]| {
                let numbers: Vec<Number> = v.iter().map(|&bits| options.read(bits)).collect();
                options.write(&combine(&numbers, mode), mode)
            };
            all.push(Operation::new(text, &vec![ty; count], ty, reference).rule(rule(ty)));
        }
    }
}

fn extremes(all: &mut Vec<Operation>, ty: Ty) {
    for (name, choose) in [
        ("min", smaller as fn(&Number, &Number, bool) -> Number),
        ("max", greater),
    ] {
        for (suffix, options) in variants(ty, false) {
            for nan in ["", ".NaN"] {
                if ty == "f64" && !nan.is_empty() {
                    continue;
                }
                let text = format!("{name}{suffix}{nan}.{ty} %d, %a, %b;");
                let reference = move |v: &[u64]| {
                    let chosen = choose(&options.read(v[0]), &options.read(v[1]), !nan.is_empty());
                    options.write(&chosen, Mode::Near)
                };
                let since = if nan.is_empty() { 75 } else { 80 };
                let one = Operation::new(text, &[ty; 2], ty, reference);
                all.push(one.rule(rule(ty)).since(since));
            }
        }
    }
}

fn signs(all: &mut Vec<Operation>, ty: Ty) {
    for (suffix, options) in variants(ty, false) {
        let format = options.format;
        let flush = move |bits: u64| {
            if options.flush {
                format.flush(bits)
            } else {
                bits
            }
        };
        let text = format!("neg{suffix}.{ty} %d, %a;");
        let negate = move |v: &[u64]| format.canonical(flush(v[0]) ^ format.sign());
        all.push(Operation::new(text, &[ty], ty, negate).rule(rule(ty)));
        let text = format!("abs{suffix}.{ty} %d, %a;");
        let magnitude = move |v: &[u64]| format.canonical(flush(v[0]) & !format.sign());
        all.push(Operation::new(text, &[ty], ty, magnitude).rule(rule(ty)));
    }
    let format = Format::of(ty);
    let text = format!("copysign.{ty} %d, %a, %b;");
    let copy = move |v: &[u64]| v[0] & format.sign() | v[1] & !format.sign();
    all.push(Operation::new(text, &[ty; 2], ty, copy));
}
