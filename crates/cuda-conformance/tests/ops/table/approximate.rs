//! Operations for which the ISA gives error bounds instead of exact results.

use crate::number::{F32, F64, Format, Mode, Number};
use crate::operation::{Operation, Reference, Rule, Source, Ty, between};

fn narrow(value: f64, format: Format) -> u64 {
    Number::read(value.to_bits(), F64).round(format, Mode::Near)
}

fn wide(bits: u64, format: Format) -> f64 {
    Number::read(bits, format).to_f64()
}

/// A bound that is a power of two.
fn power(exponent: f64) -> f64 {
    exponent.exp2()
}

/// A function, its text up to the type, and the error bound of its result.
struct Function {
    form: &'static str,
    ty: Ty,
    f: fn(f64) -> f64,
    relative: f64,
    absolute: f64,
    values: Option<(f64, f64)>,
    since: u32,
}

impl Function {
    fn new(form: &'static str, ty: Ty, f: fn(f64) -> f64) -> Self {
        Self {
            form,
            ty,
            f,
            relative: 0.0,
            absolute: 0.0,
            values: None,
            since: 75,
        }
    }

    fn relative(self, exponent: f64) -> Self {
        Self {
            relative: power(exponent),
            ..self
        }
    }

    fn absolute(self, exponent: f64) -> Self {
        Self {
            absolute: power(exponent),
            ..self
        }
    }

    fn between(self, least: f64, greatest: f64) -> Self {
        Self {
            values: Some((least, greatest)),
            ..self
        }
    }

    fn since(self, since: u32) -> Self {
        Self { since, ..self }
    }

    fn operation(&self) -> Operation {
        let (ty, f, format) = (self.ty, self.f, Format::of(self.ty));
        let flush = self.form.contains("ftz");
        let text = format!("{}.{ty} %d, %a;", self.form);
        let source: Source = match self.values {
            Some((least, greatest)) => between(ty, least, greatest),
            None => ty.into(),
        };
        let cut = move |bits: u64| if flush { format.flush(bits) } else { bits };
        // The rough f64 functions read and write only the upper half of the bits.
        let rough = flush && ty == "f64";
        let source_of = move |bits: u64| if rough { bits & !0xffff_ffff } else { bits };
        let reference = move |v: &[u64]| {
            // The reference is precise to far more bits than the bounds require.
            cut(narrow(f(wide(cut(source_of(v[0])), format)), format))
        };
        // A result next to the smallest normal number may be flushed or not.
        let least = f64::from_bits(1_u64 << 52).max(wide(1 << format.fraction, format));
        let absolute = if flush {
            self.absolute.max(least)
        } else {
            self.absolute
        };
        Operation::new(text, &[source], ty, reference)
            .since(self.since)
            .rule(Rule::Within {
                format,
                relative: self.relative,
                absolute,
            })
    }
}

impl Function {
    /// The operation on two values packed in a register.
    fn pair(&self) -> Option<Operation> {
        let packed = match self.ty {
            "f16" => "f16x2",
            "bf16" => "bf16x2",
            _ => return None,
        };
        let one = self.operation();
        let Reference::Lane(single) = one.reference else {
            return None;
        };
        let text = format!("{}.{packed} %d, %a;", self.form);
        let both = move |v: &[u64]| {
            let half = |shift: u32| single(&[v[0] >> shift & 0xffff])[0] << shift;
            half(16) | half(0)
        };
        let pair = Operation::new(text, &[packed], packed, both);
        Some(pair.rule(one.rule).since(self.since))
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    let root = |a: f64| a.sqrt();
    let turn = 2.0 * std::f64::consts::PI;
    let list = [
        Function::new("rcp.approx", "f32", |a| 1.0 / a).relative(-23.0),
        Function::new("rcp.approx.ftz", "f32", |a| 1.0 / a).relative(-23.0),
        Function::new("sqrt.approx", "f32", root).relative(-23.0),
        Function::new("sqrt.approx.ftz", "f32", root).relative(-23.0),
        Function::new("rsqrt.approx", "f32", reverse_root).relative(-22.9),
        Function::new("rsqrt.approx.ftz", "f32", reverse_root).relative(-22.9),
        // Measured: the error of cos(-4.83) is 2^-20.4 on an H200 (driver 580).
        Function::new("sin.approx", "f32", f64::sin)
            .absolute(-20.0)
            .between(-turn, turn),
        Function::new("sin.approx.ftz", "f32", f64::sin)
            .absolute(-20.0)
            .between(-turn, turn),
        Function::new("cos.approx", "f32", f64::cos)
            .absolute(-20.0)
            .between(-turn, turn),
        Function::new("cos.approx.ftz", "f32", f64::cos)
            .absolute(-20.0)
            .between(-turn, turn),
        // The bound is absolute between a half and two, where the magnitude of the logarithm is
        // below one, and relative elsewhere.
        Function::new("lg2.approx", "f32", f64::log2)
            .relative(-22.0)
            .absolute(-22.0),
        Function::new("lg2.approx.ftz", "f32", f64::log2)
            .relative(-22.0)
            .absolute(-22.0),
        // The error of a subnormal result is one unit in the last place on an H200 (driver 580).
        Function::new("ex2.approx", "f32", f64::exp2)
            .relative(-22.0)
            .absolute(-149.0),
        Function::new("ex2.approx", "f32", f64::exp2)
            .relative(-22.0)
            .absolute(-149.0)
            .between(-130.0, 130.0),
        Function::new("ex2.approx.ftz", "f32", f64::exp2)
            .relative(-22.0)
            .between(-124.0, 130.0),
        Function::new("tanh.approx", "f32", f64::tanh).relative(-11.0),
        Function::new("tanh.approx", "f32", f64::tanh)
            .relative(-11.0)
            .between(-3.0, 3.0),
        Function::new("ex2.approx", "f16", f64::exp2)
            .relative(-9.9)
            .absolute(-24.0),
        Function::new("ex2.approx", "f16", f64::exp2)
            .relative(-9.9)
            .absolute(-24.0)
            .between(-16.0, 16.0),
        Function::new("ex2.approx.ftz", "bf16", f64::exp2)
            .relative(-7.0)
            .since(90),
        Function::new("tanh.approx", "f16", f64::tanh).absolute(-10.987),
        Function::new("tanh.approx", "bf16", f64::tanh)
            .absolute(-8.0)
            .since(90),
        Function::new("rsqrt.approx", "f64", reverse_root).relative(-51.0),
        Function::new("rsqrt.approx.ftz", "f64", reverse_root).relative(-19.0),
        Function::new("rcp.approx.ftz", "f64", |a| 1.0 / a).relative(-19.0),
    ];
    all.extend(list.iter().map(Function::operation));
    all.extend(list.iter().filter_map(Function::pair));
    divisions(&mut all);
    all
}

fn reverse_root(a: f64) -> f64 {
    1.0 / a.sqrt()
}

/// Divisions within two units in the last place; `.approx` only for divisors that are not huge.
fn divisions(all: &mut Vec<Operation>) {
    for (form, divisor) in [
        ("div.full", "f32".into()),
        ("div.full.ftz", "f32".into()),
        ("div.approx", between("f32", 1e-4, 1e6)),
        ("div.approx.ftz", between("f32", 1e-4, 1e6)),
    ] {
        let flush = form.ends_with("ftz");
        let cut = move |bits: u64| if flush { F32.flush(bits) } else { bits };
        let reference = move |v: &[u64]| {
            let quotient = Number::read(cut(v[0]), F32).over(&Number::read(cut(v[1]), F32));
            cut(quotient.round(F32, Mode::Near))
        };
        let least = f64::from(f32::MIN_POSITIVE);
        let unit = f64::from(f32::from_bits(1));
        let text = format!("{form}.f32 %d, %a, %b;");
        let one = Operation::new(text, &["f32".into(), divisor], "f32", reference);
        all.push(one.rule(Rule::Within {
            format: F32,
            relative: power(-22.0),
            absolute: if flush { least } else { 2.0 * unit },
        }));
    }
}
