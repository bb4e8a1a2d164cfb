//! Bounds against a search with big integers, and against all points of small systems.

use std::cell::Cell;

use fastrand::Rng;
use num_bigint::{BigInt, Sign};

use super::super::bound::{DEPTH_OF_ACCESS, Prover};
use super::super::form::Form;
use super::super::symbols::{Alternative, Kind, Selection, Symbols};

/// A form with big integers: the coefficient of each symbol, and the constant.
type Big = (Vec<BigInt>, BigInt);

/// The meaning of a symbol.
enum Meaning {
    /// Any number in its range.
    Any,
    /// `floor(form / divisor)`
    Quotient(Form, i128),
    /// One of the forms whose facts hold.
    Choice(Vec<Alternative>, Selection),
}

/// A symbol, with a range and facts that are computed with big integers.
struct Unknown {
    meaning: Meaning,
    low: Option<BigInt>,
    high: Option<BigInt>,
    facts: Vec<Big>,
    /// The cases of a choice with their facts.
    cases: Vec<(Big, Vec<Big>)>,
}

/// Symbols, facts, and a form.
struct System {
    symbols: Symbols,
    unknowns: Vec<Unknown>,
    facts: Vec<Form>,
    form: Form,
    /// Quotients that were asked for: the dividend, the divisor, and the form that was returned.
    quotients: Vec<(Form, i128, Form)>,
}

/// The number of symbols that have only a range, and of all symbols.
const PLAIN: usize = 3;
const ALL: usize = 5;
/// The number of steps after which a search ends early.
const STEPS: u32 = 500;

fn big(form: &Form) -> Big {
    let coefficients = (0..ALL as u32).map(|symbol| form.coefficient(symbol).into());
    (coefficients.collect(), form.constant.into())
}

fn combined(a: &Big, times: &BigInt, b: &Big, factor: &BigInt) -> Big {
    let sum = |a: &BigInt, b: &BigInt| a * times + b * factor;
    let terms = a.0.iter().zip(&b.0).map(|(a, b)| sum(a, b));
    (terms.collect(), sum(&a.1, &b.1))
}

/// The upper end of the interval of a form.
fn high(unknowns: &[Unknown], form: &Big) -> Option<BigInt> {
    let terms = form.0.iter().zip(unknowns);
    let mut terms = terms.filter(|(by, _)| by.sign() != Sign::NoSign);
    terms.try_fold(form.1.clone(), |sum, (by, unknown)| {
        let end = match by.sign() {
            Sign::Minus => &unknown.low,
            _ => &unknown.high,
        };
        Some(sum + by * end.as_ref()?)
    })
}

fn low(unknowns: &[Unknown], form: &Big) -> Option<BigInt> {
    let zero = big(&Form::default());
    high(unknowns, &combined(&zero, &0.into(), form, &(-1).into())).map(|high| -high)
}

/// A random form over the first `count` symbols.
fn random_form(rng: &mut Rng, count: usize, most: i128) -> Form {
    let mut form = Form::number(rng.i128(-most * 3..=most * 3));
    for symbol in 0..count {
        if rng.u32(..3) > 0 {
            let by = rng.i128(-most..=most);
            form = form
                .combine(1, &Form::symbol(symbol as u32), by)
                .expect("a form without overflow");
        }
    }
    form
}

impl System {
    fn unknown(&mut self, meaning: Meaning, low: Option<BigInt>, high: Option<BigInt>) {
        let (facts, cases) = (Vec::new(), Vec::new());
        self.unknowns.push(Unknown {
            meaning,
            low,
            high,
            facts,
            cases,
        });
    }

    /// Adds a quotient of a form. Some quotients are forms without a new symbol, or with a symbol
    /// for another quotient.
    fn add_quotient(&mut self, rng: &mut Rng) {
        let number = self.unknowns.len();
        let divisor = rng.i128(2..9);
        let nested = Form::symbol(number as u32 - 1).plus(rng.i128(-9..9));
        let form = match rng.u32(..3) {
            0 => nested.expect("a form without overflow"),
            _ => random_form(rng, number, 3),
        };
        let quotient = self.symbols.quotient(&form, divisor).expect("a quotient");
        let asked = (form.clone(), divisor, quotient.clone());
        self.quotients.push(asked);
        let has_new = quotient.coefficient(number as u32) != 0;
        if !has_new {
            return;
        }
        let own = big(&Form::symbol(number as u32));
        let Kind::Quotient(form, divisor) = self.symbols.info(number as u32).kind.clone() else {
            panic!("a symbol that is no quotient");
        };
        let dividend = big(&form);
        let by = BigInt::from(divisor);
        let ends = [
            low(&self.unknowns, &dividend),
            high(&self.unknowns, &dividend),
        ];
        let [low, high] = ends.map(|end| end.map(|end| floor(&end, &by)));
        self.unknown(Meaning::Quotient(form, divisor), low, high);
        self.unknowns[number].facts = facts_of_quotient(&dividend, &own, &by);
        // A quotient of a quotient has the facts about the inner one, too.
        let (asked, by, _) = self
            .quotients
            .last()
            .expect("the quotient that was asked for");
        if *by != divisor {
            let mut rest = asked.only(|_, coefficient| coefficient % by != 0);
            rest.constant = asked.constant;
            let more = facts_of_quotient(&big(&rest), &own, &(*by).into());
            self.unknowns[number].facts.extend(more);
        }
    }

    /// Adds a minimum, a maximum, or one of several forms.
    fn add_choice(&mut self, rng: &mut Rng) {
        let number = self.unknowns.len();
        let selection = [Selection::Any(0), Selection::Min, Selection::Max][rng.usize(..3)];
        let count = match selection {
            Selection::Any(_) => rng.usize(2..4),
            _ => 2,
        };
        let alternatives: Vec<Alternative> = (0..count)
            .map(|_| {
                let facts = match selection {
                    Selection::Any(_) => rng.usize(..2),
                    _ => 0,
                };
                Alternative {
                    form: random_form(rng, number, 3),
                    facts: (0..facts).map(|_| random_form(rng, number, 3)).collect(),
                }
            })
            .collect();
        let value = number as u32 + 1;
        let forms: Vec<&Form> = alternatives.iter().map(|it| &it.form).collect();
        let choice = match selection {
            Selection::Any(_) => {
                let none = |_: &Form| Vec::new();
                let cases = alternatives.clone();
                self.symbols.choice(value, 0, selection, cases, none)
            }
            _ => {
                let is_max = selection == Selection::Max;
                self.symbols.extreme(value, 0, [forms[0], forms[1]], is_max)
            }
        };
        let own = Form::symbol(number as u32);
        assert_eq!(choice.as_ref(), Some(&own));
        let forms: Vec<Big> = forms.into_iter().map(big).collect();
        let lows: Vec<_> = forms.iter().map(|form| low(&self.unknowns, form)).collect();
        let highs: Vec<_> = forms
            .iter()
            .map(|form| high(&self.unknowns, form))
            .collect();
        let all = |ends: &[Option<BigInt>]| ends.iter().cloned().collect::<Option<Vec<_>>>();
        // One end of a minimum is known if that of one form is.
        let low = match selection {
            Selection::Max => lows.into_iter().flatten().max(),
            _ => all(&lows).and_then(|ends| ends.into_iter().min()),
        };
        let high = match selection {
            Selection::Min => highs.into_iter().flatten().min(),
            _ => all(&highs).and_then(|ends| ends.into_iter().max()),
        };
        let cases = alternatives.iter();
        let cases = cases.map(|it| (big(&it.form), it.facts.iter().map(big).collect()));
        let cases = cases.collect();
        self.unknown(Meaning::Choice(alternatives, selection), low, high);
        self.unknowns[number].cases = cases;
        let own = big(&own);
        let sign = match selection {
            Selection::Any(_) => return,
            Selection::Min => BigInt::from(-1),
            Selection::Max => BigInt::from(1),
        };
        let facts = forms
            .iter()
            .map(|form| combined(form, &sign, &own, &-&sign));
        self.unknowns[number].facts = facts.collect();
    }
}

/// 0 ≤ dividend - divisor · q ≤ divisor - 1
fn facts_of_quotient(dividend: &Big, q: &Big, divisor: &BigInt) -> Vec<Big> {
    let below = combined(dividend, &(-1).into(), q, divisor);
    let mut above = combined(dividend, &1.into(), q, &-divisor);
    above.1 += 1 - divisor;
    vec![below, above]
}

/// A system whose plain symbols have ranges up to `size`, with `derived` quotients and choices.
fn system(rng: &mut Rng, size: i128, is_bounded: bool, derived: usize) -> System {
    let mut system = System {
        symbols: Symbols::default(),
        unknowns: Vec::new(),
        facts: Vec::new(),
        form: Form::default(),
        quotients: Vec::new(),
    };
    for number in 0..PLAIN as u32 {
        let low = rng.i128(-size..=size);
        // A symbol with one value is a number.
        let least = i128::from(derived == 0 || rng.u32(..8) > 0);
        let high = (is_bounded || rng.bool()).then(|| low + rng.i128(least..=size));
        let kind = Kind::Opaque(number + 1, low, high.unwrap_or(0));
        let symbol = system.symbols.simple(kind, Some(low), high, None);
        assert_eq!(symbol, Some(number));
        system.unknown(Meaning::Any, Some(low.into()), high.map(BigInt::from));
    }
    for _ in 0..derived {
        match rng.bool() {
            true => system.add_quotient(rng),
            false => system.add_choice(rng),
        }
    }
    let (count, most) = (system.unknowns.len(), size.clamp(4, 1 << 70));
    system.facts = (0..2).map(|_| random_form(rng, count, most)).collect();
    system.form = random_form(rng, count, most);
    system
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

/// The largest value of a form that is at most `end`, as far as its coefficients show.
fn rounded(unknowns: &[Unknown], form: &Big, end: BigInt) -> BigInt {
    let (mut divisor, mut constant) = (BigInt::ZERO, form.1.clone());
    for (by, unknown) in form.0.iter().zip(unknowns) {
        match unknown.low.as_ref().filter(|_| unknown.low == unknown.high) {
            Some(value) => constant += by * value,
            None => divisor = gcd(&divisor, by),
        }
    }
    match divisor > BigInt::from(1) {
        true => floor(&(end - &constant), &divisor) * divisor + constant,
        false => end,
    }
}

/// The smallest bound after at most `depth` subtractions of facts. Counts the subtractions.
fn search(
    unknowns: &[Unknown],
    facts: &[Big],
    form: &Big,
    depth: u32,
    steps: &Cell<u32>,
) -> Option<BigInt> {
    let mut best = high(unknowns, form);
    if depth == 0 {
        return best;
    }
    let zero = BigInt::ZERO;
    // Symbols without an end come first.
    let is_open = best.is_none();
    for (index, (by, unknown)) in form.0.iter().zip(unknowns).enumerate() {
        let end = if by < &zero {
            &unknown.low
        } else {
            &unknown.high
        };
        let is_point = unknown.low.is_some() && unknown.low == unknown.high;
        if is_point || is_open && end.is_some() {
            continue;
        }
        for fact in facts.iter().chain(&unknown.facts) {
            let other = &fact.0[index];
            if by == &zero || other == &zero || (by > &zero) != (other > &zero) {
                continue;
            }
            steps.set(steps.get() + 1);
            let divisor = gcd(by, other);
            let abs = |value: &BigInt| BigInt::from(value.magnitude().clone());
            let (times, factor) = (abs(other) / &divisor, abs(by) / &divisor);
            let rest = combined(form, &times, fact, &-factor);
            if let Some(bound) = search(unknowns, facts, &rest, depth - 1, steps) {
                let bound = rounded(unknowns, form, floor(&bound, &times));
                best = Some(best.map_or(bound.clone(), |best| best.min(bound)));
            }
        }
    }
    best
}

/// The smallest bound, also from the cases of up to `splits` choices.
fn upper(
    unknowns: &[Unknown],
    facts: &[Big],
    form: &Big,
    splits: u32,
    steps: &Cell<u32>,
) -> Option<BigInt> {
    let best = search(unknowns, facts, form, DEPTH_OF_ACCESS, steps);
    let terms = form.0.iter().zip(unknowns).enumerate().rev();
    let mut choices =
        terms.filter(|(_, (by, unknown))| by.sign() != Sign::NoSign && !unknown.cases.is_empty());
    let Some((symbol, (_, choice))) = choices.next().filter(|_| splits > 0) else {
        return best;
    };
    let mut worst: Option<BigInt> = None;
    for (case, more) in &choice.cases {
        let replaced = |form: &Big| {
            let by = form.0[symbol].clone();
            let mut rest = form.clone();
            rest.0[symbol] = BigInt::ZERO;
            combined(&rest, &1.into(), case, &by)
        };
        let mut inner: Vec<Big> = facts.iter().map(replaced).collect();
        inner.extend(more.iter().cloned());
        let Some(bound) = upper(unknowns, &inner, &replaced(form), splits - 1, steps) else {
            return best;
        };
        worst = worst.max(Some(bound));
    }
    match best {
        Some(best) => worst.map(|worst| worst.min(best)),
        None => worst,
    }
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

/// Compares bounds of systems with `derived` quotients and choices. Returns how many are the same.
fn compare(rng: &mut Rng, rounds: usize, derived: usize) -> u32 {
    let (mut same, mut weaker, mut limited) = (0, 0, 0);
    for round in 0..rounds {
        // Small numbers never overflow; large ones do in 128 bits, which may only weaken a bound.
        let size = [5, 1 << 12, 1 << 64, 1 << 76][round % 4];
        let system = system(rng, size, round % 3 == 0, derived);
        let facts: Vec<Big> = system.facts.iter().map(big).collect();
        let steps = Cell::new(0);
        let expected = upper(&system.unknowns, &facts, &big(&system.form), 2, &steps);
        let is_limited = steps.get() >= STEPS;
        limited += u32::from(is_limited);
        match (found(&system), expected) {
            (None, None) => same += 1,
            (Some(found), Some(expected)) if BigInt::from(found) == expected => same += 1,
            (Some(found), Some(expected)) => {
                assert!(BigInt::from(found) > expected, "{found} {expected}");
                assert!(is_limited || size >= 1 << 64, "{found} {expected}");
                weaker += 1;
            }
            (None, Some(_)) => {
                assert!(is_limited || size >= 1 << 64);
                weaker += 1;
            }
            (Some(found), None) => panic!("{found} without a bound"),
        }
    }
    println!("{same} bounds are the same, {weaker} weaker; {limited} searches are long");
    same
}

#[test]
fn bounds_agree_with_big_integers() {
    let mut rng = Rng::with_seed(7);
    assert!(compare(&mut rng, 3000, 0) > 1700);
    assert!(compare(&mut rng, 1500, 1) > 800);
    assert!(compare(&mut rng, 1500, 2) > 800);
}

/// All values that a symbol may have, given those of the symbols before it.
fn values(unknown: &Unknown, point: &[i128]) -> Vec<i128> {
    let at = |form: &Form| value(form, point);
    match &unknown.meaning {
        Meaning::Any => {
            let end = |end: &Option<BigInt>| {
                let end = end.as_ref().expect("a bounded symbol");
                i128::try_from(end).expect("a small number")
            };
            (end(&unknown.low)..=end(&unknown.high)).collect()
        }
        Meaning::Quotient(form, divisor) => vec![at(form).div_euclid(*divisor)],
        Meaning::Choice(cases, selection) => {
            let values = cases
                .iter()
                .filter(|case| case.facts.iter().all(|fact| at(fact) <= 0))
                .map(|case| at(&case.form));
            match selection {
                Selection::Any(_) => values.collect(),
                Selection::Min => values.min().into_iter().collect(),
                Selection::Max => values.max().into_iter().collect(),
            }
        }
    }
}

fn value(form: &Form, point: &[i128]) -> i128 {
    let terms = point.iter().zip(0..);
    let terms = terms.map(|(x, symbol)| x * form.coefficient(symbol));
    terms.sum::<i128>() + form.constant
}

/// Calls `visit` for all points that begin with `point`.
fn points(system: &System, point: &mut Vec<i128>, visit: &mut dyn FnMut(&[i128])) {
    let Some(unknown) = system.unknowns.get(point.len()) else {
        return visit(point);
    };
    for value in values(unknown, point) {
        point.push(value);
        points(system, point, visit);
        point.pop();
    }
}

#[test]
fn no_point_is_above_its_bound() {
    let mut rng = Rng::with_seed(8);
    for derived in [0, 1, 2] {
        let (mut count, mut reached) = (0u64, 0u64);
        for _ in 0..1000 {
            let system = system(&mut rng, 4, true, derived);
            let bound = found(&system).expect("all symbols are bounded");
            let mut most = None;
            points(&system, &mut Vec::new(), &mut |point| {
                for (dividend, divisor, quotient) in &system.quotients {
                    let expected = value(dividend, point).div_euclid(*divisor);
                    assert_eq!(value(quotient, point), expected, "{dividend:?} / {divisor}");
                }
                if system.facts.iter().all(|fact| value(fact, point) <= 0) {
                    count += 1;
                    most = most.max(Some(value(&system.form, point)));
                }
            });
            if let Some(most) = most {
                assert!(most <= bound, "{most} is above {bound}");
                reached += u64::from(most == bound);
            }
        }
        println!("{count} points, {reached} bounds are reached");
        assert!(
            count > 10_000 && reached > 100,
            "{count} points, {reached} reached"
        );
    }
}
