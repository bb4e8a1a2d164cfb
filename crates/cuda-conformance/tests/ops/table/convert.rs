//! Conversions.

use crate::number::{F32, F64, Format, Mode, Number};
use crate::operation::{Operation, Rule, Source, Ty, bits, cut};
use crate::table::float::{Options, rule};
use crate::table::integer::{int, range};

const WHOLE: [Ty; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

const INTEGRAL: [(&str, Mode); 4] = [
    ("rni", Mode::Near),
    ("rzi", Mode::Zero),
    ("rmi", Mode::Down),
    ("rpi", Mode::Up),
];

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    between_integers(&mut all);
    bytes(&mut all);
    to_integers(&mut all);
    from_integers(&mut all);
    between_floats(&mut all);
    to_halves(&mut all);
    to_integral(&mut all);
    pairs(&mut all);
    tensor_floats(&mut all);
    all
}

fn between_integers(all: &mut Vec<Operation>) {
    for from in WHOLE {
        for to in WHOLE {
            if from == to {
                continue;
            }
            let text = format!("cvt.{to}.{from} %d, %a;");
            all.push(Operation::new(text, &[from], to, move |v| {
                int(from, v[0]) as u64
            }));
            // Only where the value can be out of range.
            let (least, greatest) = range(to);
            let (low, high) = range(from);
            if least <= low && greatest >= high {
                continue;
            }
            let text = format!("cvt.sat.{to}.{from} %d, %a;");
            all.push(Operation::new(text, &[from], to, move |v| {
                int(from, v[0]).clamp(least, greatest) as u64
            }));
        }
    }
}

/// 8-bit integers, in wider registers.
fn bytes(all: &mut Vec<Operation>) {
    let byte = |signed: bool, value: u64| {
        let value = i128::from(value & 0xff);
        if signed && value > 127 {
            value - 256
        } else {
            value
        }
    };
    for (name, signed) in [("u8", false), ("s8", true)] {
        for to in WHOLE {
            let text = format!("cvt.{to}.{name} %d, %a;");
            all.push(Operation::new(text, &["u32"], to, move |v| {
                byte(signed, v[0]) as u64
            }));
        }
        for from in WHOLE {
            // The result is extended to the width of the register.
            let text = format!("cvt.{name}.{from} %d, %a;");
            let to = if signed { "s32" } else { "u32" };
            all.push(Operation::new(text, &[from], to, move |v| {
                byte(signed, v[0]) as u64
            }));
            let (least, greatest) = if signed { (-128, 127) } else { (0, 255) };
            let text = format!("cvt.sat.{name}.{from} %d, %a;");
            all.push(Operation::new(text, &[from], to, move |v| {
                int(from, v[0]).clamp(least, greatest) as u64
            }));
        }
        for (round, mode) in INTEGRAL {
            let text = format!("cvt.{round}.{name}.f32 %d, %a;");
            let to = if signed { "s32" } else { "u32" };
            let (least, greatest) = if signed { (-128, 127) } else { (0, 255) };
            all.push(Operation::new(text, &["f32"], to, move |v| {
                let number = Number::read(v[0], F32).integral(mode);
                number.clamped(least, greatest).unwrap_or(0) as u64
            }));
        }
        let text = format!("cvt.rn.f32.{name} %d, %a;");
        all.push(Operation::new(text, &["u32"], "f32", move |v| {
            Number::integer(byte(signed, v[0])).round(F32, Mode::Near)
        }));
    }
}

fn flushed(ty: Ty) -> &'static [&'static str] {
    if ty == "f32" { &["", ".ftz"] } else { &[""] }
}

/// Conversions to integers. The ISA defines the result for a NaN: zero, or only the upper bit set
/// if the source is f64 or the result has 64 bits.
fn to_integers(all: &mut Vec<Operation>) {
    for from in ["f16", "bf16", "f32", "f64"] {
        let format = Format::of(from);
        for to in WHOLE {
            let (least, greatest) = range(to);
            for (round, mode) in INTEGRAL {
                for flush in flushed(from) {
                    let text = format!("cvt.{round}{flush}.{to}.{from} %d, %a;");
                    let reference = move |v: &[u64]| {
                        let bits = if flush.is_empty() {
                            v[0]
                        } else {
                            format.flush(v[0])
                        };
                        let number = Number::read(bits, format).integral(mode);
                        let nan = match format == F64 || crate::operation::bits(to) == 64 {
                            true => 1 << (crate::operation::bits(to) - 1),
                            false => 0,
                        };
                        number.clamped(least, greatest).unwrap_or(nan) as u64
                    };
                    let since = if from == "bf16" { 90 } else { 75 };
                    all.push(Operation::new(text, &[from], to, reference).since(since));
                }
            }
        }
    }
}

fn from_integers(all: &mut Vec<Operation>) {
    for from in WHOLE {
        for to in ["f16", "bf16", "f32", "f64"] {
            let format = Format::of(to);
            let since = if to == "bf16" { 90 } else { 75 };
            for (round, mode) in Mode::ALL {
                let text = format!("cvt.{round}.{to}.{from} %d, %a;");
                let reference =
                    move |v: &[u64]| Number::integer(int(from, v[0])).round(format, mode);
                all.push(Operation::new(text, &[from], to, reference).since(since));
            }
        }
        let text = format!("cvt.rn.sat.f32.{from} %d, %a;");
        all.push(Operation::new(text, &[from], "f32", move |v| {
            Number::integer(int(from, v[0]).clamp(0, 1)).round(F32, Mode::Near)
        }));
    }
}

/// The options of a result in `format`, from a suffix.
fn options(format: Format, suffix: &str) -> Options {
    Options {
        format,
        flush: suffix.contains("ftz"),
        saturate: suffix.contains("sat"),
    }
}

fn between_floats(all: &mut Vec<Operation>) {
    for suffix in ["", ".ftz", ".sat", ".ftz.sat"] {
        for (round, mode) in Mode::ALL {
            let text = format!("cvt.{round}{suffix}.f32.f64 %d, %a;");
            let options = options(F32, suffix);
            let one = Operation::new(text, &["f64"], "f32", move |v| {
                options.write(&Number::read(v[0], F64), mode)
            });
            all.push(one.rule(Rule::AnyNan(F32)));
        }
        if !suffix.contains("sat") {
            let text = format!("cvt{suffix}.f64.f32 %d, %a;");
            let options = options(F32, suffix);
            let reference = move |v: &[u64]| options.read(v[0]).round(F64, Mode::Near);
            all.push(Operation::new(text, &["f32"], "f64", reference).rule(rule("f64")));
        }
        let text = format!("cvt{suffix}.f32.f16 %d, %a;");
        let to = options(F32, suffix);
        all.push(Operation::new(text, &["f16"], "f32", move |v| {
            to.write(&Number::read(v[0], Format::of("f16")), Mode::Near)
        }));
        let text = format!("cvt{suffix}.f32.f32 %d, %a;");
        if !suffix.is_empty() {
            all.push(Operation::new(text, &["f32"], "f32", move |v| {
                to.write(&to.read(v[0]), Mode::Near)
            }));
        }
    }
    let reference = |v: &[u64]| Number::read(v[0], Format::of("f16")).round(F64, Mode::Near);
    let one = Operation::new("cvt.f64.f16 %d, %a;", &["f16"], "f64", reference);
    all.push(one.rule(rule("f64")));
    let reference = |v: &[u64]| Number::read(v[0], Format::of("bf16")).round(F32, Mode::Near);
    let one = Operation::new("cvt.f32.bf16 %d, %a;", &["bf16"], "f32", reference);
    // A NaN becomes a NaN; the ISA does not define which one.
    all.push(one.rule(Rule::AnyNan(F32)).since(90));
}

fn to_halves(all: &mut Vec<Operation>) {
    for to in ["f16", "bf16"] {
        let format = Format::of(to);
        for (round, mode) in Mode::ALL {
            for suffix in ["", ".relu", ".sat"] {
                let brain = to == "bf16";
                if brain && suffix == ".sat" || suffix == ".relu" && !matches!(round, "rn" | "rz") {
                    continue;
                }
                let since = match (brain, suffix, round) {
                    (true, _, "rm" | "rp") => 90,
                    (true, ..) | (_, ".relu", _) => 80,
                    _ => 75,
                };
                let text = format!("cvt.{round}{suffix}.{to}.f32 %d, %a;");
                let reference = move |v: &[u64]| {
                    let bits = Number::read(v[0], F32).round(format, mode);
                    rectified(options(format, suffix).finish(bits), format, suffix)
                };
                all.push(Operation::new(text, &["f32"], to, reference).since(since));
            }
            if to == "f16" {
                let text = format!("cvt.{round}.f16.f64 %d, %a;");
                let one = Operation::new(text, &["f64"], to, move |v| {
                    Number::read(v[0], F64).round(format, mode)
                });
                all.push(one.rule(Rule::AnyNan(format)));
            }
        }
    }
}

fn rectified(bits: u64, format: Format, suffix: &str) -> u64 {
    if suffix.contains("relu") && bits & format.sign() != 0 && !format.is_nan(bits) {
        0
    } else {
        bits
    }
}

fn to_integral(all: &mut Vec<Operation>) {
    for (ty, suffix) in [
        ("f16", ""),
        ("f32", ""),
        ("f32", ".ftz"),
        ("f32", ".sat"),
        ("f64", ""),
    ] {
        let options = options(Format::of(ty), suffix);
        for (round, mode) in INTEGRAL {
            let text = format!("cvt.{round}{suffix}.{ty}.{ty} %d, %a;");
            let reference =
                move |v: &[u64]| options.write(&options.read(v[0]).integral(mode), Mode::Near);
            all.push(Operation::new(text, &[ty], ty, reference).rule(rule(ty)));
        }
    }
}

/// Two f32 values to one register.
fn pairs(all: &mut Vec<Operation>) {
    for (to, packed) in [("f16", "f16x2"), ("bf16", "bf16x2")] {
        let format = Format::of(to);
        for (round, mode) in [("rn", Mode::Near), ("rz", Mode::Zero)] {
            for suffix in ["", ".relu"] {
                let text = format!("cvt.{round}{suffix}.{packed}.f32 %d, %a, %b;");
                let reference = move |v: &[u64]| {
                    let half = |bits: u64| {
                        let bits = Number::read(bits, F32).round(format, mode);
                        rectified(bits, format, suffix)
                    };
                    half(v[0]) << 16 | half(v[1])
                };
                all.push(Operation::new(text, &["f32"; 2], packed, reference).since(80));
            }
        }
    }
}

/// Conversions to tf32, which keeps the first 10 fraction bits of f32. The ISA does not define
/// which NaN a NaN becomes; with `.rna` an H200 (driver 580) turns some NaNs into an infinity, so
/// `.rna` gets none.
fn tensor_floats(all: &mut Vec<Operation>) {
    let short = Format::new(8, 10);
    for (round, mode, since) in [
        ("rna", Mode::Away, 80),
        ("rn", Mode::Near, 90),
        ("rz", Mode::Zero, 90),
    ] {
        for suffix in ["", ".relu"] {
            if round == "rna" && !suffix.is_empty() {
                continue;
            }
            let name = format!("cvt.{round}{suffix}.tf32.f32");
            let without_nan = "setp.nan.f32 %p, %a, %a; selp.f32 %a, 0f3f800000, %a, %p; ";
            let before = if round == "rna" { without_nan } else { "" };
            let text = format!("{before}{name} %d, %a;");
            let sources: [Source; 1] = ["f32".into()];
            let reference = move |v: &[u64]| {
                let bits = Number::read(v[0], F32).round(short, mode) << 13;
                let bits = rectified(cut("b32", bits), F32, suffix);
                match F32.is_nan(v[0]) {
                    true if round == "rna" => 1_f32.to_bits().into(),
                    true => F32.nan(),
                    false => bits,
                }
            };
            assert_eq!(bits("b32"), F32.bits());
            let one = Operation::new(text, &sources, "b32", reference).named(name);
            all.push(one.rule(Rule::AnyNan(F32)).since(since));
        }
    }
}
