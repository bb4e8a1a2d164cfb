//! Sums of random numbers, whose last bits depend on the precision of the adders.

use std::collections::BTreeMap;

use crate::case::{Case, Operands, ROWS};
use crate::fixture::everywhere;
use crate::model::{Model, hopper, random_bits};
use crate::products::no_reports;
use crate::types::Ty;

const TYPES: [[Ty; 3]; 9] = [
    [Ty::F32, Ty::F16, Ty::F16],
    [Ty::F16, Ty::F16, Ty::F16],
    [Ty::F32, Ty::Bf16, Ty::Bf16],
    [Ty::F32, Ty::Tf32, Ty::Tf32],
    [Ty::F32, Ty::E4m3, Ty::E4m3],
    [Ty::F32, Ty::E5m2, Ty::E5m2],
    [Ty::F32, Ty::E4m3, Ty::E5m2],
    [Ty::F16, Ty::E4m3, Ty::E4m3],
    [Ty::F16, Ty::E5m2, Ty::E5m2],
];

/// The columns of each product.
const N: usize = 64;

fn operands(case: &Case, spread: i32, seed: u64) -> Operands {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut many = |ty: Ty, spread: i32, count: usize| -> Vec<u32> {
        (0..count)
            .map(|_| random_bits(ty, spread, &mut random))
            .collect()
    };
    Operands {
        a: many(case.a, spread, ROWS * case.a.depth()),
        metadata: Vec::new(),
        b: many(case.b, spread, N * case.b.depth()),
        c: many(case.d, 2 * spread, ROWS * N),
    }
}

/// The sums by a model.
fn modelled(case: &Case, operands: &Operands, model: Model) -> Vec<u32> {
    let depth = case.depth();
    let mut sums = Vec::new();
    for row in 0..ROWS {
        for column in 0..N {
            let a = &operands.a[row * depth..(row + 1) * depth];
            let b = &operands.b[column * depth..(column + 1) * depth];
            let pairs: Vec<(u32, u32)> = a.iter().copied().zip(b.iter().copied()).collect();
            let c = operands.c[row * N + column];
            sums.push(model.sum([case.d, case.a, case.b], &pairs, c));
        }
    }
    sums
}

/// Other models, for the message of a failure.
fn candidates(a: Ty) -> Vec<Model> {
    let fractions = match a {
        Ty::E4m3 | Ty::E5m2 => 11..=16,
        _ => 22..=27,
    };
    let mut models = Vec::new();
    for fraction in fractions {
        for step in [a.depth(), a.depth() / 2, a.depth() / 4] {
            for floors in [false, true] {
                for result in [23, fraction, fraction - 1, fraction + 1] {
                    models.push(Model {
                        fraction,
                        step,
                        floors,
                        result,
                    });
                }
            }
        }
    }
    models
}

#[test]
fn sums_have_the_bits_of_the_model() {
    for fixture in everywhere() {
        let mut wrong = 0;
        for types in TYPES {
            for spread in [0, 2, 5] {
                let case = Case::new(types, N);
                let operands = operands(&case, spread, 5);
                let sums = case.run(&fixture, &operands).unwrap();
                let equal = |model: Model| {
                    let expected = modelled(&case, &operands, model);
                    sums.iter().zip(&expected).filter(|(a, b)| a == b).count()
                };
                let count = equal(hopper(case.a));
                println!(
                    "sums of {types:?}, spread {spread} on {}: {count} of {} are equal",
                    fixture.name,
                    sums.len()
                );
                if count == sums.len() {
                    continue;
                }
                wrong += 1;
                let all = candidates(case.a).into_iter();
                let ranked: BTreeMap<usize, Model> =
                    all.map(|model| (equal(model), model)).collect();
                for (count, model) in ranked.iter().rev().take(2) {
                    println!("  {count}: {model:?}");
                }
            }
        }
        assert_eq!(wrong, 0, "on {}", fixture.name);
        no_reports(&fixture);
    }
}

#[test]
fn infinities_and_nan_spread() {
    // Elements of A and B, the start of the sum, and the result: each is the only one of its row.
    const INFINITY: f64 = f64::INFINITY;
    let cases = [
        (INFINITY, 2.0, 1.0, 0x7f80_0000_u32),
        (-INFINITY, 2.0, 1.0, 0xff80_0000),
        (INFINITY, 0.0, 1.0, 0x7fff_ffff),
        (f64::NAN, 2.0, 1.0, 0x7fff_ffff),
        (1.0, 2.0, INFINITY, 0x7f80_0000),
        (INFINITY, 2.0, -INFINITY, 0x7fff_ffff),
        (1.0, 2.0, f64::NAN, 0x7fff_ffff),
        (0.0, -2.0, -0.0, 0),
        (0.0, 0.0, -1e-40, (-1e-40_f32).to_bits()),
    ];
    let case = Case::new([Ty::F32, Ty::F16, Ty::F16], 8);
    let half = |value: f64| u32::from(half::f16::from_f64(value).to_bits());
    for fixture in everywhere() {
        for (a, b, c, expected) in cases {
            let mut operands = Operands {
                a: vec![0; ROWS * 16],
                metadata: Vec::new(),
                b: vec![half(b); 8 * 16],
                c: vec![(c as f32).to_bits(); ROWS * 8],
            };
            for row in 0..ROWS {
                operands.a[row * 16 + row % 16] = half(a);
            }
            let sums = case.run(&fixture, &operands).unwrap();
            let found = sums[0];
            assert_eq!(
                (found, sums.iter().all(|&sum| sum == found)),
                (expected, true),
                "{a} * {b} + {c} on {}: {found:#x}",
                fixture.name
            );
        }
    }
}
