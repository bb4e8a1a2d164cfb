//! Arithmetic of forms against that of numbers.

use fastrand::Rng;

use super::super::form::Form;

fn random(rng: &mut Rng) -> Form {
    let mut form = Form::number(rng.i128(-100..100));
    for symbol in 0..4 {
        if rng.bool() {
            form = form
                .combine(1, &Form::symbol(symbol), rng.i128(-9..9))
                .unwrap();
        }
    }
    form
}

fn value(form: &Form, point: &[i128; 4]) -> i128 {
    let terms = form
        .terms()
        .iter()
        .map(|&(symbol, by)| by * point[symbol as usize]);
    terms.sum::<i128>() + form.constant
}

#[test]
fn operations_on_forms_are_those_on_their_values() {
    let mut rng = Rng::with_seed(3);
    for _ in 0..5000 {
        let (a, b) = (random(&mut rng), random(&mut rng));
        let point = [0; 4].map(|_: i128| rng.i128(-50..50));
        let (x, y) = (value(&a, &point), value(&b, &point));
        let (m, n) = (rng.i128(-9..9), rng.i128(-9..9));
        assert_eq!(value(&a.combine(m, &b, n).unwrap(), &point), x * m + y * n);
        assert_eq!(value(&a.sub(&b).unwrap(), &point), x - y);
        assert_eq!(value(&a.plus(m).unwrap(), &point), x + m);
        let bits = rng.u32(1..65);
        let reduced = value(&a.clone().reduced(bits), &point);
        assert_eq!((reduced - x).rem_euclid(1 << bits), 0);
        let mut replaced = point;
        replaced[1] = y;
        assert_eq!(
            value(&a.substitute(1, &b).unwrap(), &point),
            value(&a, &replaced)
        );
        if a.is_multiple_of(6) {
            assert_eq!(x % 6, 0);
        }
        assert!(a.terms().iter().all(|term| term.1 != 0));
    }
}

#[test]
fn overflow_gives_no_form() {
    let large = Form::symbol(0).scale(i128::MAX).unwrap();
    assert_eq!(large.scale(2), None);
    assert_eq!(large.add(&large), None);
    assert_eq!(Form::number(i128::MAX).plus(1), None);
    let long = (0..30).try_fold(Form::default(), |sum, symbol| {
        sum.add(&Form::symbol(symbol))
    });
    assert_eq!(long, None);
}
