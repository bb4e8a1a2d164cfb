//! `wmma`: matrices loaded from memory, multiplied and stored, compared with the host.

use super::device::{Device, Numbers};
use super::matrix::{bits_of, random_bits, value_of};

/// The types of `a` (and `b`), `c` and `d`; the shape; the number of registers of `a`, `b`, `c`,
/// `d`.
type Case = ([&'static str; 3], [usize; 3], [usize; 4]);

const CASES: [Case; 21] = [
    (["f16", "f32", "f32"], [16, 16, 16], [8, 8, 8, 8]),
    (["f16", "f32", "f32"], [32, 8, 16], [8, 8, 8, 8]),
    (["f16", "f32", "f32"], [8, 32, 16], [8, 8, 8, 8]),
    (["f16", "f16", "f16"], [16, 16, 16], [8, 8, 4, 4]),
    (["f16", "f16", "f16"], [32, 8, 16], [8, 8, 4, 4]),
    (["f16", "f16", "f32"], [8, 32, 16], [8, 8, 4, 8]),
    (["f16", "f32", "f16"], [16, 16, 16], [8, 8, 8, 4]),
    (["bf16", "f32", "f32"], [16, 16, 16], [4, 4, 8, 8]),
    (["bf16", "f32", "f32"], [32, 8, 16], [8, 2, 8, 8]),
    (["bf16", "f32", "f32"], [8, 32, 16], [2, 8, 8, 8]),
    (["tf32", "f32", "f32"], [16, 16, 8], [4, 4, 8, 8]),
    (["f64", "f64", "f64"], [8, 8, 4], [1, 1, 2, 2]),
    (["s8", "s32", "s32"], [16, 16, 16], [2, 2, 8, 8]),
    (["s8", "s32", "s32"], [32, 8, 16], [4, 1, 8, 8]),
    (["s8", "s32", "s32"], [8, 32, 16], [1, 4, 8, 8]),
    (["u8", "s32", "s32"], [16, 16, 16], [2, 2, 8, 8]),
    (["u8", "s32", "s32"], [32, 8, 16], [4, 1, 8, 8]),
    (["u8", "s32", "s32"], [8, 32, 16], [1, 4, 8, 8]),
    (["s4", "s32", "s32"], [8, 8, 32], [1, 1, 2, 2]),
    (["u4", "s32", "s32"], [8, 8, 32], [1, 1, 2, 2]),
    (["b1", "s32", "s32"], [8, 8, 128], [1, 1, 2, 2]),
];

/// A matrix in memory; `stride` is the distance between rows, or columns, in elements.
struct Matrix {
    ty: &'static str,
    by_column: bool,
    stride: usize,
    bytes: Vec<u8>,
}

impl Matrix {
    fn random(
        ty: &'static str,
        (rows, columns): (usize, usize),
        by_column: bool,
        numbers: &mut Numbers,
    ) -> Self {
        let (outer, inner) = if by_column {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let bits = bits_of(ty);
        // Rows are followed by a gap of 16 bytes.
        let stride = inner + 128 / bits;
        let mut bytes = vec![0u8; outer * stride * bits / 8];
        for index in 0..outer * stride {
            let value = random_bits(ty, numbers);
            let at = index * bits;
            if bits < 8 {
                bytes[at / 8] |= (value << (at % 8)) as u8;
            } else {
                let value = &value.to_le_bytes()[..bits / 8];
                bytes[at / 8..][..bits / 8].copy_from_slice(value);
            }
        }
        Self {
            ty,
            by_column,
            stride,
            bytes,
        }
    }

    fn value(&self, row: usize, column: usize) -> f64 {
        let (outer, inner) = if self.by_column {
            (column, row)
        } else {
            (row, column)
        };
        let at = (outer * self.stride + inner) * bits_of(self.ty);
        let mut word = [0; 8];
        let len = bits_of(self.ty).div_ceil(8);
        word[..len].copy_from_slice(&self.bytes[at / 8..][..len]);
        value_of(self.ty, u64::from_le_bytes(word) >> (at % 8))
    }

    fn layout(&self) -> &'static str {
        if self.by_column { "col" } else { "row" }
    }
}

fn list(name: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Loads, multiplies and stores in one memory space.
fn run(case: Case, operation: &str, [a, b, c]: [&Matrix; 3], d: &Matrix, space: &str) -> Vec<u8> {
    let ([ta, tc, td], [m, n, k], counts) = case;
    let shape = format!("m{m}n{n}k{k}");
    let register = if ta == "f64" { "f64" } else { "b32" };
    let (la, lb, lc, ld) = (a.layout(), b.layout(), c.layout(), d.layout());
    let types = match ta {
        "f16" => format!("{td}.{tc}"),
        _ => format!("{td}.{ta}.{ta}.{tc}"),
    };
    let round = if ta == "f64" { ".rn" } else { "" };
    let (head, tail) = match operation {
        ".satfinite" => ("", operation),
        other => (other, ""),
    };
    let sizes = [a, b, c, d].map(|matrix| matrix.bytes.len());
    // Shared memory receives copies of all three matrices, and the result passes through it.
    let (prologue, epilogue, bases) = if space == ".shared" {
        let mut prologue = String::new();
        let starts = [0, sizes[0], sizes[0] + sizes[1], 0];
        for (index, base) in ["a", "b", "c"].into_iter().enumerate() {
            prologue += &format!(
                "mov.b32 %i, 0; ${base}: cvt.u64.u32 %at, %i; add.u64 %at, %at, %{base};
                 ld.global.b8 %w, [%at]; st.shared.b8 [%i+{}], %w; add.u32 %i, %i, 1;
                 setp.lt.u32 %p, %i, {}; @%p bra ${base};\n",
                starts[index], sizes[index]
            );
        }
        let epilogue = format!(
            "mov.b32 %i, 0; $d: ld.shared.b8 %w, [%i]; cvt.u64.u32 %at, %i; add.u64 %at, %at, %d;
             st.global.b8 [%at], %w; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, {}; @%p bra $d;",
            sizes[3]
        );
        (prologue, epilogue, starts.map(|start| format!("[{start}]")))
    } else {
        let bases = ["a", "b", "c", "d"].map(|name| format!("[%{name}]"));
        (String::new(), String::new(), bases)
    };
    let [pa, pb, pc, pd] = bases;
    let kernel = format!(
        ".visible .entry op(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
            .reg .{register} %fa<8>; .reg .{register} %fb<8>; .reg .{register} %fc<8>;
            .reg .{register} %fd<8>; .reg .b64 %a, %b, %c, %d, %at; .reg .b32 %i, %w; .reg .pred %p;
            .shared .align 32 .b8 space[32768];
            ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d];
            {prologue}
            wmma.load.a.sync.aligned.{la}.{shape}{space}.{ta} {}, {pa}, {};
            wmma.load.b.sync.aligned.{lb}.{shape}{space}.{ta} {}, {pb}, {};
            wmma.load.c.sync.aligned.{lc}.{shape}{space}.{tc} {}, {pc}, {};
            wmma.mma{head}.sync.aligned.{la}.{lb}.{shape}{round}.{types}{tail} {}, {}, {}, {};
            wmma.store.d.sync.aligned.{ld}.{shape}{space}.{td} {pd}, {}, {};
            {epilogue}
            ret; }}",
        list("fa", counts[0]),
        a.stride,
        list("fb", counts[1]),
        b.stride,
        list("fc", counts[2]),
        c.stride,
        list("fd", counts[3]),
        list("fa", counts[0]),
        list("fb", counts[1]),
        list("fc", counts[2]),
        list("fd", counts[3]),
        d.stride,
    );
    let device = Device::new(&kernel);
    let places = [a, b, c, d].map(|matrix| device.upload(&matrix.bytes));
    device.run(1, 32, &places).unwrap();
    let mut bytes = vec![0; d.bytes.len()];
    device.arena.map().read(places[3], &mut bytes).unwrap();
    bytes
}

fn check(case: Case, operation: &str, layouts: usize, space: &str) {
    let ([ta, tc, td], [m, n, k], _) = case;
    let mut numbers = Numbers((m * n + k + layouts) as u64);
    let fixed = bits_of(ta) < 8;
    let by_column = |bit: usize| layouts >> bit & 1 != 0;
    let a = Matrix::random(ta, (m, k), !fixed && by_column(0), &mut numbers);
    let b = Matrix::random(ta, (k, n), fixed || by_column(1), &mut numbers);
    let c = Matrix::random(tc, (m, n), by_column(2), &mut numbers);
    let mut d = Matrix::random(td, (m, n), by_column(0), &mut numbers);
    d.bytes = run(case, operation, [&a, &b, &c], &d, space);
    for row in 0..m {
        for column in 0..n {
            let (mut sum, mut size) = (0.0, c.value(row, column).abs());
            for at in (0..k).rev() {
                let (a, b) = (a.value(row, at), b.value(at, column));
                let term = match operation {
                    ".xor.popc" => f64::from(a != b),
                    _ => a * b,
                };
                sum += term;
                size += term.abs();
            }
            sum += c.value(row, column);
            let value = d.value(row, column);
            let what = format!("{case:?} {operation} {layouts} {space} at {row}, {column}");
            match td {
                "s32" if operation == ".satfinite" => {
                    let sum = (sum as i64).clamp(i32::MIN.into(), i32::MAX.into());
                    assert_eq!(value, sum as f64, "{what}");
                }
                "s32" => assert_eq!(value, f64::from(sum as i64 as i32), "{what}"),
                _ => {
                    let places = match td {
                        "f16" => -11,
                        "f32" => -23,
                        _ => -50,
                    };
                    assert!((value - sum).abs() <= size * 2f64.powi(places), "{what}");
                }
            }
        }
    }
}

#[test]
fn tiles_multiply_in_all_shapes_and_layouts() {
    for (index, case) in CASES.into_iter().enumerate() {
        let operations: &[&str] = match case.0[0] {
            "b1" => &[".xor.popc", ".and.popc"],
            "s8" | "u8" | "s4" | "u4" => &["", ".satfinite"],
            _ => &[""],
        };
        for &operation in operations {
            for layouts in 0..8 {
                let space = [".global", "", ".shared"][(index + layouts) % 3];
                check(case, operation, layouts, space);
            }
        }
    }
}

#[test]
fn a_fragment_with_too_few_registers_does_not_load() {
    let kernel = ".visible .entry op(.param .u64 a) { .reg .b32 %f<8>; .reg .b64 %a;
        ld.param.u64 %a, [a];
        wmma.load.a.sync.aligned.row.m16n16k16.f16 {%f0, %f1, %f2, %f3}, [%a], 16; ret; }";
    let Err(error) = Device::load(kernel, &super::device::TARGET) else {
        panic!("it loads");
    };
    assert!(error.to_string().contains("Bad vector size"), "{error}");
}
