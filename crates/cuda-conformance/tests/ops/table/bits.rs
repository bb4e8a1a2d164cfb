//! Logic, shifts and bit fields.

use crate::operation::{Operation, Source, Ty, below, bits};
use crate::table::integer::int;

/// A word in which the bits are set for which `bit` is true.
fn gather(size: u32, bit: impl Fn(u32) -> bool) -> u64 {
    (0..size).map(|at| u64::from(bit(at)) << at).sum()
}

type Logic = fn(bool, bool) -> bool;

fn is_set(value: u64, at: u32) -> bool {
    value >> at & 1 != 0
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    logic(&mut all);
    counts(&mut all);
    shifts(&mut all);
    funnels(&mut all);
    fields(&mut all);
    masks(&mut all);
    permutes(&mut all);
    tables(&mut all);
    differences(&mut all);
    all
}

fn logic(all: &mut Vec<Operation>) {
    for ty in ["b16", "b32", "b64"] {
        let size = bits(ty);
        let list: [(&str, Logic); 3] = [
            ("and", |a, b| a && b),
            ("or", |a, b| a || b),
            ("xor", |a, b| a != b),
        ];
        for (name, f) in list {
            let text = format!("{name}.{ty} %d, %a, %b;");
            all.push(Operation::new(text, &[ty; 2], ty, move |v| {
                gather(size, |at| f(is_set(v[0], at), is_set(v[1], at)))
            }));
        }
        let text = format!("not.{ty} %d, %a;");
        all.push(Operation::new(text, &[ty], ty, move |v| {
            gather(size, |at| !is_set(v[0], at))
        }));
        let text = format!("cnot.{ty} %d, %a;");
        all.push(Operation::new(text, &[ty], ty, |v| u64::from(v[0] == 0)));
    }
    let compare = "setp.lt.u32 %p, %a, %b; setp.lt.u32 %q, %b, %c;";
    let list: [(&str, Logic); 3] = [
        ("and", |p, q| p && q),
        ("or", |p, q| p || q),
        ("xor", |p, q| p != q),
    ];
    for (name, f) in list {
        let text = format!("{compare} {name}.pred %p, %p, %q; selp.u32 %d, 1, 0, %p;");
        let reference = move |v: &[u64]| u64::from(f(v[0] < v[1], v[1] < v[2]));
        let one = Operation::new(text, &["u32"; 3], "u32", reference);
        all.push(one.named(format!("{name}.pred")));
    }
    let text = format!("{compare} not.pred %p, %p; selp.u32 %d, 1, 0, %p;");
    let reference = |v: &[u64]| u64::from(v[0] >= v[1]);
    all.push(Operation::new(text, &["u32"; 3], "u32", reference).named("not.pred"));
}

fn counts(all: &mut Vec<Operation>) {
    for ty in ["b32", "b64"] {
        let size = bits(ty);
        let text = format!("popc.{ty} %d, %a;");
        all.push(Operation::new(text, &[ty], "u32", move |v| {
            (0..size).map(|at| u64::from(is_set(v[0], at))).sum()
        }));
        let text = format!("clz.{ty} %d, %a;");
        all.push(Operation::new(text, &[ty], "u32", move |v| {
            let zeros = (0..size).rev().take_while(|&at| !is_set(v[0], at));
            zeros.count() as u64
        }));
        let text = format!("brev.{ty} %d, %a;");
        all.push(Operation::new(text, &[ty], ty, move |v| {
            gather(size, |at| is_set(v[0], size - 1 - at))
        }));
    }
    for ty in ["u32", "s32", "u64", "s64"] {
        for shift in [false, true] {
            let size = bits(ty);
            let suffix = if shift { ".shiftamt" } else { "" };
            let text = format!("bfind{suffix}.{ty} %d, %a;");
            all.push(Operation::new(text, &[ty], "u32", move |v| {
                let sign = ty.starts_with('s') && is_set(v[0], size - 1);
                let found = (0..size).rev().find(|&at| is_set(v[0], at) != sign);
                match found {
                    None => 0xffff_ffff,
                    Some(at) if shift => (size - 1 - at).into(),
                    Some(at) => at.into(),
                }
            }));
        }
    }
}

fn shifts(all: &mut Vec<Operation>) {
    let amount = below("u32", 80);
    for ty in ["b16", "b32", "b64"] {
        let size = bits(ty);
        for amount in [amount, "u32".into()] {
            let text = format!("shl.{ty} %d, %a, %b;");
            all.push(Operation::new(text, &[ty.into(), amount], ty, move |v| {
                gather(size, |at| {
                    u64::from(at) >= v[1] && is_set(v[0], at - v[1] as u32)
                })
            }));
        }
    }
    for ty in [
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64",
    ] {
        let size = bits(ty);
        for amount in [amount, "u32".into()] {
            let text = format!("shr.{ty} %d, %a, %b;");
            all.push(Operation::new(text, &[ty.into(), amount], ty, move |v| {
                let sign = ty.starts_with('s') && is_set(v[0], size - 1);
                gather(size, |at| match u64::from(at) + v[1] {
                    from if from < size.into() => is_set(v[0], from as u32),
                    _ => sign,
                })
            }));
        }
    }
}

fn funnels(all: &mut Vec<Operation>) {
    for (mode, wraps) in [("wrap", true), ("clamp", false)] {
        for amount in [below("u32", 70), "u32".into()] {
            let sources = ["b32".into(), "b32".into(), amount];
            let by = move |c: u64| if wraps { c % 32 } else { c.min(32) } as u32;
            let text = format!("shf.l.{mode}.b32 %d, %a, %b, %c;");
            all.push(Operation::new(text, &sources, "b32", move |v| {
                gather(32, |at| match (at + 32).wrapping_sub(by(v[2])) {
                    from if from < 32 => is_set(v[0], from),
                    from => is_set(v[1], from - 32),
                })
            }));
            let text = format!("shf.r.{mode}.b32 %d, %a, %b, %c;");
            all.push(Operation::new(text, &sources, "b32", move |v| {
                gather(32, |at| match at + by(v[2]) {
                    from if from < 32 => is_set(v[0], from),
                    from => is_set(v[1], from - 32),
                })
            }));
        }
    }
}

/// A source for the position or the length of a bit field. The ISA restricts it to 0..255; of
/// larger values, an H200 (driver 580) uses the lower 8 bits in 32-bit forms, but not in 64-bit
/// ones.
fn places(size: u32) -> Source {
    if size == 64 {
        below("u32", 256)
    } else {
        "u32".into()
    }
}

fn fields(all: &mut Vec<Operation>) {
    for ty in ["u32", "s32", "u64", "s64"] {
        let size = bits(ty);
        for place in [below("u32", 70), places(size)] {
            let text = format!("bfe.{ty} %d, %a, %b, %c;");
            let sources = [ty.into(), place, place];
            all.push(Operation::new(text, &sources, ty, move |v| {
                let (from, len) = (v[1] as u32 & 255, v[2] as u32 & 255);
                let last = (from + len).saturating_sub(1).min(size - 1);
                let sign = ty.starts_with('s') && len > 0 && is_set(v[0], last);
                gather(size, |at| {
                    if at < len && from + at < size {
                        is_set(v[0], from + at)
                    } else {
                        sign
                    }
                })
            }));
        }
    }
    for ty in ["b32", "b64"] {
        let size = bits(ty);
        for place in [below("u32", 70), places(size)] {
            let text = format!("bfi.{ty} %d, %a, %b, %c, %f;");
            let sources = [ty.into(), ty.into(), place, place];
            all.push(Operation::new(text, &sources, ty, move |v| {
                let (from, len) = (v[2] as u32 & 255, v[3] as u32 & 255);
                gather(size, |at| {
                    if (from..from + len).contains(&at) {
                        is_set(v[0], at - from)
                    } else {
                        is_set(v[1], at)
                    }
                })
            }));
        }
    }
}

fn masks(all: &mut Vec<Operation>) {
    for (mode, wraps) in [("wrap", true), ("clamp", false)] {
        let by = move |c: u64| if wraps { c % 32 } else { c.min(32) } as u32;
        let sources = [below("u32", 70), below("u32", 70)];
        let text = format!("bmsk.{mode}.b32 %d, %a, %b;");
        all.push(Operation::new(text, &sources, "b32", move |v| {
            let (from, len) = (by(v[0]), by(v[1]));
            gather(32, |at| (from..from + len).contains(&at))
        }));
        for ty in ["u32", "s32"] {
            let text = format!("szext.{mode}.{ty} %d, %a, %b;");
            all.push(Operation::new(
                text,
                &[ty.into(), below("u32", 70)],
                ty,
                move |v| {
                    let len = by(v[1]);
                    let sign = ty == "s32" && len > 0 && is_set(v[0], len - 1);
                    gather(32, |at| if at < len { is_set(v[0], at) } else { sign })
                },
            ));
        }
    }
    let sources = ["b32".into(), below("u32", 32), below("u32", 35)];
    let text = "sub.s32 %c, %c, 17; fns.b32 %d, %a, %b, %c;";
    let find = |v: &[u64]| {
        let (base, offset) = (v[1] as i64, v[2] as i64 - 17);
        let step = if offset < 0 { -1 } else { 1 };
        let mut left = offset.abs();
        let mut at = base;
        while (0..32).contains(&at) {
            if is_set(v[0], at as u32) {
                left -= 1;
                if left <= 0 {
                    return at as u64;
                }
            }
            if offset == 0 {
                break;
            }
            at += step;
        }
        0xffff_ffff
    };
    all.push(Operation::new(text, &sources, "b32", find).named("fns.b32"));
}

/// The bytes that each mode of `prmt` selects, as the tables of the ISA list them.
fn permutes(all: &mut Vec<Operation>) {
    let byte = |v: &[u64], index: u64| {
        let words = v[1] << 32 | v[0];
        words >> (8 * index) & 0xff
    };
    let plain = move |v: &[u64]| {
        (0..4)
            .map(|at| {
                let select = v[2] >> (4 * at) & 15;
                let chosen = byte(v, select & 7);
                let chosen = match (select & 8, chosen & 0x80) {
                    (0, _) => chosen,
                    (_, 0) => 0,
                    _ => 0xff,
                };
                chosen << (8 * at)
            })
            .sum()
    };
    all.push(Operation::new(
        "prmt.b32 %d, %a, %b, %c;",
        &["b32"; 3],
        "b32",
        plain,
    ));
    let modes: [(&str, [[u64; 4]; 4]); 6] = [
        (
            "f4e",
            [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        ),
        (
            "b4e",
            [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        ),
        ("rc8", [[0; 4], [1; 4], [2; 4], [3; 4]]),
        (
            "ecl",
            [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        ),
        (
            "ecr",
            [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        ),
        (
            "rc16",
            [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
        ),
    ];
    for (mode, rows) in modes {
        let text = format!("prmt.b32.{mode} %d, %a, %b, %c;");
        all.push(Operation::new(text, &["b32"; 3], "b32", move |v| {
            let row = rows[(v[2] & 3) as usize];
            (0..4).map(|at| byte(v, row[at]) << (8 * at)).sum()
        }));
    }
}

fn tables(all: &mut Vec<Operation>) {
    for table in [
        0x00_u64, 0x01, 0x17, 0x3c, 0x78, 0x80, 0x96, 0xca, 0xe8, 0xf0, 0xfe, 0xff,
    ] {
        let text = format!("lop3.b32 %d, %a, %b, %c, {table:#x};");
        all.push(Operation::new(text, &["b32"; 3], "b32", move |v| {
            gather(32, |at| {
                let index = v
                    .iter()
                    .fold(0, |index, &value| index << 1 | value >> at & 1);
                table >> index & 1 != 0
            })
        }));
    }
    for (name, or) in [("or", true), ("and", false)] {
        let text = format!(
            "setp.lt.u32 %q, %a, %b; lop3.{name}.b32 %d|%p, %a, %b, %c, 0x6a, %q; selp.u32 %e, 1, 0, %p;"
        );
        let reference = move |v: &[u64]| {
            let value = gather(32, |at| {
                let index = v
                    .iter()
                    .fold(0, |index, &value| index << 1 | value >> at & 1);
                0x6a >> index & 1 != 0
            });
            let (some, less) = (value != 0, v[0] < v[1]);
            [
                value,
                u64::from(if or { some || less } else { some && less }),
            ]
        };
        let one = Operation::pair(text, &["b32"; 3], ["b32", "u32"], reference);
        all.push(one.named(format!("lop3.{name}.b32")).version(8, 2));
    }
}

/// Absolute differences of the fields of a word, and their sum.
fn differences(all: &mut Vec<Operation>) {
    let signed: [Ty; 2] = ["u32", "s32"];
    for (opcode, width) in [("vabsdiff4", 8), ("vabsdiff2", 16)] {
        for (ty, sums) in signed.into_iter().flat_map(|ty| [(ty, false), (ty, true)]) {
            let suffix = if sums { ".add" } else { "" };
            let text = format!("{opcode}.u32.{ty}.{ty}{suffix} %d, %a, %b, %c;");
            let field = move |value: u64, k: u32| {
                let value = int("u32", value >> (width * k)) & ((1 << width) - 1);
                if ty == "s32" && value >> (width - 1) != 0 {
                    value - (1 << width)
                } else {
                    value
                }
            };
            let apart =
                move |v: &[u64], k: u32| (field(v[0], k) - field(v[1], k)).unsigned_abs() as u64;
            let reference = move |v: &[u64]| match sums {
                true => (0..32 / width).map(|k| apart(v, k)).sum::<u64>() + v[2],
                false => (0..32 / width).map(|k| apart(v, k) << (width * k)).sum(),
            };
            all.push(Operation::new(text, &["b32"; 3], "b32", reference));
        }
    }
}
