//! Products of small integers, which are exact in every type: the forms of `wgmma`, the layouts in
//! memory, and the elements of each thread.

use fastrand::Rng;

use crate::case::{Case, Operands, ROWS};
use crate::fixture::{Fixture, everywhere};
use crate::layout::Layout;
use crate::types::Ty;

/// The types of sum, A and B.
const TYPES: [[Ty; 3]; 17] = [
    [Ty::F32, Ty::F16, Ty::F16],
    [Ty::F16, Ty::F16, Ty::F16],
    [Ty::F32, Ty::Bf16, Ty::Bf16],
    [Ty::F32, Ty::Tf32, Ty::Tf32],
    [Ty::F32, Ty::E4m3, Ty::E4m3],
    [Ty::F32, Ty::E4m3, Ty::E5m2],
    [Ty::F32, Ty::E5m2, Ty::E4m3],
    [Ty::F32, Ty::E5m2, Ty::E5m2],
    [Ty::F16, Ty::E4m3, Ty::E4m3],
    [Ty::F16, Ty::E4m3, Ty::E5m2],
    [Ty::F16, Ty::E5m2, Ty::E4m3],
    [Ty::F16, Ty::E5m2, Ty::E5m2],
    [Ty::S32, Ty::S8, Ty::S8],
    [Ty::S32, Ty::S8, Ty::U8],
    [Ty::S32, Ty::U8, Ty::S8],
    [Ty::S32, Ty::U8, Ty::U8],
    [Ty::S32, Ty::B1, Ty::B1],
];

/// The spans of swizzles in bytes; 16 for none.
const SPANS: [usize; 4] = [16, 32, 64, 128];

/// Random elements that are exact in the types of a case, and the exact sums.
fn operands(case: &Case, seed: u64) -> (Operands, Vec<u32>) {
    let mut random = Rng::with_seed(seed);
    let mut element = |ty: Ty| match ty {
        Ty::S8 => random.i64(-128..128),
        Ty::U8 => random.i64(0..256),
        Ty::B1 => random.u32(..).into(),
        Ty::S32 if case.saturates => {
            let edge = if random.bool() { i32::MAX } else { i32::MIN };
            i64::from(edge)
        }
        Ty::S32 => random.i32(-1000..1000).into(),
        _ => random.i64(-4..=4),
    };
    let depth = case.depth();
    let mut a = vec![0i64; ROWS * depth];
    for value in &mut a {
        *value = element(case.a);
    }
    let b: Vec<i64> = (0..case.n * depth).map(|_| element(case.b)).collect();
    let c: Vec<i64> = (0..ROWS * case.n).map(|_| element(case.d)).collect();
    let (kept, metadata) = if case.sparse {
        compress(case, &mut a, &mut random)
    } else {
        (a.clone(), Vec::new())
    };
    let sign = i64::from(case.scales[0] * case.scales[1]);
    let mut sums = Vec::new();
    for row in 0..ROWS {
        for column in 0..case.n {
            let pairs = (0..depth).map(|k| (a[row * depth + k], b[column * depth + k]));
            let sum: i64 = match case.a {
                Ty::B1 => pairs.map(|(a, b)| i64::from((a & b).count_ones())).sum(),
                _ => pairs.map(|(a, b)| a * b).sum(),
            };
            let start = if case.adds {
                c[row * case.n + column]
            } else {
                0
            };
            let mut sum = sign * sum + start;
            if case.saturates {
                sum = sum.clamp(i32::MIN.into(), i32::MAX.into());
            }
            sums.push(case.d.encode(sum));
        }
    }
    let encode = |ty: Ty, all: &[i64]| all.iter().map(|&value| ty.encode(value)).collect();
    let operands = Operands {
        a: encode(case.a, &kept),
        metadata,
        b: encode(case.b, &b),
        c: encode(case.d, &c),
    };
    (operands, sums)
}

/// Clears half of the elements of A. Returns the other half, and the metadata of each thread.
fn compress(case: &Case, a: &mut [i64], random: &mut Rng) -> (Vec<i64>, Vec<u32>) {
    let depth = case.depth();
    let mut kept = Vec::new();
    // The pattern of threads that do not take part is valid but different.
    let mut metadata = vec![0x4444_4444_u32; 128];
    let of_pairs = case.a == Ty::Tf32;
    let size = if of_pairs { 2 } else { 4 };
    for row in 0..ROWS {
        for (group, elements) in a[row * depth..(row + 1) * depth]
            .chunks_mut(size)
            .enumerate()
        {
            let first = random.usize(0..size - 1 + usize::from(of_pairs));
            let second = if of_pairs {
                first
            } else {
                random.usize(first + 1..4)
            };
            let nibble = if of_pairs {
                [0b0100, 0b1110][first]
            } else {
                first | second << 2
            };
            for (place, element) in elements.iter_mut().enumerate() {
                if place == first || place == second {
                    kept.push(*element);
                } else {
                    *element = 0;
                }
            }
            // The figures of the manual: which bits of which thread describe this group.
            let quad = row / 16 * 32 + row % 8 * 4;
            let is_upper = row % 16 >= 8;
            let (thread, bit) = if case.a.bits() == 8 {
                let half = group / 8;
                (quad + 2 * half + usize::from(is_upper), group % 8 * 4)
            } else {
                let half = group / 4;
                let bit = group % 4 * 4 + if is_upper { 16 } else { 0 };
                (quad + 2 * case.selector + half, bit)
            };
            metadata[thread] &= !(15 << bit);
            metadata[thread] |= (nibble as u32) << bit;
        }
    }
    (kept, metadata)
}

/// Runs cases on every device. Prints the number of equal ones, and fails unless all are.
#[track_caller]
fn check(what: &str, cases: &[Case]) {
    for fixture in everywhere() {
        let mut wrong = Vec::new();
        for (seed, case) in cases.iter().enumerate() {
            let (operands, expected) = operands(case, seed as u64);
            match case.run(&fixture, &operands) {
                Ok(sums) if sums == expected => {}
                Ok(sums) => {
                    let count = sums.iter().zip(&expected).filter(|(a, b)| a != b).count();
                    wrong.push(format!("{count} of {} differ: {case:?}", sums.len()));
                }
                Err(error) => {
                    let line = error.lines().next().unwrap_or_default();
                    wrong.push(format!("{line}: {case:?}"));
                }
            }
        }
        let equal = cases.len() - wrong.len();
        println!(
            "{what} on {}: {equal} of {} are equal",
            fixture.name,
            cases.len()
        );
        for line in wrong.iter().take(8) {
            println!("{}", line.chars().take(420).collect::<String>());
        }
        assert!(
            wrong.is_empty(),
            "{what} on {}: {}",
            fixture.name,
            wrong.len()
        );
        no_reports(&fixture);
    }
}

/// Fails if the checks of the software device reported anything.
#[track_caller]
pub(crate) fn no_reports(fixture: &Fixture) {
    if let Some(simulator) = &fixture.simulator {
        assert_eq!(simulator.take_reports(), []);
    }
}

#[test]
fn every_width_is_exact() {
    let halves = (8..=256).step_by(8).map(|n| Case::new(TYPES[0], n));
    let bytes = (8..=256)
        .step_by(8)
        .filter(|n| matches!(n, 8 | 24) || n % 16 == 0)
        .map(|n| Case::new(TYPES[12], n));
    check("widths", &halves.chain(bytes).collect::<Vec<_>>());
}

#[test]
fn every_type_is_exact() {
    let mut cases = Vec::new();
    for types in TYPES {
        for n in [8, 96, 256] {
            cases.push(Case::new(types, n));
        }
        cases.push(Case {
            a_in_registers: true,
            ..Case::new(types, 64)
        });
        cases.push(Case {
            adds: false,
            ..Case::new(types, 32)
        });
    }
    check("types", &cases);
}

#[test]
fn scales_and_saturation_are_exact() {
    let mut cases = Vec::new();
    for types in TYPES {
        if types[1].is_float() {
            for scales in [[-1, 1], [1, -1], [-1, -1]] {
                cases.push(Case {
                    scales,
                    ..Case::new(types, 16)
                });
            }
        } else if types[1] != Ty::B1 {
            cases.push(Case {
                saturates: true,
                ..Case::new(types, 16)
            });
        }
    }
    check("scales", &cases);
}

/// The layouts that A or B can have.
fn layouts(transposes: bool) -> Vec<Layout> {
    let mut layouts = Vec::new();
    for span in SPANS {
        for rows_first in [false, true] {
            for chunk in (0..(span / 16).max(2) - 1).step_by(2) {
                layouts.push(Layout {
                    rows_first,
                    chunk,
                    ..Layout::new(span, false)
                });
            }
            if transposes {
                layouts.push(Layout {
                    rows_first,
                    ..Layout::new(span, true)
                });
            }
        }
    }
    layouts
}

#[test]
fn every_layout_is_exact() {
    let mut cases = Vec::new();
    for layout in layouts(true) {
        for types in [TYPES[0], TYPES[2]] {
            cases.push(Case {
                a_layout: layout,
                ..Case::new(types, 24)
            });
            cases.push(Case {
                b_layout: layout,
                ..Case::new(types, 136)
            });
        }
        cases.push(Case {
            a_in_registers: true,
            b_layout: layout,
            ..Case::new(TYPES[1], 40)
        });
    }
    for layout in layouts(false) {
        for types in [TYPES[3], TYPES[5], TYPES[13], TYPES[16]] {
            cases.push(Case {
                a_layout: layout,
                b_layout: layout,
                ..Case::new(types, 48)
            });
        }
    }
    check("layouts", &cases);
}

#[test]
fn sparse_products_are_exact() {
    let mut cases = Vec::new();
    for types in &TYPES[..16] {
        let selectors = if types[1].bits() == 8 { 1 } else { 2 };
        for selector in 0..selectors {
            for a_in_registers in [false, true] {
                for n in [8, 64] {
                    cases.push(Case {
                        sparse: true,
                        selector,
                        a_in_registers,
                        ..Case::new(*types, n)
                    });
                }
            }
        }
    }
    check("sparse", &cases);
}

#[test]
fn layouts_of_sparse_products_are_exact() {
    let mut cases = Vec::new();
    for types in [TYPES[0], TYPES[2], TYPES[3], TYPES[4], TYPES[12]] {
        for layout in layouts(types[1].has_transposes()) {
            // B has rows of 64 bytes, so a matrix cannot begin in the second half of a pattern.
            if layout.chunk + 4 <= (layout.span / 16).max(4) {
                cases.push(Case {
                    sparse: true,
                    b_layout: layout,
                    ..Case::new(types, 80)
                });
            }
            cases.push(Case {
                sparse: true,
                a_layout: layout,
                ..Case::new(types, 16)
            });
        }
    }
    check("sparse layouts", &cases);
}

/// The base offset of a descriptor selects the row from which the pattern counts.
#[test]
fn base_offset_moves_the_pattern() {
    for fixture in everywhere() {
        let mut lines = Vec::new();
        for span in [32, 64, 128] {
            for base in [0, 1, 2, 4, 7] {
                for is_a in [true, false] {
                    let moved = Layout {
                        base,
                        ..Layout::new(span, false)
                    };
                    let case = if is_a {
                        Case {
                            a_layout: moved,
                            ..Case::new(TYPES[0], 32)
                        }
                    } else {
                        Case {
                            b_layout: moved,
                            ..Case::new(TYPES[0], 32)
                        }
                    };
                    let (operands, expected) = operands(&case, 7);
                    let fits = |base: usize| {
                        let bases = if is_a { [base, 0] } else { [0, base] };
                        let image = case.image(&operands, bases);
                        case.run_image(&fixture, &operands, &image).as_ref() == Ok(&expected)
                    };
                    // The pattern counts from its own start, from a multiple of its size, or from a
                    // row as far before.
                    let found = [base, 0, 8 - base].map(fits);
                    let period = span / 16;
                    let whole = |rows: usize| rows.is_multiple_of(period);
                    if found != [true, whole(base), whole(2 * base)] {
                        lines.push(format!("span {span}, base {base}, A {is_a}: {found:?}"));
                    }
                }
            }
        }
        println!(
            "base offsets on {}: {} unexpected",
            fixture.name,
            lines.len()
        );
        for line in lines.iter().take(30) {
            println!("{line}");
        }
        assert!(lines.is_empty(), "{}: {}", fixture.name, lines.len());
    }
}
