//! Single instructions on edge cases and random bits, in both styles of register types.

use super::device::{Device, Numbers};

/// The result of an instruction for three sources, in bits.
type Reference = fn(u64, u64, u64) -> u64;

const EDGES: [u64; 14] = [
    0,
    1,
    2,
    31,
    32,
    63,
    0x7fff,
    0x8000,
    0xffff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

fn inputs(float: u32) -> Vec<[u64; 3]> {
    let mut numbers = Numbers(float.into());
    let mut list = Vec::new();
    for a in EDGES {
        for b in EDGES {
            list.push([a, b, numbers.next()]);
        }
    }
    for _ in 0..828 {
        list.push([numbers.next(), numbers.next(), numbers.next()]);
    }
    if float == 0 {
        return list;
    }
    // Numbers of similar magnitude, special values, subnormals.
    let special32 = [
        0u32,
        0x8000_0000,
        0x3f80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        1,
        0x7f7f_ffff,
        0x0080_0000,
    ];
    for one in &mut list {
        for value in one {
            let bits = numbers.next();
            *value = match (float, bits % 4) {
                (32, 0) => special32[(bits >> 8) as usize % special32.len()].into(),
                (32, 1) => ((bits >> 8) as u32 & 0x87ff_ffff | 0x3c00_0000).into(),
                (64, 0) => (f32::from_bits(special32[(bits >> 8) as usize % special32.len()])
                    as f64)
                    .to_bits(),
                (64, 1) => *value & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000,
                _ => *value,
            };
        }
    }
    list
}

/// Runs `text`, in which `%a %b %c %d` are registers of `types`, and returns `%d` for each of
/// `values`, which hold `%a`, `%b` and `%c`.
fn run(text: &str, types: [&str; 4], values: &[[u64; 3]]) -> Vec<u64> {
    let [ta, tb, tc, td] = types;
    let load = |name: &str, ty: &str, offset: u32| {
        format!("ld.global.{} %{name}, [%in+{offset}];", raw(ty))
    };
    let kernel = format!(
        ".visible .entry op(.param .u64 in, .param .u64 out) {{
            .reg .{ta} %a; .reg .{tb} %b; .reg .{tc} %c; .reg .{td} %d;
            .reg .pred %p; .reg .pred %q; .reg .b32 %i; .reg .b64 %in, %out, %at;
            ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
            mov.u32 %i, %ctaid.x; shl.b32 %i, %i, 7;
            {{ .reg .u32 %t; mov.u32 %t, %tid.x; add.u32 %i, %i, %t; }}
            mul.wide.u32 %at, %i, 24; add.u64 %in, %in, %at;
            mul.wide.u32 %at, %i, 8; add.u64 %out, %out, %at;
            {} {} {}
            {text}
            st.global.{} [%out], %d;
            ret; }}",
        load("a", ta, 0),
        load("b", tb, 8),
        load("c", tc, 16),
        raw(td),
    );
    let device = Device::new(&kernel);
    let flat: Vec<u64> = values.iter().flatten().copied().collect();
    let (input, output) = (
        device.upload64(&flat),
        device.upload64(&vec![0; values.len()]),
    );
    assert_eq!(values.len() % 128, 0);
    device
        .run(values.len() as u32 / 128, 128, &[input, output])
        .unwrap();
    device.download64(output, values.len())
}

fn raw(ty: &str) -> &'static str {
    match &ty[1..] {
        "16" => "b16",
        "64" => "b64",
        _ => "b32",
    }
}

fn check(text: &str, types: [&str; 4], float: u32, reference: Reference) {
    let dialects = [types, types.map(raw)];
    let values = inputs(float);
    for types in dialects {
        let results = run(text, types, &values);
        for (value, result) in values.iter().zip(results) {
            let cut = |ty: &str, bits: u64| match raw(ty) {
                "b16" => bits & 0xffff,
                "b32" => bits & 0xffff_ffff,
                _ => bits,
            };
            let [a, b, c] = *value;
            let expected = reference(cut(types[0], a), cut(types[1], b), cut(types[2], c));
            let expected = cut(types[3], expected);
            assert_eq!(
                result, expected,
                "{text} of {value:x?}: {result:#x}, not {expected:#x}"
            );
        }
    }
}

const S32: [&str; 4] = ["s32"; 4];
const U16: [&str; 4] = ["u16"; 4];
const U64: [&str; 4] = ["u64"; 4];

fn wide(f: impl Fn(i128, i128, i128) -> i128, a: u64, b: u64, c: u64) -> u64 {
    f(a as i64 as i128, b as i64 as i128, c as i64 as i128) as u64
}

#[test]
fn integers() {
    check("add.s32 %d, %a, %b;", S32, 0, |a, b, _| a.wrapping_add(b));
    check("sub.u64 %d, %a, %b;", U64, 0, |a, b, _| a.wrapping_sub(b));
    check("add.s16 %d, %a, %b;", U16, 0, |a, b, _| a + b);
    check("mul.lo.s32 %d, %a, %b;", S32, 0, |a, b, _| {
        a.wrapping_mul(b)
    });
    check("mul.hi.s32 %d, %a, %b;", S32, 0, |a, b, _| {
        ((a as i32 as i64 * b as i32 as i64) >> 32) as u64
    });
    check("mul.hi.u64 %d, %a, %b;", U64, 0, |a, b, _| {
        ((a as u128 * b as u128) >> 64) as u64
    });
    check("mul.hi.s64 %d, %a, %b;", U64, 0, |a, b, _| {
        wide(|a, b, _| (a * b) >> 64, a, b, 0)
    });
    check("mul.hi.u16 %d, %a, %b;", U16, 0, |a, b, _| (a * b) >> 16);
    check(
        "mul.wide.s32 %d, %a, %b;",
        ["s32", "s32", "s32", "s64"],
        0,
        |a, b, _| (a as i32 as i64 * b as i32 as i64) as u64,
    );
    check(
        "mad.wide.u16 %d, %a, %b, %c;",
        ["u16", "u16", "u32", "u32"],
        0,
        |a, b, c| a * b + c,
    );
    check("mad.lo.s64 %d, %a, %b, %c;", U64, 0, |a, b, c| {
        wide(|a, b, c| a * b + c, a, b, c)
    });
    check("mad.hi.u32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        ((a * b) >> 32) + c
    });
    check("add.sat.s32 %d, %a, %b;", S32, 0, |a, b, _| {
        (a as i32 as i64 + b as i32 as i64).clamp(i32::MIN.into(), i32::MAX.into()) as u64
    });
    check("mul24.lo.s32 %d, %a, %b;", S32, 0, |a, b, _| {
        let low = |v: u64| (v as i64) << 40 >> 40;
        low(a).wrapping_mul(low(b)) as u64
    });
    check("sad.s32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        (a as i32 as i64 - b as i32 as i64).unsigned_abs() + c
    });
    check("min.s64 %d, %a, %b;", U64, 0, |a, b, _| {
        wide(|a, b, _| if a < b { a } else { b }, a, b, 0)
    });
    check(
        "max.u16 %d, %a, %b;",
        U16,
        0,
        |a, b, _| if a > b { a } else { b },
    );
    check("abs.s32 %d, %a;", S32, 0, |a, _, _| {
        (a as i32 as i64).unsigned_abs()
    });
    check("neg.s64 %d, %a;", U64, 0, |a, _, _| (!a).wrapping_add(1));
    check(
        "or.b32 %b, %b, 1; div.s32 %d, %a, %b;",
        S32,
        0,
        |a, b, _| (a as i32 as i64 / (b as i32 | 1) as i64) as u64,
    );
    check(
        "or.b64 %b, %b, 1; rem.u64 %d, %a, %b;",
        U64,
        0,
        |a, b, _| a - a / (b | 1) * (b | 1),
    );
    check("dp4a.s32.u32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        let bytes = (a as u32)
            .to_le_bytes()
            .into_iter()
            .zip((b as u32).to_le_bytes());
        bytes.fold(c as i64, |sum, (a, b)| {
            sum + i64::from(a as i8) * i64::from(b)
        }) as u64
    });
    let carry = "add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;";
    check(carry, S32, 0, |a, b, c| c + ((a + b) >> 32));
    let borrow = "sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;";
    check(borrow, S32, 0, |a, b, c| c.wrapping_sub(u64::from(a < b)));
    let product = "mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;";
    check(product, S32, 0, |a, b, c| (a * b + c) >> 32);
}

#[test]
fn bits() {
    check("and.b64 %d, %a, %b;", U64, 0, |a, b, _| !(!a | !b));
    check("xor.b16 %d, %a, %b;", U16, 0, |a, b, _| (a | b) - (a & b));
    check("not.b16 %d, %a;", U16, 0, |a, _, _| 0xffff - a);
    check("cnot.b32 %d, %a;", S32, 0, |a, _, _| u64::from(a == 0));
    check("shl.b32 %d, %a, %b;", S32, 0, |a, b, _| {
        if b > 31 { 0 } else { a << b }
    });
    check("shr.s32 %d, %a, %b;", S32, 0, |a, b, _| {
        (a as i32 as i64).div_euclid(1 << b.min(31)) as u64
    });
    check(
        "shr.u64 %d, %a, %b;",
        ["u64", "u32", "u32", "u64"],
        0,
        |a, b, _| {
            if b > 63 { 0 } else { a / (1 << b) }
        },
    );
    check(
        "shr.s16 %d, %a, %b;",
        ["s16", "u32", "u32", "s16"],
        0,
        |a, b, _| (a as i16 as i64).div_euclid(1 << b.min(31)) as u64,
    );
    check(
        "popc.b64 %d, %a;",
        ["u64", "u32", "u32", "u32"],
        0,
        |a, _, _| (0..64).map(|bit| a >> bit & 1).sum(),
    );
    check("clz.b32 %d, %a;", S32, 0, |a, _, _| {
        (0..32).take_while(|bit| a << bit & 1 << 31 == 0).count() as u64
    });
    check("brev.b32 %d, %a;", S32, 0, |a, _, _| {
        (0..32).map(|bit| (a >> bit & 1) << (31 - bit)).sum()
    });
    check("bfind.s32 %d, %a;", S32, 0, |a, _, _| {
        let top = a >> 31 & 1;
        (0..32)
            .rev()
            .find(|bit| a >> bit & 1 != top)
            .unwrap_or(0xffff_ffff)
    });
    check("bfe.u32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        (0..c & 0xff)
            .map(|bit| (bit, (b & 0xff) + bit))
            .filter(|&(bit, at)| bit < 32 && at < 32)
            .map(|(bit, at)| (a >> at & 1) << bit)
            .sum()
    });
    check("bfe.s32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        let (pos, len) = (b & 0xff, c & 0xff);
        let sign = if len == 0 {
            0
        } else {
            a >> (pos + len - 1).min(31) & 1
        };
        let bit = |bit: u64| {
            if bit < len && pos + bit <= 31 {
                a >> (pos + bit) & 1
            } else {
                sign
            }
        };
        (0..32).map(|at| bit(at) << at).sum()
    });
    check("bfi.b32 %d, %a, %b, %c, 9;", S32, 0, |a, b, c| {
        let pos = c & 0xff;
        (0..32)
            .map(|at| {
                if at >= pos && at < pos + 9 {
                    (a >> (at - pos) & 1) << at
                } else {
                    b & 1 << at
                }
            })
            .sum()
    });
    check("prmt.b32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        let all = b << 32 | a;
        (0..4)
            .map(|at| {
                let select = c >> (at * 4) & 15;
                let byte = all >> ((select & 7) * 8) & 0xff;
                (if select > 7 { (byte >> 7) * 0xff } else { byte }) << (at * 8)
            })
            .sum()
    });
    check("shf.l.wrap.b32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        (((b << 32 | a) as u128) << (c & 31) >> 32) as u64
    });
    check("shf.r.clamp.b32 %d, %a, %b, %c;", S32, 0, |a, b, c| {
        (b << 32 | a) >> c.min(32)
    });
    check("lop3.b32 %d, %a, %b, %c, 0xCA;", S32, 0, |a, b, c| {
        a & b | !a & c
    });
    check(
        "mov.b64 %d, {%a, %b};",
        ["u32", "u32", "u32", "u64"],
        0,
        |a, b, _| b * (1 << 32) + a,
    );
    check(
        "mov.b64 {%d, %b}, %a;",
        ["u64", "u32", "u32", "u32"],
        0,
        |a, _, _| a,
    );
}

#[test]
fn comparing_and_selecting() {
    let select = |op: &str| format!("setp.{op} %p, %a, %b; selp.b32 %d, 1, 0, %p;");
    check(&select("lt.s32"), S32, 0, |a, b, _| {
        u64::from((a as i32) < b as i32)
    });
    check(&select("hi.u32"), S32, 0, |a, b, _| u64::from(a > b));
    let types = ["u64", "u64", "u32", "u32"];
    check(&select("ge.s64"), types, 0, |a, b, _| {
        u64::from(a as i64 >= b as i64)
    });
    check(
        &select("ne.b16"),
        ["u16", "u16", "u32", "u32"],
        0,
        |a, b, _| u64::from(a != b),
    );
    let single = ["f32", "f32", "u32", "u32"];
    check(&select("ne.f32"), single, 32, |a, b, _| {
        let order = f32::from_bits(a as u32).partial_cmp(&f32::from_bits(b as u32));
        u64::from(order.is_some_and(|order| order.is_ne()))
    });
    check(&select("geu.f32"), single, 32, |a, b, _| {
        let order = f32::from_bits(a as u32).partial_cmp(&f32::from_bits(b as u32));
        u64::from(order.is_none_or(|order| order.is_ge()))
    });
    let double = ["f64", "f64", "u32", "u32"];
    check(&select("equ.f64"), double, 64, |a, b, _| {
        let order = f64::from_bits(a).partial_cmp(&f64::from_bits(b));
        u64::from(order.is_none_or(|order| order.is_eq()))
    });
    let both = "setp.lt.u32 %p, %c, 77777777; setp.gt.and.s32 %p|%q, %a, %b, %p;
        selp.b32 %d, 1, 0, %p; @%q add.s32 %d, %d, 2;";
    check(both, S32, 0, |a, b, c| {
        let (greater, also) = (a as i32 > b as i32, c < 77_777_777);
        u64::from(greater && also) + 2 * u64::from(!greater && also)
    });
}

#[test]
fn halves_in_every_mode() {
    // The neighbours of a half are found by enumerating all of them.
    let mut all: Vec<f64> = (0..=u16::MAX)
        .map(|bits| half::f16::from_bits(bits).to_f64())
        .filter(|value| !value.is_nan())
        .collect();
    all.sort_by(f64::total_cmp);
    let values: Vec<f32> = inputs(32)
        .iter()
        .map(|value| f32::from_bits(value[0] as u32))
        .collect();
    let inputs: Vec<[u64; 3]> = values.iter().map(|v| [v.to_bits().into(), 0, 0]).collect();
    let types = ["f32", "b32", "b32", "b16"];
    let down = run("cvt.rm.f16.f32 %d, %a;", types, &inputs);
    let up = run("cvt.rp.f16.f32 %d, %a;", types, &inputs);
    let zero = run("cvt.rz.f16.f32 %d, %a;", types, &inputs);
    let floor = "{ .reg .f16 %h; cvt.rn.f16.f32 %h, %a; cvt.rmi.f16.f16 %d, %h; }";
    let floor = run(floor, types, &inputs);
    for (k, value) in values.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
        let wide = f64::from(*value);
        let below = all[all.partition_point(|half| *half <= wide) - 1];
        let above = all[all.partition_point(|half| *half < wide)];
        let found = |bits: &[u64]| half::f16::from_bits(bits[k] as u16);
        assert_eq!(found(&down).to_f64(), below, "{value:e}");
        assert_eq!(found(&up).to_f64(), above, "{value:e}");
        let inward = if wide < 0.0 { above } else { below };
        assert_eq!(found(&zero).to_f64(), inward, "{value:e}");
        let near = half::f16::from_f32(*value).to_f32();
        assert_eq!(found(&floor).to_f32(), near.floor(), "{value:e}");
    }
}

#[test]
fn rough_and_full_roots_of_doubles() {
    let values = inputs(64);
    let types = ["f64", "f64", "f64", "f64"];
    let full = run("rsqrt.approx.f64 %d, %a;", types, &values);
    let rough = run("rsqrt.approx.ftz.f64 %d, %a;", types, &values);
    for ((value, full), rough) in values.iter().zip(full).zip(rough) {
        let a = f64::from_bits(value[0]);
        if !a.is_normal() || a < 0.0 {
            continue;
        }
        let (full, rough) = (f64::from_bits(full), f64::from_bits(rough));
        assert!((full * full * a - 1.0).abs() < 4.0 * f64::EPSILON, "{a:e}");
        // The tolerance is 2^-20 of the value, and so twice that of the square.
        assert!((rough * rough * a - 1.0).abs() < 2e-6, "{a:e}");
        assert_eq!(rough.to_bits() as u32, 0, "{a:e}");
    }
}

#[test]
fn differences_of_bytes() {
    check(
        "vabsdiff4.u32.u32.u32 %d, %a, %b, %c;",
        S32,
        0,
        |a, b, _| {
            let (a, b) = ((a as u32).to_le_bytes(), (b as u32).to_le_bytes());
            let lanes = std::array::from_fn(|k| a[k].abs_diff(b[k]));
            u32::from_le_bytes(lanes).into()
        },
    );
    check(
        "vabsdiff4.u32.s32.s32.add %d, %a, %b, %c;",
        S32,
        0,
        |a, b, c| {
            let lane = |word: u64, k: u32| i64::from((word >> (8 * k)) as i8);
            let sum: u64 = (0..4).map(|k| lane(a, k).abs_diff(lane(b, k))).sum();
            sum + c
        },
    );
}
