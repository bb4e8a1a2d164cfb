//! The ends of choices against all points of small systems.

use fastrand::Rng;

use super::super::form::Form;
use super::super::symbols::{Alternative, Kind, Symbols};

/// The symbols `x` and `y` have the values from 0 to this one.
const HIGH: i128 = 6;

fn random_form(rng: &mut Rng, x: u32, y: u32) -> Form {
    let form = Form::number(rng.i128(-6..=6));
    let form = form.combine(1, &Form::symbol(x), rng.i128(-2..=2)).unwrap();
    form.combine(1, &Form::symbol(y), rng.i128(-1..=1)).unwrap()
}

#[test]
fn no_choice_is_beyond_its_ends() {
    let mut rng = Rng::with_seed(11);
    let (mut ends, mut by_facts) = (0, 0);
    for _ in 0..2000 {
        let mut symbols = Symbols::default();
        let mut symbol = |value| {
            let kind = Kind::Opaque(value, 0, HIGH);
            symbols.simple(kind, Some(0), Some(HIGH), None).unwrap()
        };
        let (x, y) = (symbol(1), symbol(2));
        let at = |form: &Form, point: (i128, i128)| {
            form.constant + form.coefficient(x) * point.0 + form.coefficient(y) * point.1
        };
        let alternatives: Vec<Alternative> = (0..rng.usize(2..4))
            .map(|_| Alternative {
                form: random_form(&mut rng, x, y),
                facts: (0..rng.usize(..3))
                    .map(|_| random_form(&mut rng, x, y))
                    .collect(),
            })
            .collect();
        for (end, sign) in symbols.ends(&alternatives) {
            ends += 1;
            let points = (0..=HIGH).flat_map(|x| (0..=HIGH).map(move |y| (x, y)));
            let mut needs_facts = false;
            for point in points {
                for case in &alternatives {
                    let is_above = sign * at(&case.form, point) > sign * at(&end, point);
                    let holds = case.facts.iter().all(|fact| at(fact, point) <= 0);
                    assert!(!(is_above && holds), "{alternatives:?} {end:?} {sign}");
                    needs_facts |= is_above;
                }
            }
            by_facts += u32::from(needs_facts);
        }
    }
    assert!(
        ends > 1000 && by_facts > 50,
        "{ends} ends, {by_facts} by facts"
    );
}
