//! Integer arithmetic.

use crate::operation::{Operation, Ty, bits};

/// The integer that a register holds.
pub(crate) fn int(ty: Ty, value: u64) -> i128 {
    let bits = bits(ty);
    let value = i128::from(value) & ((1 << bits) - 1);
    if ty.starts_with('s') && value >> (bits - 1) != 0 {
        value - (1 << bits)
    } else {
        value
    }
}

/// The smallest and the greatest integer of a type.
pub(crate) fn range(ty: Ty) -> (i128, i128) {
    let bits = bits(ty);
    match ty.starts_with('s') {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

/// The type with twice the bits.
fn twice(ty: Ty) -> Ty {
    match ty {
        "u16" => "u32",
        "s16" => "s32",
        "u32" => "u64",
        _ => "s64",
    }
}

/// A product, shifted right by `from` bits. Both factors have the same type, so that wrapping in
/// `i128` keeps enough bits.
fn product(ty: Ty, a: u64, b: u64, from: u32) -> i128 {
    if ty == "u64" {
        ((u128::from(a) * u128::from(b)) >> from) as i128
    } else {
        (int(ty, a) * int(ty, b)) >> from
    }
}

const WHOLE: [Ty; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

fn unary(name: &str, ty: Ty, f: impl Fn(i128) -> i128 + 'static) -> Operation {
    let text = format!("{name}.{ty} %d, %a;");
    Operation::new(text, &[ty], ty, move |v| f(int(ty, v[0])) as u64)
}

fn binary(name: &str, ty: Ty, f: impl Fn(i128, i128) -> i128 + 'static) -> Operation {
    let text = format!("{name}.{ty} %d, %a, %b;");
    Operation::new(text, &[ty; 2], ty, move |v| {
        f(int(ty, v[0]), int(ty, v[1])) as u64
    })
}

fn ternary(name: &str, ty: Ty, f: impl Fn(i128, i128, i128) -> i128 + 'static) -> Operation {
    let text = format!("{name}.{ty} %d, %a, %b, %c;");
    Operation::new(text, &[ty; 3], ty, move |v| {
        f(int(ty, v[0]), int(ty, v[1]), int(ty, v[2])) as u64
    })
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    for ty in WHOLE {
        plain(&mut all, ty);
        products(&mut all, ty);
    }
    saturating(&mut all);
    of_24_bits(&mut all);
    carries(&mut all);
    dots(&mut all);
    pairs(&mut all);
    all
}

fn plain(all: &mut Vec<Operation>, ty: Ty) {
    let (least, _) = range(ty);
    all.push(binary("add", ty, |a, b| a + b));
    all.push(binary("sub", ty, |a, b| a - b));
    all.push(binary("min", ty, |a, b| if b < a { b } else { a }));
    all.push(binary("max", ty, |a, b| if b > a { b } else { a }));
    // The ISA does not define the result of a division by zero.
    let text = format!("or.b{0} %b, %b, 1; div.{ty} %d, %a, %b;", bits(ty));
    let divide = move |v: &[u64]| (int(ty, v[0]) / int(ty, v[1] | 1)) as u64;
    all.push(Operation::new(text, &[ty; 2], ty, divide).named(format!("div.{ty}")));
    let text = format!("or.b{0} %b, %b, 1; rem.{ty} %d, %a, %b;", bits(ty));
    let remain = move |v: &[u64]| {
        let (a, b) = (int(ty, v[0]), int(ty, v[1] | 1));
        (a - a / b * b) as u64
    };
    all.push(Operation::new(text, &[ty; 2], ty, remain).named(format!("rem.{ty}")));
    let distance = |a: i128, b: i128| if a < b { b - a } else { a - b };
    all.push(ternary("sad", ty, move |a, b, c| distance(a, b) + c));
    if least < 0 {
        all.push(unary("abs", ty, |a| if a < 0 { -a } else { a }));
        all.push(unary("neg", ty, |a| -a));
    }
}

fn products(all: &mut Vec<Operation>, ty: Ty) {
    let size = bits(ty);
    for (part, from) in [("lo", 0), ("hi", size)] {
        let text = format!("mul.{part}.{ty} %d, %a, %b;");
        all.push(Operation::new(text, &[ty; 2], ty, move |v| {
            product(ty, v[0], v[1], from) as u64
        }));
        let text = format!("mad.{part}.{ty} %d, %a, %b, %c;");
        all.push(Operation::new(text, &[ty; 3], ty, move |v| {
            product(ty, v[0], v[1], from).wrapping_add(int(ty, v[2])) as u64
        }));
    }
    if size < 64 {
        let wide = twice(ty);
        let text = format!("mul.wide.{ty} %d, %a, %b;");
        all.push(Operation::new(text, &[ty; 2], wide, move |v| {
            product(ty, v[0], v[1], 0) as u64
        }));
        let text = format!("mad.wide.{ty} %d, %a, %b, %c;");
        all.push(Operation::new(text, &[ty, ty, wide], wide, move |v| {
            (product(ty, v[0], v[1], 0) + int(wide, v[2])) as u64
        }));
    }
}

fn saturating(all: &mut Vec<Operation>) {
    let (least, greatest) = range("s32");
    let clamp = move |value: i128| value.clamp(least, greatest);
    all.push(binary("add.sat", "s32", move |a, b| clamp(a + b)));
    all.push(binary("sub.sat", "s32", move |a, b| clamp(a - b)));
    all.push(ternary("mad.hi.sat", "s32", move |a, b, c| {
        clamp(((a * b) >> 32) + c)
    }));
}

fn of_24_bits(all: &mut Vec<Operation>) {
    for ty in ["u32", "s32"] {
        let low = move |value: i128| {
            let value = value & 0xff_ffff;
            if ty == "s32" && value > 0x7f_ffff {
                value - 0x100_0000
            } else {
                value
            }
        };
        all.push(binary("mul24.lo", ty, move |a, b| low(a) * low(b)));
        all.push(binary("mul24.hi", ty, move |a, b| (low(a) * low(b)) >> 16));
        all.push(ternary("mad24.lo", ty, move |a, b, c| low(a) * low(b) + c));
        all.push(ternary("mad24.hi", ty, move |a, b, c| {
            ((low(a) * low(b)) >> 16) + c
        }));
    }
    let (least, greatest) = range("s32");
    all.push(ternary("mad24.hi.sat", "s32", move |a, b, c| {
        let low = |value: i128| ((value & 0xff_ffff) ^ 0x80_0000) - 0x80_0000;
        (((low(a) * low(b)) >> 16) + c).clamp(least, greatest)
    }));
}

/// Each operation, with the carry flag that it leaves, read by an addition to zero.
fn carries(all: &mut Vec<Operation>) {
    for ty in ["u32", "s32", "u64", "s64"] {
        let unsigned = if bits(ty) == 32 { "u32" } else { "u64" };
        let size = bits(ty);
        let sum = move |value: i128| [value as u64, (value >> size) as u64 & 1];
        let of = move |value: u64| int(unsigned, value);
        let after = format!("addc.{unsigned} %e, 0, 0;");
        let to = [ty, unsigned];
        let text = format!("add.cc.{ty} %d, %a, %b; {after}");
        all.push(Operation::pair(text, &[ty; 2], to, move |v| {
            sum(of(v[0]) + of(v[1]))
        }));
        let text = format!("sub.cc.{ty} %d, %a, %b; subc.{unsigned} %e, 0, 0;");
        all.push(Operation::pair(text, &[ty; 2], to, move |v| {
            let borrow = if of(v[0]) < of(v[1]) { u64::MAX } else { 0 };
            [v[0].wrapping_sub(v[1]), borrow]
        }));
        // After a subtraction without a borrow, an addition reads the carry flag.
        let text = format!("sub.cc.{ty} %d, %a, %b; {after}");
        all.push(
            Operation::pair(text, &[ty; 2], to, move |v| {
                [v[0].wrapping_sub(v[1]), u64::from(of(v[0]) >= of(v[1]))]
            })
            .named(format!("sub.cc.{ty}, addc")),
        );
        // The carry comes from the third source: 1 is added to all ones, or to another value.
        let text = format!("add.cc.{ty} %c, %c, 1; addc.cc.{ty} %d, %a, %b; {after}");
        let carry = move |c: u64| i128::from(of(c) + 1 == 1 << size);
        all.push(
            Operation::pair(text, &[ty; 3], to, move |v| {
                sum(of(v[0]) + of(v[1]) + carry(v[2]))
            })
            .named(format!("addc.cc.{ty}")),
        );
        let text =
            format!("sub.cc.{ty} %c, %c, 1; subc.cc.{ty} %d, %a, %b; subc.{unsigned} %e, 0, 0;");
        all.push(
            Operation::pair(text, &[ty; 3], to, move |v| {
                let borrow = i128::from(of(v[2]) == 0);
                let value = of(v[0]) - of(v[1]) - borrow;
                [value as u64, if value < 0 { u64::MAX } else { 0 }]
            })
            .named(format!("subc.cc.{ty}")),
        );
        for (part, from) in [("lo", 0), ("hi", size)] {
            let half = move |v: &[u64]| {
                let product = product(ty, v[0], v[1], from);
                int(unsigned, product as u64)
            };
            let text = format!("mad.{part}.cc.{ty} %d, %a, %b, %c; {after}");
            all.push(Operation::pair(text, &[ty; 3], to, move |v| {
                sum(half(v) + of(v[2]))
            }));
            let text =
                format!("add.cc.{ty} %f, %f, 1; madc.{part}.cc.{ty} %d, %a, %b, %c; {after}");
            all.push(
                Operation::pair(text, &[ty; 4], to, move |v| {
                    sum(half(v) + of(v[2]) + carry(v[3]))
                })
                .named(format!("madc.{part}.cc.{ty}")),
            );
        }
    }
}

fn dots(all: &mut Vec<Operation>) {
    let part = |value: u64, index: u32, size: u32, ty: Ty| {
        let value = i128::from(value >> (index * size)) & ((1 << size) - 1);
        let negative = ty == "s32" && value >> (size - 1) != 0;
        if negative { value - (1 << size) } else { value }
    };
    for first in ["u32", "s32"] {
        for second in ["u32", "s32"] {
            let to = if first == "s32" || second == "s32" {
                "s32"
            } else {
                "u32"
            };
            let text = format!("dp4a.{first}.{second} %d, %a, %b, %c;");
            all.push(Operation::new(text, &[first, second, to], to, move |v| {
                let products = (0..4).map(|k| part(v[0], k, 8, first) * part(v[1], k, 8, second));
                (products.sum::<i128>() + int(to, v[2])) as u64
            }));
            for (half, offset) in [("lo", 0), ("hi", 2)] {
                let text = format!("dp2a.{half}.{first}.{second} %d, %a, %b, %c;");
                all.push(Operation::new(text, &[first, second, to], to, move |v| {
                    let products = (0..2)
                        .map(|k| part(v[0], k, 16, first) * part(v[1], k + offset, 8, second));
                    (products.sum::<i128>() + int(to, v[2])) as u64
                }));
            }
        }
    }
}

/// Two 16-bit integers packed in a register, and `.relu`.
fn pairs(all: &mut Vec<Operation>) {
    type Combine = fn(i128, i128) -> i128;
    let list: [(&str, Combine); 5] = [
        ("add", |a, b| a + b),
        ("min", |a, b| a.min(b)),
        ("max", |a, b| a.max(b)),
        ("min.relu", |a, b| a.min(b).max(0)),
        ("max.relu", |a, b| a.max(b).max(0)),
    ];
    for (name, f) in &list[3..] {
        all.push(binary(name, "s32", *f).since(90));
    }
    for (packed, ty) in [("u16x2", "u16"), ("s16x2", "s16")] {
        for (name, f) in list {
            if ty == "u16" && name.ends_with("relu") {
                continue;
            }
            let text = format!("{name}.{packed} %d, %a, %b;");
            let combine = move |v: &[u64]| {
                let half = |shift: u32| {
                    let value = f(int(ty, v[0] >> shift), int(ty, v[1] >> shift));
                    (value as u64 & 0xffff) << shift
                };
                half(16) | half(0)
            };
            all.push(Operation::new(text, &["b32"; 2], "b32", combine).since(90));
        }
    }
}
