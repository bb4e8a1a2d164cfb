//! Matrix products, compared with sums that the host computes from the elements at the positions
//! that the ISA specifies.

use half::{bf16, f16};

use super::device::{Device, Numbers};

/// The types of `d`, `a`, `b`, `c`, the shape, and the options.
type Case = ([&'static str; 4], [usize; 3], &'static str);

const FLOATS: [Case; 12] = [
    (["f32", "f16", "f16", "f32"], [16, 8, 8], ""),
    (["f32", "f16", "f16", "f32"], [16, 8, 16], ""),
    (["f16", "f16", "f16", "f16"], [16, 8, 8], ""),
    (["f16", "f16", "f16", "f16"], [16, 8, 16], ""),
    (["f32", "bf16", "bf16", "f32"], [16, 8, 8], ""),
    (["f32", "bf16", "bf16", "f32"], [16, 8, 16], ""),
    (["f32", "tf32", "tf32", "f32"], [16, 8, 4], ""),
    (["f32", "tf32", "tf32", "f32"], [16, 8, 8], ""),
    (["f64", "f64", "f64", "f64"], [8, 8, 4], ""),
    (["f64", "f64", "f64", "f64"], [16, 8, 4], ""),
    (["f64", "f64", "f64", "f64"], [16, 8, 8], ""),
    (["f64", "f64", "f64", "f64"], [16, 8, 16], ""),
];

const INTEGERS: [Case; 12] = [
    (["s32", "s8", "s8", "s32"], [8, 8, 16], ""),
    (["s32", "u8", "s8", "s32"], [16, 8, 16], ""),
    (["s32", "s8", "u8", "s32"], [16, 8, 32], ""),
    (["s32", "u8", "u8", "s32"], [16, 8, 32], ".satfinite"),
    (["s32", "s4", "u4", "s32"], [8, 8, 32], ""),
    (["s32", "u4", "s4", "s32"], [16, 8, 32], ""),
    (["s32", "s4", "s4", "s32"], [16, 8, 64], ".satfinite"),
    (["s32", "u4", "u4", "s32"], [16, 8, 64], ""),
    (["s32", "b1", "b1", "s32"], [8, 8, 128], ".xor.popc"),
    (["s32", "b1", "b1", "s32"], [16, 8, 128], ".and.popc"),
    (["s32", "b1", "b1", "s32"], [16, 8, 256], ".xor.popc"),
    (["s32", "b1", "b1", "s32"], [16, 8, 256], ".and.popc"),
];

pub(super) fn bits_of(ty: &str) -> usize {
    match ty {
        "b1" => 1,
        "s4" | "u4" => 4,
        "s8" | "u8" | "e4m3" | "e5m2" => 8,
        "f16" | "bf16" => 16,
        "f64" => 64,
        _ => 32,
    }
}

/// The row and column of element `i` of `a` in a lane, by the tables of the ISA.
fn a_place([m, _, k]: [usize; 3], ty: &str, i: usize, lane: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let low = |is_low| if is_low { group } else { group + 8 };
    match (m, k, bits_of(ty)) {
        (8, 4, 64) => (group, thread),
        (16, 4, 64) | (16, 4, 32) => (low(i == 0), thread),
        (16, 8, 64) | (16, 8, 32) => (
            low(i == 0 || i == 2),
            if i < 2 { thread } else { thread + 4 },
        ),
        (16, 16, 64) if i.is_multiple_of(2) => (group, i * 2 + thread),
        (16, 16, 64) => (group + 8, i * 2 - 2 + thread),
        (16, 8, 16) => (low(i < 2), thread * 2 + (i & 1)),
        (16, 16, 16) => (
            low(i < 2 || (4..6).contains(&i)),
            thread * 2 + (i & 1) + if i < 4 { 0 } else { 8 },
        ),
        (8, 16, 8) => (group, thread * 4 + i),
        (16, 16, 8) => (low(i < 4), thread * 4 + (i & 3)),
        (16, 32, 8) => (
            low(i < 4 || (8..12).contains(&i)),
            thread * 4 + (i & 3) + if i < 8 { 0 } else { 16 },
        ),
        (8, 32, 4) => (group, thread * 8 + i),
        (16, 32, 4) => (low(i < 8), thread * 8 + (i & 7)),
        (16, 64, 4) => (
            low(i < 8 || (16..24).contains(&i)),
            thread * 8 + (i & 7) + if i < 16 { 0 } else { 32 },
        ),
        (8, 128, 1) => (group, thread * 32 + i),
        (16, 128, 1) => (low(i < 32), thread * 32 + (i & 31)),
        (16, 256, 1) => (
            low(i < 32 || (64..96).contains(&i)),
            thread * 32 + (i & 31) + if i < 64 { 0 } else { 128 },
        ),
        other => panic!("no table for {other:?}"),
    }
}

/// The row and column of element `i` of `b` in a lane.
fn b_place([_, _, k]: [usize; 3], ty: &str, i: usize, lane: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let row = match (k, bits_of(ty)) {
        (4, _) => thread,
        (8 | 16, 64) | (8, 32) => thread + i * 4,
        (8, 16) => thread * 2 + (i & 1),
        (16, 16) => thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 },
        (16, 8) => thread * 4 + i,
        (32, 8) => thread * 4 + (i & 3) + if i < 4 { 0 } else { 16 },
        (32, 4) => thread * 8 + i,
        (64, 4) => thread * 8 + (i & 7) + if i < 8 { 0 } else { 32 },
        (128, 1) => thread * 32 + i,
        (256, 1) => thread * 32 + (i & 31) + if i < 32 { 0 } else { 128 },
        other => panic!("no table for {other:?}"),
    };
    (row, group)
}

/// The row and column of element `i` of `c` or `d` in a lane.
fn c_place(i: usize, lane: usize) -> (usize, usize) {
    let row = if i < 2 { lane >> 2 } else { (lane >> 2) + 8 };
    (row, lane % 4 * 2 + (i & 1))
}

/// The value of the low bits.
pub(super) fn value_of(ty: &str, bits: u64) -> f64 {
    match ty {
        "f16" => f16::from_bits(bits as u16).to_f64(),
        "bf16" => bf16::from_bits(bits as u16).to_f64(),
        "tf32" => f32::from_bits(bits as u32 & !0x1fff).into(),
        "f32" => f32::from_bits(bits as u32).into(),
        "f64" => f64::from_bits(bits),
        "s32" => f64::from(bits as i32),
        "s8" => f64::from(bits as i8),
        "u8" => f64::from(bits as u8),
        "s4" => f64::from((bits as i8) << 4 >> 4),
        "u4" => (bits & 15) as f64,
        "b1" => (bits & 1) as f64,
        other => panic!("{other}"),
    }
}

/// Random bits that represent a number of moderate magnitude.
pub(super) fn random_bits(ty: &str, numbers: &mut Numbers) -> u64 {
    let bits = numbers.next();
    let unit = (bits >> 11) as f64 / (1u64 << 53) as f64 * 4.0 - 2.0;
    match ty {
        "f16" => f16::from_f64(unit).to_bits().into(),
        "bf16" => bf16::from_f64(unit).to_bits().into(),
        "f32" | "tf32" => (unit as f32).to_bits().into(),
        "f64" => unit.to_bits(),
        // Values near the ends of the range occur now and then, where sums wrap around or saturate.
        "s32" if bits.is_multiple_of(3) => u64::from(i32::MAX as u32 - (bits >> 40) as u32 % 64),
        "s32" if bits % 3 == 1 => u64::from(i32::MIN as u32 + (bits >> 40) as u32 % 64),
        "s32" => bits >> 50,
        _ => bits & ((1 << bits_of(ty)) - 1),
    }
}

/// Runs `text`, which computes registers `d` from `a`, `b` and `c`; `input` holds each lane's
/// values of these.
fn run(text: &str, counts: [usize; 4], is_wide: bool, input: &[u64], f32_names: bool) -> Vec<u64> {
    let [d, a, b, c] = counts;
    let (bits, bytes) = if is_wide { ("b64", 8) } else { ("b32", 4) };
    let float = match (is_wide, f32_names) {
        (true, true) => "f64",
        (false, true) => "f32",
        (true, false) => "b64",
        (false, false) => "b32",
    };
    let list = |name: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let mut loads = String::new();
    for (index, (name, i)) in [("a", a), ("b", b), ("c", c)]
        .into_iter()
        .flat_map(|(name, count)| (0..count).map(move |i| (name, i)))
        .enumerate()
    {
        loads += &format!("ld.global.{bits} %{name}{i}, [%in+{}];\n", index * bytes);
    }
    let stores: String = (0..d)
        .map(|i| format!("st.global.{bits} [%out+{}], %d{i};\n", i * bytes))
        .collect();
    let total = a + b + c;
    let kernel = format!(
        ".visible .entry op(.param .u64 in, .param .u64 out) {{
            .reg .{bits} %a<8>; .reg .{bits} %b<8>; .reg .{float} %c<8>; .reg .{float} %d<8>;
            .reg .b32 %t; .reg .b64 %in, %out, %at;
            ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
            mul.wide.u32 %at, %t, {}; add.u64 %in, %in, %at;
            mul.wide.u32 %at, %t, {}; add.u64 %out, %out, %at;
            {loads}
            {text} {}, {}, {}, {};
            {stores}
            ret; }}",
        total * bytes,
        d * bytes,
        list("d", d),
        list("a", a),
        list("b", b),
        list("c", c),
    );
    let device = Device::new(&kernel);
    if is_wide {
        let (input, output) = (device.upload64(input), device.upload64(&vec![0; 32 * d]));
        device.run(1, 32, &[input, output]).unwrap();
        return device.download64(output, 32 * d);
    }
    let input: Vec<u32> = input.iter().map(|&value| value as u32).collect();
    let (input, output) = (device.upload32(&input), device.upload32(&vec![0; 32 * d]));
    device.run(1, 32, &[input, output]).unwrap();
    let words = device.download32(output, 32 * d);
    words.into_iter().map(u64::from).collect()
}

/// Runs one case on random numbers; calls `agree` with the result, the host's result, and the sum
/// of magnitudes.
fn check(case: Case, round: u64, mut agree: impl FnMut(u64, f64, f64, &str)) {
    let ([d, a, b, c], shape, options) = case;
    let [m, n, k] = shape;
    let is_wide = a == "f64";
    let packed = |ty: &str| if is_wide { 1 } else { 32 / bits_of(ty) };
    let registers = |ty: &str, count: usize| count / 32 / packed(ty);
    let counts = [
        registers(d, m * n),
        registers(a, m * k),
        registers(b, k * n),
        registers(c, m * n),
    ];
    let mut numbers = Numbers(round * 1000 + (m * n * k) as u64);
    let (mut ma, mut mb, mut mc) = (vec![0.0; m * k], vec![0.0; k * n], vec![0.0; m * n]);
    let mut input = Vec::new();
    for lane in 0..32 {
        let mut give = |ty: &str, count: usize, put: &mut dyn FnMut(usize, f64)| {
            for register in 0..count {
                let mut word = 0;
                for e in 0..packed(ty) {
                    let bits = random_bits(ty, &mut numbers);
                    put(register * packed(ty) + e, value_of(ty, bits));
                    word |= bits << (e * bits_of(ty) % 64);
                }
                input.push(word);
            }
        };
        give(a, counts[1], &mut |i, value| {
            let (row, column) = a_place(shape, a, i, lane);
            ma[row * k + column] = value;
        });
        give(b, counts[2], &mut |i, value| {
            let (row, column) = b_place(shape, b, i, lane);
            mb[row * n + column] = value;
        });
        give(c, counts[3], &mut |i, value| {
            let (row, column) = c_place(i, lane);
            mc[row * n + column] = value;
        });
    }
    let (head, tail) = match options {
        ".satfinite" => (options, ""),
        other => ("", other),
    };
    let text = format!("mma.sync.aligned.m{m}n{n}k{k}.row.col{head}.{d}.{a}.{b}.{c}{tail}");
    let text = if is_wide {
        text.replace(".col.", ".col.rn.").replace(".rn.", ".")
    } else {
        text
    };
    let output = run(&text, counts, is_wide, &input, round.is_multiple_of(2));
    for (at, word) in output.into_iter().enumerate() {
        let (lane, register) = (at / counts[0], at % counts[0]);
        for e in 0..packed(d) {
            let (row, column) = c_place(register * packed(d) + e, lane);
            // The sum starts at the last term, and `c` is added last.
            let mut sum = 0.0;
            let mut size = mc[row * n + column].abs();
            for at in (0..k).rev() {
                let (a, b) = (ma[row * k + at], mb[at * n + column]);
                let term = match options {
                    ".xor.popc" => f64::from(a != b),
                    _ => a * b,
                };
                sum += term;
                size += term.abs();
            }
            sum += mc[row * n + column];
            agree(word >> (e * bits_of(d) % 64), sum, size, &text);
        }
    }
}

#[test]
fn products_of_floats_are_sums_of_their_terms() {
    for case in FLOATS {
        let [d, ..] = case.0;
        // The value of the last place of the sum of magnitudes.
        let tolerance = match d {
            "f16" => 2f64.powi(-11),
            "f32" => 2f64.powi(-23),
            _ => 2f64.powi(-50),
        };
        for round in 0..4 {
            check(case, round, |bits, sum, size, text| {
                let value = value_of(d, bits);
                let difference = (value - sum).abs();
                assert!(
                    difference <= size * tolerance,
                    "{text}: {value}, not {sum}: {difference} away"
                );
            });
        }
    }
}

#[test]
fn products_of_integers_and_bits_are_exact() {
    for case in INTEGERS {
        for round in 0..4 {
            check(case, round, |bits, sum, _, text| {
                let sum = sum as i64;
                let expected = match case.2 {
                    ".satfinite" => sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                    _ => sum as i32,
                };
                assert_eq!(bits as i32, expected, "{text}");
            });
        }
    }
}

#[test]
fn numbers_of_eight_bits_have_the_values_of_their_formats() {
    // One row of `a` is 1.0 at one position, and `b` has all numbers there, 8 at a time.
    for (ty, one) in [("e4m3", 0x38u64), ("e5m2", 0x3c)] {
        for first in (0..256).step_by(8) {
            let mut input = Vec::new();
            for lane in 0..32u64 {
                let a = if lane == 0 { one } else { 0 };
                let column = lane >> 2;
                let b = if lane % 4 == 0 { first + column } else { 0 };
                input.extend([a, 0, 0, 0, b, 0, 0, 0, 0, 0]);
            }
            let text = format!("mma.sync.aligned.m16n8k32.row.col.f32.{ty}.{ty}.f32");
            let output = run(&text, [4, 4, 2, 4], false, &input, true);
            for column in 0..8 {
                let bits = first as u32 + column as u32;
                let value = f32::from_bits(output[column / 2 * 4 + column % 2] as u32);
                let (exponent, fraction, bias) = match ty {
                    "e4m3" => (bits >> 3 & 15, f64::from(bits & 7) / 8.0, 7),
                    _ => (bits >> 2 & 31, f64::from(bits & 3) / 4.0, 15),
                };
                let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
                let expected = match (ty, exponent) {
                    ("e4m3", 15) if bits & 7 == 7 => f64::NAN,
                    ("e5m2", 31) if bits & 3 != 0 => f64::NAN,
                    ("e5m2", 31) => f64::INFINITY,
                    (_, 0) => fraction * 2f64.powi(1 - bias),
                    _ => (1.0 + fraction) * 2f64.powi(exponent as i32 - bias),
                };
                let expected = (sign * expected) as f32;
                // The zeros of the other elements also enter the sum.
                let is_same = value == expected || value.is_nan() && expected.is_nan();
                assert!(is_same, "{ty} {bits:#x}: {value}, not {expected}");
            }
        }
    }
}

#[test]
fn nan_stays_in_its_row_and_column() {
    let mut input = Vec::new();
    for lane in 0..32u64 {
        // `a` has an infinity in row 3, and row 0 of `b` is zero except for column 5.
        let a = if lane == 12 { 0x7c00 } else { 0 };
        let b = if lane == 20 { 0x3c00 } else { 0 };
        input.extend([a, 0, b, 0, 0, 0, 0]);
    }
    let text = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32";
    let output = run(text, [4, 2, 1, 4], false, &input, true);
    for (at, bits) in output.into_iter().enumerate() {
        let (row, column) = c_place(at % 4, at / 4);
        let value = f32::from_bits(bits as u32);
        match (row, column) {
            (3, 5) => assert_eq!(value, f32::INFINITY),
            (3, _) => assert_eq!(bits, 0x7fff_ffff),
            _ => assert_eq!(value, 0.0),
        }
    }
}

#[test]
fn unsupported_matrix_shapes_are_refused_by_name() {
    let target = super::device::TARGET;
    for (text, name) in [
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, \
          {%a0, %a1}, {%b0, %b1}, {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7};",
            "mma",
        ),
        (
            "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%a0, %a1}, \
          {%b0, %b1}, {%c0, %c1, %c2, %c3}, %a2, 0x0;",
            "mma.sp",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32 {%d0, %d1, %d2, %d3}, {%a0, %a1}, {%b0}, \
          {%c0, %c1, %c2, %c3};",
            "mma",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f8 {%a0}, %d0, %d0, 1;",
            "wgmma",
        ),
        ("tcgen05.wait::ld.sync.aligned;", "tcgen05"),
    ] {
        let kernel = format!(
            ".visible .entry op() {{ .reg .b32 %a<8>; .reg .b32 %b<8>; .reg .b32 %c<8>;
             .reg .b32 %d<8>;\n{text}\nret; }}"
        );
        let loose = crate::vm::TargetInfo {
            strict: false,
            ..target
        };
        let device = Device::load(&kernel, &loose).unwrap();
        let fault = device.run(1, 32, &[]).unwrap_err();
        assert!(fault.message.contains(name), "{}", fault.message);
        assert_eq!((fault.kind.code(), fault.at.ptx_line), (715, 6), "{text}");
        assert!(Device::load(&kernel, &target).is_err(), "{text}");
    }
}
