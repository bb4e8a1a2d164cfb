//! Bounds against a search with big integers, and against all points of small systems.

use std::cell::Cell;

use fastrand::Rng;
use num_bigint::BigInt;

use super::super::bound::{DEPTH_OF_ACCESS, Prover};
use super::super::form::Form;
use super::super::symbols::{Kind, Symbols};

/// Symbols with ranges, facts, and a form.
struct System {
    symbols: Symbols,
    ranges: Vec<(i128, Option<i128>)>,
    facts: Vec<Form>,
    form: Form,
}

fn system(rng: &mut Rng, count: u32, size: i128, is_bounded: bool) -> System {
    let mut symbols = Symbols::default();
    let mut ranges = Vec::new();
    for number in 0..count {
        let low = rng.i128(-size..=size);
        let high = (is_bounded || rng.bool()).then(|| low + rng.i128(1..=size));
        let kind = Kind::Opaque(number + 1, low, high.unwrap_or(0));
        assert_eq!(symbols.simple(kind, Some(low), high, None), Some(number));
        ranges.push((low, high));
    }
    let mut form = |most: i128| {
        let mut form = Form::number(rng.i128(-most * 3..=most * 3));
        for symbol in 0..count {
            if rng.u32(..3) > 0 {
                let by = rng.i128(-most..=most);
                form = form.combine(1, &Form::symbol(symbol), by).unwrap();
            }
        }
        form
    };
    let most = size.clamp(4, 1 << 70);
    let facts = (0..2).map(|_| form(most)).collect();
    let form = form(most);
    System {
        symbols,
        ranges,
        facts,
        form,
    }
}

/// A form with big integers: the coefficient of each symbol, and the constant.
type Big = (Vec<BigInt>, BigInt);

fn big(form: &Form, count: usize) -> Big {
    let coefficients = (0..count as u32).map(|symbol| form.coefficient(symbol).into());
    (coefficients.collect(), form.constant.into())
}

fn gcd(a: &BigInt, b: &BigInt) -> BigInt {
    let (mut a, mut b) = (a.clone(), b.clone());
    while b != BigInt::ZERO {
        (a, b) = (b.clone(), a % b);
    }
    BigInt::from(a.magnitude().clone())
}

fn floor(a: &BigInt, b: &BigInt) -> BigInt {
    let rest = ((a % b) + b) % b;
    (a - rest) / b
}

/// The smallest bound after at most `depth` subtractions of facts.
fn upper(system: &System, form: &Big, depth: u32) -> Option<BigInt> {
    let mut best = Some(form.1.clone());
    for (by, (low, high)) in form.0.iter().zip(&system.ranges) {
        let end = match by.sign() {
            num_bigint::Sign::NoSign => continue,
            num_bigint::Sign::Plus => high.map(BigInt::from),
            num_bigint::Sign::Minus => Some(BigInt::from(*low)),
        };
        best = best.zip(end).map(|(sum, end)| sum + by * end);
    }
    if depth == 0 {
        return best;
    }
    let zero = BigInt::ZERO;
    // Symbols without an end come first.
    let is_open = best.is_none();
    for (index, by) in form.0.iter().enumerate() {
        if is_open && (by < &zero || system.ranges[index].1.is_some()) {
            continue;
        }
        for fact in &system.facts {
            let fact = big(fact, form.0.len());
            let other = &fact.0[index];
            if by == &zero || other == &zero || (by > &zero) != (other > &zero) {
                continue;
            }
            let divisor = gcd(by, other);
            let abs = |value: &BigInt| BigInt::from(value.magnitude().clone());
            let (times, factor) = (abs(other) / &divisor, abs(by) / &divisor);
            let subtract = |a: &BigInt, b: &BigInt| a * &times - b * &factor;
            let rest = form
                .0
                .iter()
                .zip(&fact.0)
                .map(|(a, b)| subtract(a, b))
                .collect();
            let rest = (rest, subtract(&form.1, &fact.1));
            let Some(bound) = upper(system, &rest, depth - 1) else {
                continue;
            };
            // The largest number below that the coefficients allow.
            let mut bound = floor(&bound, &times);
            let shared = form
                .0
                .iter()
                .fold(zero.clone(), |shared, by| gcd(&shared, by));
            if shared > BigInt::from(1) {
                bound = floor(&(bound - &form.1), &shared) * &shared + &form.1;
            }
            best = Some(match best {
                Some(best) if best <= bound => best,
                _ => bound,
            });
        }
    }
    best
}

fn found(system: &System) -> Option<i128> {
    let work = Cell::new(u64::MAX);
    let prover = Prover {
        symbols: &system.symbols,
        facts: &system.facts,
        depth: DEPTH_OF_ACCESS,
        work: &work,
    };
    prover.upper(&system.form).map(|bound| bound.value)
}

#[test]
fn bounds_agree_with_big_integers() {
    let mut rng = Rng::with_seed(7);
    let (mut same, mut weaker) = (0, 0);
    for round in 0..6000 {
        // Small numbers never overflow; large ones do in 128 bits, which may only weaken a bound.
        let size = [5, 1 << 12, 1 << 64, 1 << 76][round % 4];
        let system = system(&mut rng, 3, size, round % 3 == 0);
        let expected = upper(&system, &big(&system.form, 3), 3);
        match (found(&system), expected) {
            (None, None) => same += 1,
            (Some(found), Some(expected)) if BigInt::from(found) == expected => same += 1,
            (Some(found), Some(expected)) => {
                assert!(BigInt::from(found) > expected, "{found} {expected}");
                assert!(size >= 1 << 64, "{found} {expected}");
                weaker += 1;
            }
            (None, Some(_)) => {
                assert!(size >= 1 << 64);
                weaker += 1;
            }
            (Some(found), None) => panic!("{found} without a bound"),
        }
    }
    println!("{same} bounds are the same, {weaker} weaker");
    assert!(same > 3500, "{same} same, {weaker} weaker");
}

#[test]
fn no_point_is_above_its_bound() {
    let mut rng = Rng::with_seed(8);
    let (mut points, mut reached) = (0u64, 0u64);
    for _ in 0..3000 {
        let system = system(&mut rng, 3, 4, true);
        let bound = found(&system).expect("all symbols are bounded");
        let mut most = None;
        let range = |index: usize| system.ranges[index].0..=system.ranges[index].1.unwrap();
        for x in range(0) {
            for y in range(1) {
                for z in range(2) {
                    let value = |form: &Form| {
                        let terms = [x, y, z].into_iter().zip(0..);
                        terms
                            .map(|(x, symbol)| x * form.coefficient(symbol))
                            .sum::<i128>()
                            + form.constant
                    };
                    if system.facts.iter().all(|fact| value(fact) <= 0) {
                        points += 1;
                        most = most.max(Some(value(&system.form)));
                    }
                }
            }
        }
        if let Some(most) = most {
            assert!(most <= bound, "{most} is above {bound}");
            reached += u64::from(most == bound);
        }
    }
    println!("{points} points, {reached} bounds are reached");
    assert!(
        points > 10_000 && reached > 100,
        "{points} points, {reached} reached"
    );
}

#[test]
fn quotients_have_the_range_of_floor() {
    for divisor in 1..20 {
        for (low, high) in [(-30, 17), (0, 40), (5, 6), (-7, -1)] {
            let mut symbols = Symbols::default();
            let x = symbols.simple(Kind::Opaque(1, low, high), Some(low), Some(high), None);
            let form = Form::symbol(x.unwrap()).scale(3).unwrap().plus(1).unwrap();
            let quotient = symbols.quotient(&form, divisor).unwrap();
            let floor = |x: i128| (3 * x + 1).div_euclid(divisor);
            assert_eq!(symbols.low(&quotient), Some(floor(low)));
            assert_eq!(symbols.high(&quotient), Some(floor(high)));
            // The remainder is known by the facts of the quotient.
            let rest = form.combine(1, &quotient, -divisor).unwrap();
            let work = Cell::new(u64::MAX);
            let prover = Prover {
                symbols: &symbols,
                facts: &[],
                depth: DEPTH_OF_ACCESS,
                work: &work,
            };
            assert!(prover.is_at_least(&rest, 0) && prover.is_at_most(&rest, divisor - 1));
        }
    }
}
